"""MINRES (Paige and Saunders, 1975) on P δ = ∇t: P may be indefinite.

It minimizes ‖P x − b‖ over the Krylov space, so a Hessian away from a maximum does no harm to the
solve; that the answer is then no variance is announced all the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
from regvar.solvers.tangent import System


@dataclass(frozen=True)
class Minres:
    """Tangent solve, λ → 0, for a symmetric precision of any sign.

    Args:
        curvature: `GGN()` or `Hessian()`.
        tolerance: relative residual; 10⁻⁸ in double precision, 10⁻⁵ in single.
        max_iterations: passes over the data at the most; defaults as `ConjugateGradient`.
        block: right-hand sides solved together; `None` fits them into about 2 GiB.

    >>> import regvar
    >>> regvar.Minres(regvar.Hessian()).curvature
    Hessian(differences=None)
    """

    curvature: Curvature = field(default_factory=GGN)
    tolerance: float | None = None
    max_iterations: int | None = None
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
        done: list[System] = []
        passes = 0
        for part in tangent.blocks(joint, len(regularizers), self.block, copies=8):
            systems = tangent.prepare(precision, [regularizers[k] for k in part], tolerance)
            passes += self._run(precision, systems, tolerance)
            tangent.verify(precision, systems, tolerance)
            _mark_indefinite(systems)
            done += systems
        advice = (
            "Raise max_iterations. If it is indefinite, θ̂ is no maximum of L: train it further, "
            "or take GGN()."
        )
        return tangent.report(done, passes, advice)

    def _run(self, precision: Precision, systems: list[System], tolerance: float) -> int:
        for s in systems:
            _begin(s)
        budget = tangent.default_iterations(precision.joint, self.max_iterations)
        hushed = precision.joint.processes.hushed
        with tqdm(total=budget, desc="MINRES", leave=False, disable=hushed) as bar:
            for iteration in range(budget):
                active = [s for s in systems if s.active]
                if not active:
                    return iteration
                for s in active:
                    s.state["v"] = params.scale_(params.copy(s.state["r2"]), 1 / s.scalars["beta"])
                products = precision.products([s.state["v"] for s in active])
                for s, product in zip(active, products, strict=True):
                    _advance(s, product)
                    tangent.settle(s, tolerance)
                bar.update()
                worst = max(s.residual for s in active)
                bar.set_postfix(residual=f"{worst:.1e}", active=len(active), refresh=False)
        return budget


def _begin(s: System) -> None:
    beta = s.norm(s.r)
    s.state.update(
        r1=params.copy(s.r), r2=params.copy(s.r), w1=params.zeros(s.r), w2=params.zeros(s.r)
    )
    s.scalars.update(beta=beta, old_beta=0.0, dbar=0.0, epsilon=0.0, phibar=beta, cs=-1.0, sn=0.0)


def _advance(s: System, y: Params) -> None:
    """One Lanczos step and one rotation, given y = P v."""
    c, v = s.scalars, s.state["v"]
    if c["old_beta"]:
        params.add_(y, s.state["r1"], alpha=-c["beta"] / c["old_beta"])
    alpha = s.dot(v, y)
    params.add_(y, s.state["r2"], alpha=-alpha / c["beta"])
    s.state["r1"], s.state["r2"] = s.state["r2"], y
    c["old_beta"], c["beta"] = c["beta"], s.norm(y)
    old_epsilon = c["epsilon"]
    delta = c["cs"] * c["dbar"] + c["sn"] * alpha
    gbar = c["sn"] * c["dbar"] - c["cs"] * alpha
    c["epsilon"] = c["sn"] * c["beta"]
    c["dbar"] = -c["cs"] * c["beta"]
    gamma = max(math.hypot(gbar, c["beta"]), 1e-300)
    c["cs"], c["sn"] = gbar / gamma, c["beta"] / gamma
    phi, c["phibar"] = c["cs"] * c["phibar"], c["sn"] * c["phibar"]
    w = params.copy(v)
    params.add_(w, s.state["w1"], alpha=-old_epsilon)
    params.add_(w, s.state["w2"], alpha=-delta)
    params.scale_(w, 1 / gamma)
    s.state["w1"], s.state["w2"] = s.state["w2"], w
    params.add_(s.x, w, alpha=phi)
    s.residual = abs(c["phibar"]) / s.length


def _mark_indefinite(systems: Sequence[System]) -> None:
    """bᵀ P⁻¹ b ≤ 0 is no variance: the curvature along this answer is negative."""
    for s in systems:
        if s.status is Status.CONVERGED and s.length and s.dot(s.rhs, s.x) <= 0.0:
            s.status = Status.INDEFINITE
