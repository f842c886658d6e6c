"""The naive oracle: dense float64 algebra by loops of ``autograd.grad`` and nothing of regvar."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.oracles.densities import IGNORED, log_likelihood, log_prior, output_curvature


@dataclass
class Problem:
    """A network, its data, likelihood and Gaussian prior, and the inputs it is asked about."""

    model: nn.Module
    batches: list[tuple[Tensor, Tensor]]
    queries: Tensor
    likelihood: str  # "gaussian", "categorical" or "bernoulli"
    sigma: float
    precision: float | dict[str, float]
    mean: dict[str, Tensor] | None = None

    @property
    def inputs(self) -> Tensor:
        return torch.cat([x for x, _ in self.batches])

    @property
    def targets(self) -> Tensor:
        return torch.cat([y for _, y in self.batches])


def flatten(tensors: dict[str, Tensor]) -> Tensor:
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors.values()])


def parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    return dict(model.named_parameters())


def prior_vectors(problem: Problem) -> tuple[Tensor, Tensor]:
    """The prior's mean and precision of every single weight."""
    means, precisions = {}, {}
    for name, weight in parameters(problem.model).items():
        given = problem.precision
        given = given[name] if isinstance(given, dict) else given
        precisions[name] = torch.full_like(weight, given)
        means[name] = torch.zeros_like(weight) if problem.mean is None else problem.mean[name]
    return flatten(means), flatten(precisions)


def log_joint(problem: Problem) -> Tensor:
    """L(θ) of Eq. 2, differentiable in the network's own parameters."""
    theta = torch.cat([weight.reshape(-1) for weight in problem.model.parameters()])
    value = log_prior(theta, *prior_vectors(problem))
    for x, y in problem.batches:
        value = value + log_likelihood(problem.likelihood, problem.model(x), y, problem.sigma)
    return value


def flat_gradient(value: Tensor, model: nn.Module, *, create_graph: bool = False) -> Tensor:
    weights = list(model.parameters())
    gradients = torch.autograd.grad(
        value, weights, create_graph=create_graph, retain_graph=True, allow_unused=True
    )
    pairs = zip(gradients, weights, strict=True)
    return torch.cat([(torch.zeros_like(w) if g is None else g).reshape(-1) for g, w in pairs])


def jacobian(model: nn.Module, x: Tensor) -> Tensor:
    """J: one row per example and output, one example at a time."""
    rows = []
    for i in range(len(x)):
        rows += [flat_gradient(output, model) for output in model(x[i : i + 1]).flatten()]
    return torch.stack(rows)


def negative_hessian(problem: Problem) -> Tensor:
    """P of Eq. 4 with both terms of Eq. 5: double backward of -L, row by row."""
    with sdpa_kernel(SDPBackend.MATH):
        gradient = flat_gradient(-log_joint(problem), problem.model, create_graph=True)
        return torch.stack([flat_gradient(entry, problem.model) for entry in gradient])


def ggn_precision(problem: Problem) -> Tensor:
    """P with the second term of Eq. 5 only: Σ JᵢᵀΛᵢJᵢ and the prior's precision."""
    precision = torch.diag(prior_vectors(problem)[1])
    for x, y in zip(problem.inputs, problem.targets, strict=True):
        rows = jacobian(problem.model, x.unsqueeze(0))
        outputs = problem.model(x.unsqueeze(0)).detach()
        curvature = output_curvature(problem.likelihood, outputs, y, problem.sigma)
        precision = precision + rows.T @ curvature @ rows
    return precision


class Oracle:
    """Every exact answer for one problem under one curvature ("ggn" or "hessian")."""

    def __init__(self, problem: Problem, curvature: str) -> None:
        self.problem = problem
        self.precision = (ggn_precision if curvature == "ggn" else negative_hessian)(problem)

    @cached_property
    def inverse(self) -> Tensor:
        return torch.linalg.inv(self.precision)

    def outputs(self, x: Tensor) -> Tensor:
        return self.problem.model(x).detach()

    def covariance(self, x1: Tensor, x2: Tensor) -> Tensor:
        """J(x1) P⁻¹ J(x2)ᵀ, [B1 · outputs, B2 · outputs]."""
        model = self.problem.model
        return jacobian(model, x1) @ self.inverse @ jacobian(model, x2).T

    def variance(self, x: Tensor) -> Tensor:
        """The diagonal of J P⁻¹ Jᵀ (Eq. 7), shaped as the outputs are."""
        return self.covariance(x, x).diagonal().reshape(self.outputs(x).shape)

    def amortized_displacement(self, probes: Tensor | None) -> Tensor:
        """P⁻¹ mean_j s_j J(x̂_j)ᵀ, the mean over inputs and the sum over outputs (Eq. 15).

        Without probes it is in-sample (Eq. 16), where positions whose label is ignored are no data.
        """
        x = self.problem.inputs if probes is None else probes
        signs = torch.sign(self.outputs(x))
        if probes is None and self.problem.likelihood == "categorical":
            signs[self.problem.targets == IGNORED] = 0.0
        return self.inverse @ (signs.flatten() @ jacobian(self.problem.model, x) / len(x))

    def response(self, x: Tensor, displacement: Tensor) -> Tensor:
        """J(x) δ, shaped as the outputs are."""
        return (jacobian(self.problem.model, x) @ displacement).reshape(self.outputs(x).shape)

    def amortized(self, x: Tensor, probes: Tensor | None) -> Tensor:
        """The absolute response of f(x) to the amortized regularizer."""
        return self.response(x, self.amortized_displacement(probes)).abs()

    def parameter(self) -> Tensor:
        """|P⁻¹ sign θ̂| (Eq. 18), flat."""
        return (self.inverse @ torch.sign(flatten(parameters(self.problem.model)))).abs()
