"""What every metric hands out, and the running mean under those that are means."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regvar.errors import ArgumentError, DataError

Z_95 = 1.96  # two-sided 95 % of a normal distribution, as Wald intervals have it


@dataclass(frozen=True)
class Estimate:
    """A metric's value and how far chance may have moved it.

    >>> from regvar.metrics import Estimate
    >>> print(Estimate(0.5, 0.1, 25))
    0.5 ± 0.2 (n = 25)
    """

    value: float
    standard_error: float  # NaN where the data cannot tell, such as a mean of one datum
    count: int  # how many data were scored

    @property
    def interval(self) -> tuple[float, float]:
        """Wald's 95 % interval, value ± 1.96 standard errors. It is not cut to a metric's range."""
        return self.value - Z_95 * self.standard_error, self.value + Z_95 * self.standard_error

    def __str__(self) -> str:
        return f"{self.value:.4g} ± {Z_95 * self.standard_error:.2g} (n = {self.count})"


@dataclass(frozen=True)
class RunningMean:
    """Count, sum and sum of squared deviations of numbers, in float64, mergeable in any order.

    Deviations are from the mean, not from zero: adding Σv² and subtracting n v̄² later would
    lose the digits that matter (Chan, Golub and LeVeque's update).
    """

    count: int = 0
    total: float = 0.0  # Σ v
    squares: float = 0.0  # Σ (v − v̄)²

    @property
    def mean(self) -> float:
        """v̄; infinite when any number was."""
        return self.total / self.count

    def add(self, values: Tensor) -> RunningMean:
        """The state after some more numbers."""
        v = float64(values).flatten()
        if v.numel() == 0:
            return self
        mean = v.mean()
        return self.merge(RunningMean(v.numel(), float(v.sum()), float((v - mean).square().sum())))

    def merge(self, other: RunningMean) -> RunningMean:
        """The state of both together."""
        if not self.count or not other.count:
            return self if self.count else other
        count = self.count + other.count
        apart = other.mean - self.mean
        shift = apart * apart * (self.count / count * other.count)  # `**` would raise, not be inf
        return RunningMean(count, self.total + other.total, self.squares + other.squares + shift)

    def estimate(self, metric: str, *, proportion: bool = False) -> Estimate:
        """v̄ and its standard error s/√n.

        s² divides by n − 1, except for a proportion: there it divides by n, which for zeros and
        ones is Wald's √(p (1 − p)/n).
        """
        require_data(self.count, metric)
        freedom = self.count if proportion else self.count - 1
        error = math.sqrt(self.squares / freedom / self.count) if freedom else math.nan
        return Estimate(self.mean, error, self.count)


def float64(values: Tensor) -> Tensor:
    """A detached copy in float64 on the CPU: not every device has float64."""
    return values.detach().cpu().to(torch.float64)


def require_data(count: int, metric: str) -> None:
    """Refuse to compute a metric of nothing."""
    if count == 0:
        raise DataError(
            f"{metric} must have seen at least one datum, but has seen 0. Call update() first, "
            "with labels that are not all ignored."
        )


def require_like(this: object, other: object, *settings: str) -> None:
    """Refuse to merge metrics of different kinds or settings."""
    name = type(this).__name__
    if type(other) is not type(this):
        raise ArgumentError(
            f"other must be a metric of the same kind, {name}, but it is {type(other).__name__}. "
            "Merge like with like."
        )
    for setting in settings:
        mine, theirs = getattr(this, setting), getattr(other, setting)
        if mine != theirs:
            raise ArgumentError(
                f"other must have the same {setting}, {mine!r}, but it has {theirs!r}. "
                f"Make every {name} that is to be merged with the same settings."
            )
