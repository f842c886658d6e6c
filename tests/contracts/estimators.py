"""The table of estimators, each with a cheap solver: the contract holds converged or not."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import regvar
from regvar import baselines

from .networks import BY_NAME, CASES, NetworkCase

LAM = 0.5
REGRESSIONS = ("mlp", "frozen", "two_heads")
# Both queries of "tied" hold the token whose output is the largest of all, and share its gradient.
UNLIKE = tuple(name for name in BY_NAME if name != "tied")


@dataclass(frozen=True)
class EstimatorCase:
    """One estimator; `fit(network, joint, seed)` makes it."""

    name: str
    fit: Callable[[NetworkCase, regvar.LogJoint, int], Any]
    random: bool = False  # another seed gives another answer
    constant: bool = False  # the variance is one number for all outputs, by definition
    own_mean: bool = False  # the mean is not the fitted network's output
    solves: bool = True  # a solve (refit, factorization) is reported in `.solution`
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


def map_only(_: NetworkCase, joint: regvar.LogJoint, seed: int) -> Any:
    return baselines.map_only(joint)


def temperature(_: NetworkCase, joint: regvar.LogJoint, seed: int) -> Any:
    return baselines.temperature(joint)


def pretrained(_: NetworkCase, joint: regvar.LogJoint, seed: int) -> Any:
    """The weights before fine-tuning: here simply a network a little way off."""
    before = {
        name: p + 0.01 * p.requires_grad * torch.cos(p)
        for name, p in joint.model.named_parameters()
    }
    return baselines.pretrained(joint, before)


def drift(_: NetworkCase, joint: regvar.LogJoint, seed: int) -> Any:
    return baselines.drift(joint, solver=refit(seed))


def mc_dropout(_: NetworkCase, joint: regvar.LogJoint, seed: int) -> Any:
    return baselines.mc_dropout(joint, rate=0.4, passes=5, seed=seed)


def gradient_norm(_: NetworkCase, joint: regvar.LogJoint, seed: int) -> Any:
    return baselines.gradient_norm(joint)


def gradient_norms(_: NetworkCase, joint: regvar.LogJoint, seed: int) -> Any:
    return baselines.gradient_norm(joint, per_output=True)


def ggn(_: NetworkCase, joint: regvar.LogJoint, seed: int) -> Any:
    return baselines.ggn(joint)


def exact_hessian(_: NetworkCase, joint: regvar.LogJoint, seed: int) -> Any:
    return baselines.exact_hessian(joint)


def eigenvectors(_: NetworkCase, joint: regvar.LogJoint, seed: int) -> Any:
    return baselines.eigenvectors(joint, seed=0)


def last_layer_full(_: NetworkCase, joint: regvar.LogJoint, seed: int) -> Any:
    return baselines.laplace_last_layer_full(joint)


def last_layer_diag(_: NetworkCase, joint: regvar.LogJoint, seed: int) -> Any:
    return baselines.laplace_last_layer_diag(joint)


def last_layer_ensemble(_: NetworkCase, joint: regvar.LogJoint, seed: int) -> Any:
    return baselines.last_layer_ensemble(
        joint, heads=3, lr=0.05, optimizer=torch.optim.SGD, seed=seed
    )


def kfac(_: NetworkCase, joint: regvar.LogJoint, seed: int) -> Any:
    return baselines.laplace_torch(joint)


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
    EstimatorCase("from_refit", from_refit, solves=False),
]
BASELINES = [
    EstimatorCase("map_only", map_only, constant=True, solves=False),
    EstimatorCase("pretrained", pretrained, constant=True, own_mean=True, solves=False),
    EstimatorCase("temperature", temperature, constant=True, solves=False),
    EstimatorCase("drift", drift),
    EstimatorCase("mc_dropout", mc_dropout, random=True, own_mean=True, solves=False),
    EstimatorCase("gradient_norm", gradient_norm, solves=False, networks=UNLIKE),
    EstimatorCase("gradient_norms", gradient_norms, solves=False),
    EstimatorCase("ggn", ggn),
    EstimatorCase("exact_hessian", exact_hessian),
    EstimatorCase("eigenvectors", eigenvectors),
    EstimatorCase("last_layer_full", last_layer_full, solves=False),
    EstimatorCase("last_layer_diag", last_layer_diag, solves=False),
    EstimatorCase(
        "last_layer_ensemble", last_layer_ensemble, random=True, own_mean=True, solves=False
    ),
]
if importlib.util.find_spec("laplace") is not None:
    BASELINES.append(EstimatorCase("kfac", kfac, solves=False, networks=("mlp", "frozen")))
CASES_WITH_MOMENTS += BASELINES
ESTIMATORS = [*CASES_WITH_MOMENTS, PARAMETER]


def pairs(
    estimators: list[EstimatorCase] = CASES_WITH_MOMENTS,
) -> list[tuple[EstimatorCase, NetworkCase]]:
    """Every estimator with every network it is meant for."""
    return [(e, n) for n in CASES for e in estimators if n.name in e.networks]


def label(case: object) -> str:
    """How pytest names a case."""
    return getattr(case, "name", repr(case))
