"""The naive second implementation: log joint, Jacobians and P as plain autograd loops."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from .networks import PRECISION, SIGMA, SIGMAS, NetworkCase, split


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def targets(network: NetworkCase, batch: Any) -> Tensor:
    return batch[-1] if network.forward else split(batch)[1]


def scored(network: NetworkCase, outputs: Tensor, batch: Any) -> Tensor:
    """1 for every output that meets a label, 0 where the label is ignored."""
    y, ones = targets(network, batch), torch.ones_like(outputs)
    if network.name == "segmenter":
        return ones * (y >= 0).unsqueeze(1)
    if "gpt2" in network.name:
        ones[:, -1] = 0
        ones[:, :-1] *= (y[:, 1:] >= 0).unsqueeze(-1)
    return ones


def log_likelihood(network: NetworkCase, outputs: Tensor, batch: Any) -> tuple[Tensor, int]:
    """Σ log p(y | f), constants included, and the number of data."""
    y = targets(network, batch)
    if network.name == "rater":
        bernoulli = torch.distributions.Bernoulli(logits=outputs[:, 0])
        return bernoulli.log_prob(y.double()).sum(), len(y)
    if outputs.shape == y.shape:
        sigma = SIGMAS.double() if network.name == "two_heads" else SIGMA
        return torch.distributions.Normal(outputs, sigma).log_prob(y).sum(), len(y)
    if network.name == "segmenter":
        outputs = outputs.permute(0, 2, 3, 1)
    if "gpt2" in network.name:
        outputs, y = outputs[:, :-1], y[:, 1:]
    known = y >= 0
    loss = functional.cross_entropy(outputs[known], y[known], reduction="sum")
    return -loss, int(known.sum())


def log_prior(parameters: Mapping[str, Tensor]) -> Tensor:
    terms = [
        (-0.5 * PRECISION * p**2 + 0.5 * math.log(PRECISION / (2 * math.pi))).sum()
        for p in parameters.values()
    ]
    return torch.stack(terms).sum()


def jacobian(network: NetworkCase, model: nn.Module, batch: Any) -> Tensor:
    """J(x), [outputs of the batch, dim θ], one backward pass per row."""
    parameters = trainable(model)
    outputs = network.output(model, batch).flatten()
    rows = []
    for entry in outputs:
        grads = torch.autograd.grad(
            entry, list(parameters.values()), retain_graph=True, allow_unused=True
        )
        parts = [
            torch.zeros(p.numel()).to(p) if g is None else g.flatten()
            for p, g in zip(parameters.values(), grads, strict=True)
        ]
        rows.append(torch.cat(parts))
    return torch.stack(rows)


def ggn_precision(network: NetworkCase, model: nn.Module, batch: Any) -> Tensor:
    """Jᵀ Λ J + prior precision, with Λ by automatic differentiation of the log likelihood."""
    outputs = network.output(model, batch).detach()

    def negative(flat: Tensor) -> Tensor:
        return -log_likelihood(network, flat.view_as(outputs), batch)[0]

    curvature = torch.autograd.functional.hessian(negative, outputs.flatten())
    assert isinstance(curvature, Tensor)
    j = jacobian(network, model, batch)
    return j.T @ curvature @ j + PRECISION * torch.eye(j.shape[1], dtype=j.dtype)


def hessian_product(
    network: NetworkCase, model: nn.Module, batch: Any, v: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """−∇²L v by differentiating twice, attention in its plain form."""
    parameters = trainable(model)
    with sdpa_kernel(SDPBackend.MATH):
        outputs = network.output(model, batch)
        total = log_likelihood(network, outputs, batch)[0] + log_prior(parameters)
        leaves = list(parameters.values())
        grads = torch.autograd.grad(total, leaves, create_graph=True)
        inner = sum((g * v[k]).sum() for k, g in zip(parameters, grads, strict=True))
        second = torch.autograd.grad(inner, leaves)
    return {k: -h for k, h in zip(parameters, second, strict=True)}
