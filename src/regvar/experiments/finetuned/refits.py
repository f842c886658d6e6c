"""The refits that several methods read, each done once: drift, and one λ at a time.

The refits of one rule see the same batches in the same order, so that an amortized refit minus
the drift is what `Finetune(control=True)` would give, without doing the control again for each λ.
A method's time is that of all refits it reads, also of those that another method has paid for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from regvar import baselines, params
from regvar.estimators import Amortized, Sampled, amortized, sampled
from regvar.log_joint import LogJoint
from regvar.results import Displacement
from regvar.solvers import Finetune

T = TypeVar("T")


@dataclass
class Refits:
    """Refits from one fitted network, remembered with the seconds that each took."""

    joint: LogJoint
    seed: int
    epochs: int
    reused: float = 0.0  # seconds of refits that were not done again, since `clock`
    _held: dict[Hashable, tuple[Any, float]] = field(default_factory=lambda: {}, repr=False)

    def clock(self) -> None:
        """Begin to count what is reused."""
        self.reused = 0.0

    def drift(self, lr: float) -> Amortized:
        """What training does when it merely goes on."""
        return self._once(("drift", lr), lambda: baselines.drift(self.joint, self._solver(1.0, lr)))

    def amortized(self, lam: float, lr: float) -> Amortized:
        """The paper's Algorithm 1, one-sided."""
        return self._once(
            ("amortized", lam, lr),
            lambda: amortized(self.joint, solver=self._solver(lam, lr)),
        )

    def controlled(self, lam: float, lr: float) -> Amortized:
        """The same minus its control: (θ̂(r̂, λ) − θ̂(r̂, 0)) / λ."""
        whole, drift = self.amortized(lam, lr), self.drift(lr)
        low = drift.displacement.delta
        delta = params.combine(1.0, whole.displacement.delta, -1.0 / lam, low)
        move = Displacement(delta, lam, low)
        solution = whole.solution and replace(whole.solution, value=(move,))
        return replace(whole, displacement=move, solution=solution)

    def sampled(self, count: int, lam: float, lr: float) -> Sampled:
        """K refits on random pulls minus one control of their own."""
        return sampled(self.joint, count, self._solver(lam, lr), self.seed)

    def _solver(self, lam: float, lr: float) -> Finetune:
        """Adam, minibatches, warm-started at the MAP."""
        return Finetune(lam=lam, epochs=self.epochs, lr=lr, measure_residual=False, seed=self.seed)

    def _once(self, key: Hashable, build: Callable[[], T]) -> T:
        if key in self._held:
            found, seconds = self._held[key]
            self.reused += seconds
            return found
        start = time.perf_counter()
        found = build()
        self._held[key] = (found, time.perf_counter() - start)
        return found
