"""Selective prediction: the risk of the answers that are kept, against how many are kept."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regvar.errors import DataError
from regvar.metrics.estimate import Estimate, float64, require_data, require_like
from regvar.metrics.ranks import tied_means

Chunks = tuple[tuple[Tensor, Tensor], ...]


@dataclass(frozen=True)
class RiskCurve:
    """Risk at each coverage k/n, the k least uncertain answers being kept."""

    coverage: Tensor  # k/n, [n], float64
    risk: Tensor  # mean loss of the k kept answers, [n], float64
    area: Estimate  # AURC = mean of the risks (Geifman and El-Yaniv 2017)


def risk_coverage(uncertainty: Tensor, loss: Tensor) -> RiskCurve:
    """The risk-coverage curve and its area; lower is better.

    Of tied uncertainties none is preferred: each risk is its mean over the orders of the ties.
    The area is the plug-in AURC = (1/n) Σ_i ℓ_i h_i, h_i = Σ_{k ≥ rank i} 1/k. Its standard error
    is that of the mean of the influence function, ℓ_i h_i − Σ_{rank j ≥ rank i} ℓ_j/rank j
    (up to a constant), which knows that the ranks are random too.

    Args:
        uncertainty: what answers are withheld by, highest first, one number per datum.
        loss: any loss, such as 0 for right and 1 for wrong, one number per datum.

    >>> import torch
    >>> from regvar.metrics import risk_coverage
    >>> curve = risk_coverage(torch.tensor([0.1, 0.9]), torch.tensor([0.0, 1.0]))
    >>> curve.risk, curve.area.value
    (tensor([0.0000, 0.5000], dtype=torch.float64), 0.25)
    """
    u, losses = _checked(uncertainty, loss)
    n = len(u)
    require_data(n, "risk_coverage")
    order = u.argsort()
    u, losses = u[order], losses[order]
    rank = torch.arange(1, n + 1, dtype=torch.float64)
    smooth = tied_means(u, losses)
    risk = smooth.cumsum(0) / rank
    weight = tied_means(u, _from_here(1 / rank))  # h
    passed = tied_means(u, _from_here(smooth / rank))
    influence = losses * weight - passed
    error = float(influence.std()) / math.sqrt(n) if n > 1 else math.nan
    return RiskCurve(rank / n, risk, Estimate(float(risk.mean()), error, n))


@dataclass
class RiskCoverage:
    """Area under the risk-coverage curve (AURC), gathered in parts; see `risk_coverage`.

    Keeps two numbers per datum, as exact ranks need them.

    >>> import torch
    >>> from regvar.metrics import RiskCoverage
    >>> selective = RiskCoverage()
    >>> selective.update(torch.tensor([0.9]), torch.tensor([1.0]))
    >>> selective.update(torch.tensor([0.1]), torch.tensor([0.0]))
    >>> selective.compute().value
    0.25
    """

    state: Chunks = field(default=(), repr=False)

    def update(self, uncertainty: Tensor, loss: Tensor) -> None:
        """Add data by uncertainty and loss, of equal shapes."""
        self.state = (*self.state, _checked(uncertainty, loss))

    def merge(self, other: RiskCoverage) -> RiskCoverage:
        """Both metrics' data in a new one."""
        require_like(self, other)
        return RiskCoverage(self.state + other.state)

    def curve(self) -> RiskCurve:
        """The whole curve so far."""
        nothing = torch.zeros(0).double()
        uncertainty = torch.cat([nothing, *(u for u, _ in self.state)])
        return risk_coverage(uncertainty, torch.cat([nothing, *(x for _, x in self.state)]))

    def compute(self) -> Estimate:
        """The area so far."""
        return self.curve().area


def _from_here(values: Tensor) -> Tensor:
    return values.flip(0).cumsum(0).flip(0)


def _checked(uncertainty: Tensor, loss: Tensor) -> tuple[Tensor, Tensor]:
    if uncertainty.shape != loss.shape:
        raise DataError(
            f"loss must have the shape of uncertainty, {tuple(uncertainty.shape)}, but has "
            f"{tuple(loss.shape)}. Give one of each per datum."
        )
    u, losses = float64(uncertainty).flatten(), float64(loss).flatten()
    if bool(u.isnan().any()):
        raise DataError(
            "uncertainty must be numbers, but holds NaN, which has no rank. Drop those data."
        )
    if not bool(losses.isfinite().all()):
        raise DataError("loss must be finite, but holds NaN or inf. Find where they arise first.")
    return u, losses
