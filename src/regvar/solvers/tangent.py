"""What all tangent solvers share: right-hand sides, first guesses, residuals and the report.

P δ_k = ∇t_k(θ̂)          (Theorem 4.1 and its proof, differentiated at λ = 0)
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from regvar import params
from regvar.curvature import Precision
from regvar.distributed import ALONE, Processes
from regvar.errors import DataError, SolverWarning
from regvar.linearize import machine_epsilon
from regvar.log_joint import LogJoint
from regvar.params import Params
from regvar.regularizers import Regularizer
from regvar.results import Displacement, Solution, Status

_SEVERITY = [
    Status.CONVERGED,
    Status.STOPPED,
    Status.STAGNATED,
    Status.INDEFINITE,
    Status.DIVERGED,
]


@dataclass
class System:
    """One right-hand side on its way to a solution."""

    rhs: Params  # b = ∇t(θ̂)
    length: float  # ‖b‖
    x: Params  # the iterate
    r: Params  # b − P x
    residual: float = math.inf  # ‖r‖ / ‖b‖
    status: Status = Status.STOPPED
    active: bool = True
    state: dict[str, Params] = field(default_factory=dict)
    scalars: dict[str, float] = field(default_factory=dict)
    processes: Processes = ALONE

    def dot(self, a: Params, b: Params) -> float:
        """⟨a, b⟩, the same number in every process."""
        return self.processes.agreed(params.dot(a, b))

    def norm(self, a: Params) -> float:
        """‖a‖₂, the same number in every process."""
        return self.processes.agreed(params.norm(a))


def prepare(
    precision: Precision, regularizers: Sequence[Regularizer], tolerance: float
) -> list[System]:
    """Right-hand sides and first guesses; a system that is solved already is not active."""
    joint = precision.joint
    systems: list[System] = []
    for regularizer in regularizers:
        rhs = regularizer.gradient(joint)
        if not params.isfinite(rhs):
            raise DataError(
                f"gradient of {type(regularizer).__name__} must be finite, but holds NaN or inf. "
                "Look at the inputs it is taken at."
            )
        start = regularizer.start(joint)
        x = params.zeros(rhs) if start is None else params.copy(start)
        length = joint.processes.agreed(params.norm(rhs))
        systems.append(System(rhs, length, x, params.copy(rhs), processes=joint.processes))
    guessed = [s for s in systems if s.norm(s.x) > 0.0]
    for s, product in zip(guessed, precision.products([s.x for s in guessed]), strict=True):
        params.add_(s.r, product, alpha=-1.0)
    for s in systems:
        s.residual = s.norm(s.r) / s.length if s.length else 0.0
        settle(s, tolerance)
    return systems


def settle(system: System, tolerance: float) -> None:
    """Take a system out once it has converged or gone wild."""
    if not math.isfinite(system.residual):
        system.status, system.active = Status.DIVERGED, False
    elif system.residual <= tolerance:
        system.status, system.active = Status.CONVERGED, False


def verify(precision: Precision, systems: Sequence[System], tolerance: float) -> None:
    """Replace the recursion's residual by the true one: rounding makes them part.

    A residual of some ε‖P‖‖δ‖, with ε the rounding of the parameters, is the best that any solver
    attains (the answer solves a system within rounding of the one given): it counts as converged.
    """
    for s, product in zip(systems, precision.products([s.x for s in systems]), strict=True):
        true = params.combine(1.0, s.rhs, -1.0, product)
        s.residual = s.norm(true) / s.length if s.length else 0.0
    doubtful = [s for s in systems if s.status is Status.CONVERGED and s.residual > 10 * tolerance]
    with precision.joint.network.guard():
        epsilon = machine_epsilon(precision.joint.parameters)
    pulled = precision.products([s.rhs for s in doubtful]) if doubtful else []
    for s, product in zip(doubtful, pulled, strict=True):
        stretch = s.norm(product) / s.length  # a lower bound of ‖P‖, close to it for a ∇t
        if s.residual > 20 * epsilon * stretch * s.norm(s.x) / s.length:
            s.status = Status.STAGNATED


def default_tolerance(joint: LogJoint, tolerance: float | None) -> float:
    """10⁻⁸ in double precision, 10⁻⁵ below, unless the user says otherwise."""
    if tolerance is not None:
        return tolerance
    dtypes = {params.work_dtype(p.dtype) for p in joint.parameters.values()}
    return 1e-8 if dtypes == {torch.float64} else 1e-5


def default_iterations(joint: LogJoint, iterations: int | None) -> int:
    """Ten times dim θ up to 2,000 for small nets; 200 beyond 100,000 parameters."""
    if iterations is not None:
        return iterations
    size = params.size(joint.parameters)
    return min(10 * size, 2000) if size <= 100_000 else 200


def blocks(joint: LogJoint, count: int, block: int | None, copies: int) -> list[range]:
    """Right-hand sides solved together: as many as fit about 2 GiB of working vectors."""
    size = 8 * copies * params.size(joint.parameters)
    width = block or max(1, min(128, 2**31 // max(size, 1)))
    return [range(start, min(start + width, count)) for start in range(0, count, width)]


def report(systems: Sequence[System], iterations: int, advice: str) -> Solution:
    """The solution of all systems, announced if any of them failed."""
    status = max((s.status for s in systems), key=_SEVERITY.index, default=Status.CONVERGED)
    residual = max((s.residual for s in systems), default=0.0)
    failed = sum(s.status is not Status.CONVERGED for s in systems)
    value = tuple(Displacement(s.x) for s in systems)
    return announce(Solution(value, status, residual, iterations, advice), failed)


def worse(first: Solution, second: Solution) -> Solution:
    """One report for two solves: the worse status and residual, all iterations, no value."""
    bad = max(first, second, key=lambda s: _SEVERITY.index(s.status))
    residual = max(first.residual, second.residual)
    return Solution((), bad.status, residual, first.iterations + second.iterations, bad.detail)


def announce(solution: Solution, failed: int) -> Solution:
    """Warn of a solution that must not be taken for granted, and hand it on."""
    if solution.converged:
        return Solution(solution.value, solution.status, solution.residual, solution.iterations)
    warnings.warn(
        f"{failed} of {len(solution.value)} right-hand sides: {solution.status.value} (relative "
        f"residual {solution.residual:.2g} after {solution.iterations} iterations). "
        f"{solution.detail}",
        SolverWarning,
        stacklevel=4,
    )
    return solution
