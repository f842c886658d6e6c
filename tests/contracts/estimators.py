"""The table of estimators, each with a cheap solver: the contract holds converged or not."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import regvar

from .networks import BY_NAME, CASES, NetworkCase

LAM = 0.5
REGRESSIONS = ("mlp", "frozen", "two_heads")


@dataclass(frozen=True)
class EstimatorCase:
    """One estimator; `fit(network, joint, seed)` makes it."""

    name: str
    fit: Callable[[NetworkCase, regvar.LogJoint, int], Any]
    random: bool = False  # another seed gives another answer
    networks: tuple[str, ...] = tuple(BY_NAME)


def krylov(iterations: int = 4) -> regvar.ConjugateGradient:
    return regvar.ConjugateGradient(regvar.GGN(), max_iterations=iterations)


def refit(seed: int = 0, *, paired: bool = False) -> regvar.Finetune:
    """One epoch of plain SGD."""
    return regvar.Finetune(
        lam=LAM, epochs=1, lr=0.05, optimizer=torch.optim.SGD, paired=paired, seed=seed
    )


def pointwise(_: NetworkCase, joint: regvar.LogJoint, seed: int) -> Any:
    return regvar.pointwise(joint, solver=krylov(2))


def in_sample(_: NetworkCase, joint: regvar.LogJoint, seed: int) -> Any:
    return regvar.amortized(joint, solver=krylov())


def with_probes(network: NetworkCase, joint: regvar.LogJoint, seed: int) -> Any:
    dtype = next(iter(joint.parameters.values())).dtype
    return regvar.amortized(joint, probes=[network.query_batch(dtype)], solver=krylov())


def with_hessian(_: NetworkCase, joint: regvar.LogJoint, seed: int) -> Any:
    return regvar.amortized(joint, solver=regvar.Minres(regvar.Hessian(), max_iterations=2))


def by_refit(_: NetworkCase, joint: regvar.LogJoint, seed: int) -> Any:
    return regvar.amortized(joint, solver=refit(seed, paired=True))


def data_augmentation(_: NetworkCase, joint: regvar.LogJoint, seed: int) -> Any:
    return regvar.data_augmentation(joint, solver=refit(seed))


def sampled(_: NetworkCase, joint: regvar.LogJoint, seed: int) -> Any:
    return regvar.sampled(joint, samples=3, solver=krylov(), seed=seed)


def sampled_by_refit(_: NetworkCase, joint: regvar.LogJoint, seed: int) -> Any:
    return regvar.sampled(joint, samples=2, solver=refit(), seed=seed)


def parameter(_: NetworkCase, joint: regvar.LogJoint, seed: int) -> Any:
    return regvar.parameter(joint, solver=krylov())


def from_refit(network: NetworkCase, joint: regvar.LogJoint, seed: int) -> Any:
    """The user's own refit: here simply a network a little way off."""
    refitted = copy.deepcopy(joint.model)
    with torch.no_grad():
        for p in refitted.parameters():
            p.add_(0.01 * p.requires_grad * torch.cos(p))
    return regvar.from_refit(joint.model, refitted, LAM, forward=network.forward)


PARAMETER = EstimatorCase("parameter", parameter)
CASES_WITH_MOMENTS = [
    EstimatorCase("pointwise", pointwise),
    EstimatorCase("in_sample", in_sample),
    EstimatorCase("with_probes", with_probes),
    EstimatorCase("with_hessian", with_hessian),
    EstimatorCase("by_refit", by_refit),
    EstimatorCase("data_augmentation", data_augmentation, networks=REGRESSIONS),
    EstimatorCase("sampled", sampled, random=True),
    EstimatorCase("sampled_by_refit", sampled_by_refit, random=True),
    EstimatorCase("from_refit", from_refit),
]
ESTIMATORS = [*CASES_WITH_MOMENTS, PARAMETER]


def pairs(
    estimators: list[EstimatorCase] = CASES_WITH_MOMENTS,
) -> list[tuple[EstimatorCase, NetworkCase]]:
    """Every estimator with every network it is meant for."""
    return [(e, n) for n in CASES for e in estimators if n.name in e.networks]


def label(case: object) -> str:
    """How pytest names a case."""
    return getattr(case, "name", repr(case))
