"""The methods of the synthetic study: a table of name → how it is fitted.

Both amortized forms are the paper's Algorithm 1: warm-started at θ̂, one-sided, at a finite λ that
validation NLL chooses, refitted until it converges. Full batches in place of its stochastic
gradient reach the same θ̂(r̂, λ) without noise.

Algorithm 3 is refitted by plain L-BFGS. Its ‖θ‖₁ bends where a parameter is 0, and at the MAP of a
sine network most are: the prior switches units off. `whitened` mixes the parameters, so that every
direction of its line search meets such a bend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from regvar import baselines
from regvar.curvature import GGN, Hessian
from regvar.errors import DataError
from regvar.estimators import Estimator, Parameter, amortized, parameter, pointwise, sampled
from regvar.experiments.synthetic.problem import Problem
from regvar.experiments.synthetic.whitened import whitened
from regvar.solvers import ConjugateGradient, Finetune

PARAMETER = "parameter"  # Algorithm 3: no predictions


@dataclass(frozen=True)
class Fitted:
    """An estimator, and how its λ was chosen when it has one."""

    uq: Estimator
    lam: float | None = None
    lam_sweep: Mapping[str, list[float]] | None = None  # {"lam", "nll"}


def by_refit(problem: Problem, probes: Tensor | None) -> Fitted:
    """Algorithm 1 at every λ of the grid; validation NLL chooses."""
    inputs = problem.data["validation"][0]
    best: tuple[float, float, Estimator] | None = None
    scores: list[float] = []
    for lam in problem.config.lam:
        uq = amortized(problem.joint, probes, refit(problem, lam))
        moments = uq.moments(inputs)
        scores.append(problem.score("validation", moments.mean, moments.variance))
        if best is None or scores[-1] < best[0]:
            best = (scores[-1], lam, uq)
    if best is None:
        raise DataError("lam of the configuration must hold one λ or more, but is empty.")
    return Fitted(best[2], best[1], {"lam": list(problem.config.lam), "nll": scores})


def refit(problem: Problem, lam: float) -> Finetune:
    """The solver of Algorithm 1."""
    optimizer = whitened(problem.joint, problem.config.refit_passes)
    return Finetune(lam=lam, lr=1.0, optimizer=optimizer, full_batch=True)


def by_parameters(problem: Problem) -> tuple[Parameter, float]:
    """Algorithm 3, and its λ."""
    lam = problem.config.parameter_lam
    optimizer = partial(
        torch.optim.LBFGS,
        max_iter=problem.config.refit_passes,
        history_size=50,
        tolerance_grad=1e-14,
        tolerance_change=1e-18,
        line_search_fn="strong_wolfe",
    )
    solver = Finetune(lam=lam, lr=1.0, optimizer=optimizer, full_batch=True)
    return parameter(problem.joint, solver), lam


def _pointwise(problem: Problem) -> Fitted:
    """Algorithm 2 in the limit λ → 0, with both terms of Eq. 5."""
    return Fitted(pointwise(problem.joint, ConjugateGradient(Hessian())))


def _sampled(problem: Problem) -> Fitted:
    solver = ConjugateGradient(GGN())
    return Fitted(sampled(problem.joint, problem.config.samples, solver, problem.seed))


METHODS: Mapping[str, Callable[[Problem], Fitted]] = {
    "exact_hessian": lambda problem: Fitted(baselines.exact_hessian(problem.joint)),
    "ggn": lambda problem: Fitted(baselines.ggn(problem.joint)),
    "eigenvectors": lambda problem: Fitted(baselines.eigenvectors(problem.joint)),
    "amortized_eval": lambda problem: by_refit(problem, problem.evaluation),
    "amortized_in_sample": lambda problem: by_refit(problem, None),
    "pointwise": _pointwise,
    "sampled": _sampled,
    "map_only": lambda problem: Fitted(baselines.map_only(problem.joint)),
    "temperature": lambda problem: Fitted(baselines.temperature(problem.joint)),
}
