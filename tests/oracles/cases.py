"""One shared table of problems: networks x likelihoods, each trained in float64 to its MAP."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor, nn

from tests.oracles.dense import (
    Problem,
    flat_gradient,
    log_joint,
    negative_hessian,
)
from tests.oracles.densities import IGNORED
from tests.oracles.networks import (
    SEQUENCE_NETWORKS,
    STEPS,
    AttentionNet,
    FusedAttentionNet,
    GatedNet,
    RecurrentNet,
    ResidualNet,
    TaggerNet,
    TanhNet,
)

OUTPUTS = {"gaussian": 2, "categorical": 3, "bernoulli": 2}
BATCH_SIZES = (8, 3, 7)  # unequal on purpose: an average of batch averages would be wrong
QUERIES = 3


@dataclass(frozen=True)
class Case:
    """A row of the table."""

    network: type[nn.Module]
    likelihood: str

    def __str__(self) -> str:
        return f"{self.network.__name__}-{self.likelihood}"


PLAIN_NETWORKS = (TanhNet, GatedNet, ResidualNet, RecurrentNet, AttentionNet)
CASES = [Case(network, likelihood) for network in PLAIN_NETWORKS for likelihood in OUTPUTS]
CASES += [Case(TaggerNet, "categorical"), Case(FusedAttentionNet, "gaussian")]


def at_map(case: Case) -> Problem:
    """The case at its MAP; the network is the caller's own copy."""
    problem = _trained(case)
    return replace(problem, model=copy.deepcopy(problem.model))


@cache
def _trained(case: Case) -> Problem:
    problem = untrained(case)
    _lbfgs(problem)
    _newton(problem)
    if flat_gradient(log_joint(problem), problem.model).norm() > 1e-9:
        raise RuntimeError(f"{case}: not at a stationary point")
    if torch.linalg.eigvalsh(negative_hessian(problem)).min() <= 0:
        raise RuntimeError(f"{case}: a saddle, not a maximum")
    return problem


def untrained(case: Case) -> Problem:
    """The case at its random start."""
    generator = torch.Generator().manual_seed(CASES.index(case))
    model = case.network(OUTPUTS[case.likelihood]).double()
    for weight in model.parameters():
        weight.data = 0.7 * torch.randn(weight.shape, generator=generator, dtype=torch.float64)
    x, y = _data(case, generator)
    queries = 1.5 * torch.randn((QUERIES, *x.shape[1:]), generator=generator, dtype=torch.float64)
    batches = list(zip(x.split(BATCH_SIZES), y.split(BATCH_SIZES), strict=True))
    problem = Problem(model, batches, queries, case.likelihood, sigma=0.6, precision=1.0)
    return problem if case.network is TanhNet else _with_uneven_prior(problem, generator)


def _data(case: Case, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Inputs, and targets that a seeded smooth function and noise make of them."""
    shape = (sum(BATCH_SIZES), STEPS, 2) if case.network in SEQUENCE_NETWORKS else (18, 2)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    mixing = torch.randn((2, OUTPUTS[case.likelihood]), generator=generator, dtype=torch.float64)
    seen = x if x.ndim == 2 or case.network is TaggerNet else x.mean(dim=1)
    latent = torch.sin(1.5 * seen @ mixing)
    latent = latent + 0.3 * torch.randn(latent.shape, generator=generator, dtype=torch.float64)
    if case.likelihood == "gaussian":
        return x, latent
    if case.likelihood == "bernoulli":
        return x, (latent > 0).double()
    labels = latent.argmax(dim=-1)
    if case.network is TaggerNet:
        labels[torch.rand(labels.shape, generator=generator) < 0.2] = IGNORED
    return x, labels


def _with_uneven_prior(problem: Problem, generator: torch.Generator) -> Problem:
    """Another precision for each parameter, and a mean that is not zero.

    Under an even prior of mean zero a rotation of an attention's query and key together changes
    nothing, so that P would be singular, and whole units of gated networks shrink to exactly
    zero, where |θ| has no derivative.
    """
    weights = dict(problem.model.named_parameters())
    precision = {name: 0.5 + 0.25 * i for i, name in enumerate(weights)}
    mean = {
        name: 0.5 * torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        for name, weight in weights.items()
    }
    return replace(problem, precision=precision, mean=mean)


def _lbfgs(problem: Problem) -> None:
    optimizer = torch.optim.LBFGS(
        problem.model.parameters(),
        max_iter=500,
        tolerance_grad=1e-10,
        tolerance_change=0.0,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = -log_joint(problem)
        loss.backward()
        return loss

    optimizer.step(closure)
    optimizer.zero_grad()


def _newton(problem: Problem, steps: int = 2) -> None:
    """Steps of Newton's method from a point already close to the maximum."""
    for _ in range(steps):
        gradient = flat_gradient(log_joint(problem), problem.model)
        step = torch.linalg.solve(negative_hessian(problem), gradient)
        theta = nn.utils.parameters_to_vector(problem.model.parameters()).detach() + step
        nn.utils.vector_to_parameters(theta, problem.model.parameters())
