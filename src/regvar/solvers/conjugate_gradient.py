"""Preconditioned conjugate gradients on P δ = ∇t: one pass over the data per iteration.

All right-hand sides share the pass. A direction p with pᵀ P p ≤ 0 proves that P is not positive
definite and ends that system with status INDEFINITE; the residual reported is the true one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tqdm import tqdm

from regvar import params
from regvar.curvature import GGN, Curvature, Precision
from regvar.errors import require
from regvar.log_joint import LogJoint
from regvar.params import Params
from regvar.regularizers import Regularizer
from regvar.results import Solution, Status
from regvar.solvers import tangent
from regvar.solvers.preconditioners import Preconditioner
from regvar.solvers.tangent import System


@dataclass(frozen=True)
class ConjugateGradient:
    """Tangent solve, λ → 0, for a precision that is positive definite.

    `GGN()` with a Gaussian prior always is. `Hessian()` is at a MAP; elsewhere the solver says
    so, and `Minres` is the one to take.

    Args:
        curvature: `GGN()` or `Hessian()`.
        tolerance: relative residual ‖P δ − ∇t‖/‖∇t‖; 10⁻⁸ in double precision, 10⁻⁵ in single.
        max_iterations: passes over the data at the most; by default ten times dim θ and at most
            2,000, or 200 for more than 100,000 parameters.
        preconditioner: `Jacobi()` or `Nystrom(rank=...)` for ill-conditioned networks.
        block: right-hand sides solved together; `None` fits them into about 2 GiB.

    >>> import regvar
    >>> regvar.ConjugateGradient(regvar.GGN(), tolerance=1e-6).tolerance
    1e-06
    """

    curvature: Curvature = field(default_factory=GGN)
    tolerance: float | None = None
    max_iterations: int | None = None
    preconditioner: Preconditioner | None = None
    block: int | None = None

    def __post_init__(self) -> None:
        """Refuse budgets that allow nothing."""
        ok = self.tolerance is None or self.tolerance > 0
        require(ok, "tolerance", "positive", self.tolerance)
        ok = self.max_iterations is None or self.max_iterations >= 1
        require(ok, "max_iterations", "at least 1", self.max_iterations)

    def solve(self, joint: LogJoint, regularizers: Sequence[Regularizer]) -> Solution:
        """P⁻¹ ∇t for each regularizer."""
        joint.check()
        precision = Precision(joint, self.curvature)
        tolerance = tangent.default_tolerance(joint, self.tolerance)
        inverse = self._inverse(precision)
        done: list[System] = []
        passes = 0
        for part in tangent.blocks(joint, len(regularizers), self.block, copies=6):
            systems = tangent.prepare(precision, [regularizers[k] for k in part], tolerance)
            passes += self._run(precision, systems, tolerance, inverse)
            tangent.verify(precision, systems, tolerance)
            done += systems
        return tangent.report(done, passes, self._advice())

    def _inverse(self, precision: Precision) -> Callable[[Params], Params]:
        if self.preconditioner is None:
            return params.copy
        key = ("preconditioner", self.preconditioner)
        preconditioner = self.preconditioner
        return precision.joint.remember(key, lambda: preconditioner.build(precision))

    def _run(
        self,
        precision: Precision,
        systems: list[System],
        tolerance: float,
        inverse: Callable[[Params], Params],
    ) -> int:
        for s in systems:
            z = inverse(s.r)
            s.state["p"] = z
            s.scalars["rz"] = s.dot(s.r, z)
        budget = tangent.default_iterations(precision.joint, self.max_iterations)
        hushed = precision.joint.processes.hushed
        with tqdm(total=budget, desc="CG", leave=False, disable=hushed) as bar:
            for iteration in range(budget):
                active = [s for s in systems if s.active]
                if not active:
                    return iteration
                products = precision.products([s.state["p"] for s in active])
                for s, product in zip(active, products, strict=True):
                    _advance(s, product, inverse)
                    tangent.settle(s, tolerance)
                bar.update()
                worst = max(s.residual for s in active)
                bar.set_postfix(residual=f"{worst:.1e}", active=len(active), refresh=False)
        return budget

    def _advice(self) -> str:
        return (
            "Raise max_iterations, add preconditioner=Nystrom(rank=20), or raise the prior's "
            "precision; for an indefinite Hessian take Minres or GGN()."
        )


def _advance(s: System, product: Params, inverse: Callable[[Params], Params]) -> None:
    """One step of one system along its direction p, given P p."""
    p, rz = s.state["p"], s.scalars["rz"]
    curvature = s.dot(p, product)
    if not curvature > 0.0:
        s.status, s.active = Status.INDEFINITE, False
        return
    alpha = rz / curvature
    params.add_(s.x, p, alpha=alpha)
    params.add_(s.r, product, alpha=-alpha)
    s.residual = s.norm(s.r) / s.length
    z = inverse(s.r)
    s.scalars["rz"] = s.dot(s.r, z)
    s.state["p"] = params.add_(params.scale_(p, s.scalars["rz"] / rz), z)
