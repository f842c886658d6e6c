"""What an estimator asks of a solver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from regvar.log_joint import LogJoint
from regvar.regularizers import Regularizer
from regvar.results import Solution


@runtime_checkable
class Solver(Protocol):
    """Turns regularizers into displacements."""

    def solve(self, joint: LogJoint, regularizers: Sequence[Regularizer]) -> Solution:
        """δ_k for each t_k, with status, residual and iterations."""
        ...
