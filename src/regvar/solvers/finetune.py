"""The paper's own solver: refit with λ t(θ) added, warm-started at the MAP (Algorithms 1, 2, 3).

    θ̂(t, λ) = argmax L(θ) + λ t(θ),   response = (f_θ̂(t,λ)(x) − f_θ̂(x)) / λ      (Eq. 8, 9, 11)

A MAP that is not stationary goes on training during the refit, whatever λ is. `paired` subtracts
a second refit at −λ and `control` one at 0, on the same batches, so that the drift cancels:
paired differences have an error of order λ² instead of λ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch.optim import Optimizer

from regvar import params, training
from regvar.errors import require
from regvar.log_joint import LogJoint
from regvar.params import Params
from regvar.regularizers import Regularizer, Term
from regvar.results import Displacement, Solution, Status
from regvar.solvers import tangent
from regvar.training import Plan, Schedule


@dataclass(frozen=True)
class Finetune:
    """Refit at finite λ: needs `loss.backward()` and nothing else.

    Args:
        lam: λ, small enough for a linear response and large enough to stand out.
        epochs: passes over the data.
        lr: the optimizer's learning rate, for a loss that is a mean (−L/n).
        optimizer: called `optimizer(parameters, lr=lr)`.
        schedule: `schedule(optimizer, total_steps)` returns a learning rate scheduler.
        paired: refit at −λ as well and take half the difference.
        control: refit at 0 as well, once for all regularizers, and take the difference.
        full_batch: one step per pass on the whole sum, as `torch.optim.LBFGS` wants.
        tolerance: stop when an epoch moves θ by less than this fraction of the way come.
        residual_tolerance: the refit counts as converged below this relative residual.
        measure_residual: spend two or three more passes on each refit to find its residual.
        seed: fixes the order of a shuffling loader.

    >>> import regvar
    >>> regvar.Finetune(lam=0.5, paired=True).width
    1.0
    """

    lam: float = 1.0
    epochs: int = 1
    lr: float = 1e-3
    optimizer: Callable[..., Optimizer] = torch.optim.Adam
    schedule: Schedule | None = None
    paired: bool = False
    control: bool = False
    full_batch: bool = False
    tolerance: float | None = None
    residual_tolerance: float = 0.1
    measure_residual: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse λ = 0 and contradictory settings."""
        ok = math.isfinite(self.lam) and self.lam != 0
        require(ok, "lam", "finite and not 0", self.lam, "Use a tangent solver for λ → 0.")
        require(self.epochs >= 1, "epochs", "at least 1", self.epochs)
        require(self.lr > 0, "lr", "positive", self.lr)
        both = self.paired and self.control
        require(not both, "control", "False when paired is True", self.control)

    @property
    def width(self) -> float:
        """The λ-distance between the two ends of the difference."""
        return 2 * self.lam if self.paired else self.lam

    def solve(self, joint: LogJoint, regularizers: Sequence[Regularizer]) -> Solution:
        """(θ̂(t, λ) − θ̂(t, low)) / width for each regularizer."""
        joint.check()
        ordered = any(r.fixed_order for r in regularizers)
        low: Params | None = None
        found: list[Displacement] = []
        residuals: list[float] = []
        with joint.network.guard(parameters=True):
            home = params.copy(joint.parameters)
            if self.control:
                low = self._refit(joint, home, None, 0.0, ordered)
            for index, regularizer in enumerate(regularizers):
                label = f"{index + 1}/{len(regularizers)}"
                if self.paired:
                    low = self._refit(joint, home, regularizer, -self.lam, ordered, label)
                high = self._refit(joint, home, regularizer, self.lam, ordered, label)
                found.append(self._displacement(high, low))
                if not params.isfinite(high):
                    residuals.append(math.inf)
                elif self.measure_residual:
                    residuals.append(self._residual(joint, home, regularizer, high, low))
        return self._report(tuple(found), residuals)

    def drift(self, joint: LogJoint) -> Solution:
        """θ̂(t, 0) − θ̂ with width 1: the refit at λ = 0 alone, in which training merely goes on.

        It answers no right-hand side, so its residual is 0 unless it diverges.
        """
        joint.check()
        with joint.network.guard(parameters=True):
            moved = self._refit(joint, params.copy(joint.parameters), None, 0.0, False, "drift")
        finite = params.isfinite(moved)
        status, residual = (Status.CONVERGED, 0.0) if finite else (Status.DIVERGED, math.inf)
        found = (Displacement(moved, 1.0),)
        advice = "The refit left the finite numbers: lower lr."
        solution = Solution(found, status, residual, self.epochs, advice)
        return tangent.announce(solution, 0 if finite else 1)

    def _refit(
        self,
        joint: LogJoint,
        home: Params,
        regularizer: Regularizer | None,
        lam: float,
        ordered: bool,
        label: str = "control",
    ) -> Params:
        """θ̂(t, λ) − θ̂."""
        params.write_(joint.parameters, home)
        trainable: list[torch.Tensor] = list(joint.parameters.values())
        for p in trainable:
            p.grad = None
        optimizer = training.build(self.optimizer, trainable, self.lr)
        order = 0 if ordered else self.seed
        plan = Plan(
            self.epochs, self.schedule, self.full_batch, self.tolerance, order, same_order=ordered
        )
        term = regularizer.stochastic(joint, lam, self.full_batch) if regularizer else None
        extra = _scaled(term, lam) if term else None
        training.maximize(joint, optimizer, plan, f"refit λ={lam:g} {label}", extra)
        moved = params.copy(joint.parameters)
        params.write_(joint.parameters, home)
        return params.add_(moved, home, alpha=-1.0)

    def _displacement(self, high: Params, low: Params | None) -> Displacement:
        difference = high if low is None else params.combine(1.0, high, -1.0, low)
        delta = {k: v / self.width for k, v in difference.items()}
        return Displacement(delta, self.width, low)

    def _residual(
        self,
        joint: LogJoint,
        home: Params,
        regularizer: Regularizer,
        high: Params,
        low: Params | None,
    ) -> float:
        """How much of the pull λ∇t the refit has left unanswered: 0 at its optimum."""
        pull = abs(self.width) * params.norm(regularizer.gradient(joint))
        if pull == 0.0:
            return 0.0
        term = regularizer.stochastic(joint, self.lam, whole=True)
        left = self._gradient(joint, home, high, term, self.lam)
        if low is not None:
            lam = -self.lam if self.paired else 0.0
            other = regularizer.stochastic(joint, lam, whole=True) if self.paired else None
            params.add_(left, self._gradient(joint, home, low, other, lam), alpha=-1.0)
        return params.norm(left) / pull

    def _gradient(
        self, joint: LogJoint, home: Params, move: Params, term: Term | None, lam: float
    ) -> Params:
        """∇[L + λ t] at θ̂ + move."""
        params.write_(joint.parameters, params.combine(1.0, home, 1.0, move))
        total = joint.prior_gradient()
        if not joint.processes.alone:
            params.scale_(total, joint.processes.share)
        with torch.enable_grad(), joint.summed(total):
            for row, batch in chain.from_iterable(joint.parts()):
                outputs, targets = joint.network.outputs_and_targets(batch)
                value, targets = joint.score(outputs, targets)
                if term is not None:
                    value = value + lam * term(row, outputs, targets)
                params.add_(total, joint.network.pull_back(value))
        params.write_(joint.parameters, home)
        return total

    def _report(self, found: tuple[Displacement, ...], residuals: list[float]) -> Solution:
        passes = self.epochs * (len(found) * (2 if self.paired else 1) + self.control)
        worst = max(residuals, default=math.nan)
        failed = sum(r > self.residual_tolerance for r in residuals)
        if worst == math.inf:
            lower = "A refit left the finite numbers: lower lr or lam."
            solution = Solution(found, Status.DIVERGED, worst, passes, lower)
            return tangent.announce(solution, failed)
        if not self.measure_residual:
            return Solution(found, Status.STOPPED, worst, passes, "residual not measured")
        drift = "" if self.paired or self.control else " Pair it (paired=True) if θ̂ still drifts."
        advice = f"Raise epochs or lr, or take ConjugateGradient.{drift}"
        status = Status.STOPPED if failed else Status.CONVERGED
        return tangent.announce(Solution(found, status, worst, passes, advice), failed)


def _scaled(term: Term, lam: float) -> Term:
    """λ t_b."""

    def scaled(row: int, outputs: torch.Tensor, targets: object) -> torch.Tensor:
        return lam * term(row, outputs, targets)

    return scaled
