"""Minibatch tangent solve: stochastic descent on ½ δᵀ P δ − δᵀ ∇t, with momentum and averaging.

Each step multiplies one of the N batches' curvature with the iterate, so an epoch costs as much
as one iteration of conjugate gradients but moves N times. The answer is the average of the last
iterates, which removes most of the minibatch noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from tqdm import tqdm

from regvar import noise, params
from regvar.curvature import GGN, Curvature, Precision
from regvar.errors import require
from regvar.log_joint import LogJoint
from regvar.params import Params
from regvar.regularizers import Regularizer
from regvar.results import Solution, Status
from regvar.solvers import tangent
from regvar.solvers.tangent import System


@dataclass(frozen=True)
class Stochastic:
    """Tangent solve, λ → 0, one minibatch per step.

    Args:
        curvature: `GGN()`; a Hessian's minibatches are indefinite even at a MAP.
        epochs: passes over the data.
        lr: step size in units of 1/λ_max, which is measured on the batches.
        momentum: Nesterov's; 0 for plain descent.
        tail: the fraction of steps averaged at the end.
        tolerance: relative residual that counts as converged.
        seed: fixes the order of a shuffling loader.

    >>> import regvar
    >>> regvar.Stochastic(epochs=5).momentum
    0.9
    """

    curvature: Curvature = field(default_factory=GGN)
    epochs: int = 50
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

    def solve(self, joint: LogJoint, regularizers: Sequence[Regularizer]) -> Solution:
        """P⁻¹ ∇t for each regularizer."""
        joint.check()
        precision = Precision(joint, self.curvature)
        step = self.lr / joint.remember(
            ("largest", self.curvature), lambda: largest_eigenvalue(precision)
        )
        done: list[System] = []
        for part in tangent.blocks(joint, len(regularizers), None, copies=6):
            systems = tangent.prepare(precision, [regularizers[k] for k in part], 0.0)
            self._run(precision, systems, step)
            tangent.verify(precision, systems, self.tolerance)
            for s in systems:
                if not math.isfinite(s.residual):
                    s.status = Status.DIVERGED
                else:
                    good = s.residual <= self.tolerance
                    s.status = Status.CONVERGED if good else Status.STOPPED
            done += systems
        advice = "Raise epochs, lower lr if it diverged, or take ConjugateGradient."
        return tangent.report(done, self.epochs, advice)

    def _run(self, precision: Precision, systems: list[System], step: float) -> None:
        joint = precision.joint
        total = self.epochs * joint.num_batches
        first = total - max(1, int(self.tail * total))
        for s in systems:
            s.state.update(velocity=params.zeros(s.x), mean=params.zeros(s.x))
        taken = 0
        with tqdm(total=total, desc="stochastic", leave=False, disable=None) as bar:
            for epoch in range(self.epochs):
                for batch in joint.batches(self.seed + epoch):
                    ahead = [_look_ahead(s, self.momentum) for s in systems]
                    products = precision.batch_products(batch, ahead)
                    for s, product in zip(systems, products, strict=True):
                        _descend(s, product, step, self.momentum)
                        if taken >= first:
                            count = taken - first + 1
                            mean = s.state["mean"]
                            params.add_(params.scale_(mean, 1 - 1 / count), s.x, 1 / count)
                    taken += 1
                    bar.update()
        for s in systems:
            s.x = s.state["mean"]


def _look_ahead(s: System, momentum: float) -> Params:
    return params.combine(1.0, s.x, momentum, s.state["velocity"])


def _descend(s: System, product: Params, step: float, momentum: float) -> None:
    velocity = params.scale_(s.state["velocity"], momentum)
    params.add_(velocity, s.rhs, alpha=step)
    params.add_(velocity, product, alpha=-step)
    params.add_(s.x, velocity)


def largest_eigenvalue(precision: Precision, rounds: int = 10, batches: int = 4) -> float:
    """The largest λ_max among the first batches' estimates of P, by power iteration."""
    joint = precision.joint
    largest = 0.0
    for index, batch in enumerate(joint.batches()):
        if index == batches:
            break
        v = params.randn(joint.parameters, noise.generator((index, 3), -1))
        value = 0.0
        for _ in range(rounds):
            params.scale_(v, 1 / max(params.norm(v), 1e-300))
            (v,) = precision.batch_products(batch, [v])
            value = params.norm(v)
        largest = max(largest, value)
    return 1.1 * largest
