"""The same problems as a user of regvar would state them, and comparisons against the oracle."""

from __future__ import annotations

from functools import cache, partial

import torch
from torch import Tensor

import regvar
from tests.oracles.cases import Case, at_map
from tests.oracles.dense import Oracle, Problem

# no line search: it compares values of L, which are known to √eps of the way and no better
LBFGS = partial(torch.optim.LBFGS, max_iter=300, tolerance_grad=1e-13, tolerance_change=0.0)


def log_joint(problem: Problem) -> regvar.LogJoint:
    likelihoods = {
        "gaussian": regvar.Gaussian(sigma=problem.sigma),
        "categorical": regvar.Categorical(),
        "bernoulli": regvar.Bernoulli(),
    }
    return regvar.LogJoint(
        problem.model,
        problem.batches,
        likelihood=likelihoods[problem.likelihood],
        prior=regvar.GaussianPrior(precision=problem.precision, mean=problem.mean),
    )


@cache
def oracle(case: Case, curvature: str) -> Oracle:
    """The exact answers of a case, shared by all tests of a session."""
    return Oracle(at_map(case), curvature)


def exact_refit(lam: float, *, paired: bool = False) -> regvar.Finetune:
    """A refit on the full batch with LBFGS, stopped by rounding and by nothing before."""
    return regvar.Finetune(
        lam=lam, epochs=2, lr=1.0, optimizer=LBFGS, paired=paired, full_batch=True
    )


def relative_error(found: Tensor, exact: Tensor) -> float:
    """The largest error of any entry, relative to that entry."""
    assert found.shape == exact.shape
    return float(((found - exact).abs() / exact.abs()).max())


def error_in_norm(found: Tensor, exact: Tensor) -> float:
    """The error of the whole relative to the size of the whole, where entries may be near zero."""
    assert found.shape == exact.shape
    return float((found - exact).norm() / exact.norm())
