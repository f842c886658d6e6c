"""The same problems as a user of regvar would state them, and comparisons against the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial

import torch
from torch import Tensor
from torch.optim import Optimizer

import regvar
from tests.oracles.cases import Case, at_map
from tests.oracles.dense import Oracle, Problem

LBFGS = partial(
    torch.optim.LBFGS, max_iter=300, tolerance_grad=1e-12, tolerance_change=0.0, history_size=200
)


class FixedNewton(Optimizer):
    """θ ← θ - lr M ∇loss with one dense matrix M for all steps.

    Where it comes to rest the gradient is zero, whatever M is. With the inverse Hessian at the MAP
    a refit close by takes a handful of passes and is exact to rounding; a line search, which
    compares values of L, knows θ to 1e-8 and no better.
    """

    def __init__(self, weights: Iterable[Tensor], lr: float, matrix: Tensor) -> None:
        super().__init__(weights, {"lr": lr})
        self.matrix = matrix

    def step(self, closure: Callable[[], float]) -> float:
        loss = closure()
        group = self.param_groups[0]
        gradient = torch.cat([weight.grad.flatten() for weight in group["params"]])
        move = group["lr"] * self.matrix @ gradient
        parts = move.split([weight.numel() for weight in group["params"]])
        for weight, part in zip(group["params"], parts, strict=True):
            weight.data -= part.view_as(weight)
        return loss


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


def exact_refit(case: Case, lam: float, *, paired: bool = True) -> regvar.Finetune:
    """A refit of the case on its full batch, converged to rounding."""
    joint = log_joint(at_map(case))
    newton = partial(FixedNewton, matrix=oracle(case, "hessian").inverse)
    return regvar.Finetune(
        lam=lam, epochs=12, lr=joint.size, optimizer=newton, paired=paired, full_batch=True
    )


def smooth_lam(displacement: Tensor, start: Tensor, change: Tensor) -> float:
    """λ that moves the parameters by 1e-2 in all.

    Less where `start ± λ change`, the arguments of an absolute value, would come close to a kink:
    beyond one the regularizer is another function.
    """
    to_the_kink = float((start / change).abs().min())
    return min(1e-2 / float(displacement.norm()), 0.3 * to_the_kink)


def relative_error(found: Tensor, exact: Tensor) -> float:
    """The largest error of any entry, relative to that entry."""
    assert found.shape == exact.shape
    return float(((found - exact).abs() / exact.abs()).max())


def error_in_norm(found: Tensor, exact: Tensor) -> float:
    """The error of the whole relative to the size of the whole, where entries may be near zero."""
    assert found.shape == exact.shape
    return float((found - exact).norm() / exact.norm())
