"""Log likelihoods, output curvatures and the prior, written out by hand from their formulas."""

from __future__ import annotations

import math

import torch
from torch import Tensor

IGNORED = -100


def log_likelihood(kind: str, outputs: Tensor, targets: Tensor, sigma: float) -> Tensor:
    """The sum over everything in the batch of log p(y | f)."""
    if kind == "gaussian":
        constant = math.log(sigma) + 0.5 * math.log(2 * math.pi)
        return (-0.5 * ((targets - outputs) / sigma) ** 2 - constant).sum()
    if kind == "bernoulli":
        return (targets * outputs - torch.log1p(torch.exp(outputs))).sum()
    kept = targets != IGNORED
    chosen = outputs[kept].gather(-1, targets[kept].unsqueeze(-1)).squeeze(-1)
    return (chosen - torch.log(torch.exp(outputs[kept]).sum(dim=-1))).sum()


def output_curvature(kind: str, outputs: Tensor, targets: Tensor, sigma: float) -> Tensor:
    """Λ of one example: the matrix -d² log p(y | f) / df df over all of its outputs, flattened."""
    if kind == "gaussian":
        return torch.eye(outputs.numel(), dtype=outputs.dtype) / sigma**2
    if kind == "bernoulli":
        probability = 1 / (1 + torch.exp(-outputs.flatten()))
        return torch.diag(probability * (1 - probability))
    rows = outputs.reshape(-1, outputs.shape[-1])
    blocks = [
        _softmax_curvature(row) * (target != IGNORED)
        for row, target in zip(rows, targets.flatten(), strict=True)
    ]
    return torch.block_diag(*blocks)


def _softmax_curvature(logits: Tensor) -> Tensor:
    probability = torch.exp(logits) / torch.exp(logits).sum()
    return torch.diag(probability) - torch.outer(probability, probability)


def log_prior(theta: Tensor, mean: Tensor, precision: Tensor) -> Tensor:
    """The log density of independent Gaussians with these means and precisions."""
    quadratic = -0.5 * precision * (theta - mean) ** 2
    return (quadratic + 0.5 * torch.log(precision / (2 * math.pi))).sum()
