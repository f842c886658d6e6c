"""Area under the receiver operating characteristic, exact by ranks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regvar.errors import DataError
from regvar.metrics.estimate import Estimate, float64, require_like
from regvar.metrics.ranks import midranks

Chunks = tuple[tuple[Tensor, Tensor], ...]


def auroc(scores: Tensor, positive: Tensor) -> Estimate:
    """P(score of a positive > score of a negative) + ½ P(equal), with DeLong's standard error.

    By midranks, in O(n log n): exact, ties count a half. The variance is DeLong, DeLong and
    Clarke-Pearson's (1988): var(V₁₀)/n₁ + var(V₀₁)/n₀, where V₁₀ is the share of negatives below
    each positive and V₀₁ the share of positives above each negative. It is zero, not small, when
    the two are separated perfectly, and NaN with one positive or one negative.

    >>> import torch
    >>> from regvar.metrics import auroc
    >>> auroc(torch.tensor([0.1, 0.4, 0.4, 0.8]), torch.tensor([0, 0, 1, 1])).value
    0.875
    """
    s, y = _checked(scores, positive)
    high, low = s[y], s[~y]
    if not len(high) or not len(low):
        raise DataError(
            f"positive must hold both kinds of data for an AUROC, but {len(high)} are positive "
            f"and {len(low)} negative. Score both (in- and out-of-distribution, right and wrong)."
        )
    ranks = midranks(s)
    below = (ranks[y] - midranks(high)) / len(low)  # V₁₀
    above = 1 - (ranks[~y] - midranks(low)) / len(high)  # V₀₁
    variance = math.nan
    if len(high) > 1 and len(low) > 1:
        variance = float(below.var() / len(high) + above.var() / len(low))
    return Estimate(float(below.mean()), math.sqrt(variance), len(s))


@dataclass
class AUROC:
    """How well a score, such as an uncertainty, tells positives from negatives.

    Positive is what should score high: out-of-distribution inputs, or wrong predictions
    (`~label_scores(probs, targets).correct`). Keeps a score and a bit per datum, as exact ranks
    need them. Value and standard error as in `auroc`.

    >>> import torch
    >>> from regvar.metrics import AUROC
    >>> detection = AUROC()
    >>> detection.update_groups(inside=torch.tensor([0.1, 0.2]), outside=torch.tensor([0.2, 0.9]))
    >>> detection.compute().value
    0.875
    """

    state: Chunks = field(default=(), repr=False)

    def update(self, scores: Tensor, positive: Tensor) -> None:
        """Add data by score and whether each is positive (1 or 0), of equal shapes."""
        self.state = (*self.state, _checked(scores, positive))

    def update_groups(self, *, inside: Tensor, outside: Tensor) -> None:
        """Add scores of negatives (in distribution) and of positives (out of it)."""
        self.update(inside, torch.zeros_like(inside, dtype=torch.bool))
        self.update(outside, torch.ones_like(outside, dtype=torch.bool))

    def merge(self, other: AUROC) -> AUROC:
        """Both metrics' data in a new one."""
        require_like(self, other)
        return AUROC(self.state + other.state)

    def compute(self) -> Estimate:
        """The area so far."""
        nothing = torch.zeros(0).double()
        scores = torch.cat([nothing, *(s for s, _ in self.state)])
        positive = torch.cat([nothing.bool(), *(y for _, y in self.state)])
        return auroc(scores, positive)


def _checked(scores: Tensor, positive: Tensor) -> tuple[Tensor, Tensor]:
    if scores.shape != positive.shape:
        raise DataError(
            f"positive must have the shape of scores, {tuple(scores.shape)}, but has "
            f"{tuple(positive.shape)}. Give one of each per datum."
        )
    s, y = float64(scores).flatten(), positive.detach().cpu().flatten()
    if bool(s.isnan().any()):
        raise DataError("scores must be numbers, but hold NaN, which has no rank. Drop those data.")
    wrong = y[(y != 0) & (y != 1)]
    if wrong.numel():
        raise DataError(
            f"positive must be true or false (1 or 0), but {float(wrong[0]):.6g} is neither."
            " Pass a comparison, such as predicted != target."
        )
    return s, y.bool()
