"""What the library hands out: frozen records, with the paper's symbol beside each attribute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Moments:
    """Mean and epistemic variance of the network's outputs at some inputs (Eq. 7, 12).

    After this nothing knows which method made it.
    """

    mean: Tensor  # f_θ̂(x), [batch, outputs...]
    variance: Tensor  # σ²_f(x) ≥ 0, [batch, outputs...]

    @property
    def std(self) -> Tensor:
        """σ_f(x), [batch, outputs...]."""
        return self.variance.sqrt()


@dataclass(frozen=True)
class Displacement:
    """How far the fitted parameters move per unit λ: δ = dθ̂(t, λ)/dλ (Eq. 9 differentiated).

    A tangent solve leaves `width` empty, and the output's response is J(x) δ. A refit at finite λ
    keeps both ends, θ_low = θ̂ + origin and θ_high = θ_low + width · δ, and the response is the
    paper's difference of two networks, (f_high(x) − f_low(x)) / width (Eq. 11).
    """

    delta: Mapping[str, Tensor] = field(repr=False)  # δ, one tensor per trainable parameter
    width: float | None = None  # λ one-sided or against a control, 2λ paired, None tangent
    origin: Mapping[str, Tensor] | None = field(
        default=None, repr=False
    )  # θ_low − θ̂; None: θ_low is θ̂ itself


class Status(Enum):
    """How a solve ended."""

    CONVERGED = "converged"
    STOPPED = "stopped: the iteration budget ran out first"
    STAGNATED = "stagnated: rounding keeps the residual above the tolerance"
    INDEFINITE = "indefinite: the precision has a direction of negative curvature"
    DIVERGED = "diverged: the iterates are no longer finite"


@dataclass(frozen=True)
class Solution:
    """A solver's answer and how far to trust it."""

    value: tuple[Displacement, ...] = field(repr=False)  # one δ per regularizer
    status: Status  # the worst over the right-hand sides
    residual: float  # worst ‖P δ − ∇t‖ / ‖∇t‖; for a refit ‖∇L(θ) + λ∇t(θ)‖ / ‖λ∇t‖
    iterations: int  # passes over the data
    detail: str = ""  # what to try, when it did not converge

    @property
    def converged(self) -> bool:
        """Whether every right-hand side reached the tolerance."""
        return self.status is Status.CONVERGED


@dataclass(frozen=True)
class Packed:
    """What an estimator is made of, as it is stored (`regvar.save`)."""

    settings: Mapping[str, Any] = field(
        default_factory=lambda: {}
    )  # JSON types, solvers, curvatures
    tensors: Mapping[str, Tensor] = field(default_factory=lambda: {}, repr=False)
    displacements: tuple[Displacement, ...] = field(default=(), repr=False)
