"""What the rest of the library asks of an estimator: `Moments` at any inputs."""

from __future__ import annotations

from typing import Protocol

from regvar.batches import Batch
from regvar.errors import require
from regvar.log_joint import LogJoint
from regvar.network import Network
from regvar.results import Moments, Solution
from regvar.solvers import Solver


class Estimator(Protocol):
    """Anything that knows how sure the network is."""

    @property
    def network(self) -> Network:
        """The network it speaks of."""
        ...

    @property
    def solution(self) -> Solution | None:
        """How its solve ended."""
        ...

    def moments(self, x: Batch) -> Moments:
        """Mean and epistemic variance of the outputs at x."""
        ...


def check_joint(joint: object) -> None:
    """Refuse anything but a log joint at the door."""
    require(isinstance(joint, LogJoint), "joint", "a regvar.LogJoint", joint)


def check(joint: object, solver: object) -> None:
    """Refuse swapped or missing arguments at the door."""
    check_joint(joint)
    require(
        isinstance(solver, Solver) and not isinstance(solver, type),
        "solver",
        "a solver such as ConjugateGradient(GGN())",
        solver,
    )
