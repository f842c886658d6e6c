"""Dense Cholesky of P: exact, for small nets and for oracles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regvar import params
from regvar.curvature import GGN, Curvature, Precision, dense
from regvar.log_joint import LogJoint
from regvar.regularizers import Regularizer
from regvar.results import Solution, Status
from regvar.solvers import tangent


@dataclass(frozen=True)
class Direct:
    """Tangent solve by a Cholesky factor of the whole P, computed once for a network.

    An indefinite Hessian is solved by LU and announced.

    >>> import regvar
    >>> regvar.Direct(regvar.Hessian()).curvature.positive
    False
    """

    curvature: Curvature = field(default_factory=GGN)

    def solve(self, joint: LogJoint, regularizers: Sequence[Regularizer]) -> Solution:
        """P⁻¹ ∇t for each regularizer."""
        joint.check()
        precision = Precision(joint, self.curvature)
        matrix, factor = joint.remember(("dense", self.curvature), lambda: _factor(precision))
        rhs = [r.gradient(joint) for r in regularizers]
        right = torch.stack([params.flatten(b) for b in rhs], 1)
        solved = (
            torch.cholesky_solve(right, factor)
            if factor is not None
            else torch.linalg.solve(matrix, right)
        )
        lengths = right.norm(dim=0).clamp(min=1e-300)
        residuals = ((matrix @ solved - right).norm(dim=0) / lengths).tolist()
        status = Status.INDEFINITE if factor is None else Status.CONVERGED
        systems = [
            tangent.System(b, 1.0, params.unflatten(x, b), {}, residual, status)
            for b, x, residual in zip(rhs, solved.unbind(1), residuals, strict=True)
        ]
        return tangent.report(
            systems, 1, "θ̂ is no strict maximum of L: train it further, or take GGN()."
        )


def _factor(precision: Precision) -> tuple[Tensor, Tensor | None]:
    matrix = dense(precision)
    factor, failed = torch.linalg.cholesky_ex(matrix)
    return matrix, None if int(failed) else factor
