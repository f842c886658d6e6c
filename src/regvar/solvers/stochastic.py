"""Minibatch tangent solve: variance-reduced descent on ½ δᵀ P δ − δᵀ ∇t, with momentum.

Each step multiplies one of the N batches' curvature P_b with the way come since the last full
pass, at the anchor a:

    g = (P a − ∇t) + P_b (δ − a),   E[P_b] = P

so the minibatch noise fades as δ settles (Johnson and Zhang, 2013; for a linear map the correction
needs one product). An epoch is a full pass and N steps. The anchor of the next one is the average
over the tail of this one's steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tqdm import tqdm

from regvar import noise, params
from regvar.curvature import GGN, Curvature, Precision
from regvar.errors import require
from regvar.log_joint import LogJoint
from regvar.regularizers import Regularizer
from regvar.results import Solution
from regvar.solvers import tangent
from regvar.solvers.tangent import System


@dataclass(frozen=True)
class Stochastic:
    """Tangent solve, λ → 0, one minibatch per step.

    Args:
        curvature: `GGN()`; a Hessian's minibatches are indefinite even at a MAP.
        epochs: each a full pass and one step per minibatch.
        lr: step size in units of 1/λ_max, which is measured on the batches.
        momentum: Nesterov's; 0 for plain descent.
        tail: the fraction of an epoch's steps that is averaged at its end.
        tolerance: relative residual at which to stop, converged.
        seed: fixes the order of a shuffling loader.

    >>> import regvar
    >>> regvar.Stochastic(epochs=5).momentum
    0.9
    """

    curvature: Curvature = field(default_factory=GGN)
    epochs: int = 100
    lr: float = 0.5
    momentum: float = 0.9
    tail: float = 0.5
    tolerance: float = 1e-2
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings outside their range."""
        require(self.epochs >= 1, "epochs", "at least 1", self.epochs)
        require(0 < self.lr <= 1, "lr", "in (0, 1]", self.lr, "It is in units of 1/λ_max.")
        require(0 <= self.momentum < 1, "momentum", "in [0, 1)", self.momentum)
        require(0 < self.tail <= 1, "tail", "in (0, 1]", self.tail)
        require(self.tolerance > 0, "tolerance", "positive", self.tolerance)

    def solve(self, joint: LogJoint, regularizers: Sequence[Regularizer]) -> Solution:
        """P⁻¹ ∇t for each regularizer."""
        joint.check()
        precision = Precision(joint, self.curvature)
        step = self.lr / joint.remember(
            ("largest", self.curvature), lambda: largest_eigenvalue(precision)
        )
        done: list[System] = []
        passes = 0
        for part in tangent.blocks(joint, len(regularizers), None, copies=7):
            asked = [regularizers[k] for k in part]
            systems = tangent.prepare(precision, asked, self.tolerance)
            passes += self._run(precision, systems, step)
            done += systems
        advice = "Raise epochs, lower lr if it diverged, or take ConjugateGradient."
        return tangent.report(done, passes, advice)

    def _run(self, precision: Precision, systems: list[System], step: float) -> int:
        for s in systems:
            s.state["velocity"] = params.zeros(s.x)
        hushed = precision.joint.processes.hushed
        with tqdm(total=self.epochs, desc="stochastic", leave=False, disable=hushed) as bar:
            for epoch in range(self.epochs):
                active = [s for s in systems if s.active]
                if not active:
                    return epoch
                self._epoch(precision, active, step, epoch)
                products = precision.products([s.x for s in active])
                for s, product in zip(active, products, strict=True):
                    s.r = params.combine(1.0, s.rhs, -1.0, product)
                    s.residual = s.norm(s.r) / s.length
                    tangent.settle(s, self.tolerance)
                bar.update()
                bar.set_postfix(residual=f"{max(s.residual for s in active):.1e}", refresh=False)
        return self.epochs

    def _epoch(self, precision: Precision, systems: list[System], step: float, epoch: int) -> None:
        """One step per minibatch from the anchor, which `x` and `r` hold."""
        joint = precision.joint
        first = joint.num_batches - max(1, round(self.tail * joint.num_batches))
        for s in systems:
            s.state.update(way=params.zeros(s.x), mean=params.zeros(s.x))
        for index, part in enumerate(joint.parts(self.seed + epoch)):
            ahead = [
                params.combine(1.0, s.state["way"], self.momentum, s.state["velocity"])
                for s in systems
            ]
            products = precision.batch_products(part, ahead)
            for s, product in zip(systems, products, strict=True):
                velocity = params.scale_(s.state["velocity"], self.momentum)
                params.add_(velocity, s.r, alpha=step)
                params.add_(velocity, product, alpha=-step)
                params.add_(s.state["way"], velocity)
                if index >= first:
                    count = index - first + 1
                    mean = params.scale_(s.state["mean"], 1 - 1 / count)
                    params.add_(mean, s.state["way"], alpha=1 / count)
        for s in systems:
            params.add_(s.x, s.state["mean"])


def largest_eigenvalue(precision: Precision, rounds: int = 10, batches: int = 4) -> float:
    """The largest λ_max among the first batches' estimates of P, by power iteration."""
    joint = precision.joint
    largest = 0.0
    for index, part in enumerate(joint.parts()):
        if index == batches:
            break
        v = params.randn(joint.parameters, noise.generator((index, 3), -1))
        value = 0.0
        for _ in range(rounds):
            params.scale_(v, 1 / max(params.norm(v), 1e-300))
            (v,) = precision.batch_products(part, [v])
            value = params.norm(v)
        largest = max(largest, value)
    return 1.1 * joint.processes.agreed(largest)
