"""An estimator against pointwise truth on a few inputs: is this variance to be trusted here?

Truth is J P⁻¹ Jᵀ by a tangent solve per input and output (Theorem 4.1). Two numbers matter: the
rank correlation (does it order the inputs rightly?) and the scale (by what factor is it off? A
calibration scale can mend the second, never the first).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from regvar import batches
from regvar.batches import Batch
from regvar.errors import ArgumentError, DataError, require
from regvar.estimators.pointwise import pointwise
from regvar.estimators.protocol import Estimator
from regvar.log_joint import LogJoint
from regvar.metrics import rank_correlation
from regvar.results import Solution
from regvar.solvers import Solver


@dataclass(frozen=True)
class AuditReport:
    """How an estimator compares with pointwise truth; `print(report)` says it in words."""

    rank_correlation: float  # Spearman's, over inputs × outputs
    scale: float  # median of estimate / truth
    points: int  # inputs compared
    truth: Tensor  # J P⁻¹ Jᵀ, [points, outputs...]
    estimate: Tensor  # the estimator's variance, [points, outputs...]
    solution: Solution | None  # of the truth

    @property
    def verdict(self) -> str:
        """In words."""
        rank, scale = self.rank_correlation, self.scale
        if math.isnan(rank):
            order = "cannot be ranked (the truth is constant)"
        elif rank >= 0.9:
            order = "orders the inputs as the truth does"
        elif rank >= 0.6:
            order = "orders the inputs roughly as the truth does"
        elif rank >= 0.3:
            order = "has only a weak relation to the truth: do not rank inputs by it"
        elif rank > -0.3:
            order = "has no relation to the truth: do not use it here"
        else:
            order = "orders the inputs against the truth: do not use it here"
        size = "at the right scale" if 0.8 <= scale <= 1.25 else f"{scale:.2g} times its size"
        trust = (
            ""
            if self.solution is None or self.solution.converged
            else (" The truth itself did not converge: " + self.solution.status.value + ".")
        )
        return f"The variance {order}, {size}.{trust}"

    def __str__(self) -> str:
        """The verdict with its numbers."""
        return (
            f"{self.verdict} (rank correlation {self.rank_correlation:+.2f}, median ratio "
            f"{self.scale:.2g}, {self.points} inputs)"
        )


def audit(
    uq: Estimator,
    inputs: Batch,
    points: int = 20,
    *,
    seed: int = 0,
    solver: Solver | None = None,
    joint: LogJoint | None = None,
) -> AuditReport:
    """Compare `uq` with |J_c(x) P⁻¹ J_c(x)ᵀ| on a random choice of inputs.

    Args:
        uq: any estimator with `moments`.
        inputs: one batch, or an iterable of batches, to choose from.
        points: inputs to compare; each costs one solve per output.
        seed: of the choice.
        solver: of the truth; `ConjugateGradient(GGN())` by default.
        joint: needed for an estimator that does not know its own, such as `from_refit`'s.

    >>> import torch, regvar
    >>> x = torch.linspace(-1, 1, 8)[:, None]
    >>> joint = regvar.LogJoint(torch.nn.Linear(1, 1), [(x, x)],
    ...                         likelihood=regvar.Gaussian(sigma=1.0),
    ...                         prior=regvar.GaussianPrior(precision=1.0))
    >>> regvar.audit(regvar.pointwise(joint), x).verdict
    'The variance orders the inputs as the truth does, at the right scale.'
    """
    require(points >= 1, "points", "at least 1", points)
    known = joint or getattr(uq, "joint", None)
    if not isinstance(known, LogJoint):
        raise ArgumentError(
            "joint must be given for an estimator that does not know its own. Pass joint=..."
        )
    if not hasattr(uq, "moments"):
        raise ArgumentError(
            f"uq must be an estimator with moments, but is {type(uq).__name__}. "
            "Parameter uncertainty has no outputs to audit."
        )
    chosen = _choose(inputs, points, seed)
    oracle = pointwise(known, solver)
    truth = oracle.moments(chosen).variance
    estimate = uq.moments(chosen).variance
    rank = rank_correlation(estimate, truth)
    ratio = float((estimate.double() / truth.double().clamp(min=1e-300)).median())
    return AuditReport(rank, ratio, truth.shape[0], truth, estimate, oracle.solution)


def _choose(inputs: Any, points: int, seed: int) -> Batch:
    """Up to `points` rows of a batch; of several batches, of the first that fill them."""
    if _is_batch(inputs):
        pool = [inputs]
    else:
        pool, held = [], 0
        for batch in batches.pinned(inputs, seed):
            pool.append(batch)
            held += batches.length(batch) or 0
            if held >= points:
                break
    if not pool or not batches.length(pool[0]):
        raise DataError("inputs must hold at least one example, but they are empty.")
    batch = pool[0] if len(pool) == 1 else batches.concatenate(pool)
    count = batches.length(batch) or 0
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    return batches.take(batch, order[: min(points, count)].sort().values)


def _is_batch(inputs: Any) -> bool:
    if isinstance(inputs, Tensor | Mapping):
        return True
    if isinstance(inputs, tuple | list):
        parts = cast("list[Any]", inputs)
        return len(parts) > 0 and all(isinstance(p, Tensor) for p in parts) and len(parts) == 2
    return False
