"""Expected calibration error of the predicted class, with equal-width and equal-mass bins.

ECE = Σ_m (n_m/n) |accuracy_m − confidence_m|. **It is biased upwards**: an absolute value of noise
is positive, so a perfectly calibrated classifier has a positive ECE at every finite n, of the order
√(M/n), and equal to its standard error times a number that grows with √M. Hence two numbers
beside `compute()`: `expected_if_calibrated()`, what chance alone would give at these confidences,
and `excess()`, the difference, whose interval covers 0 for a calibrated classifier.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regvar.batches import IGNORED
from regvar.errors import require
from regvar.metrics.estimate import Estimate, require_data, require_like
from regvar.metrics.labels import label_scores, require_confidence
from regvar.metrics.ranks import tied_means

Chunks = tuple[tuple[Tensor, Tensor], ...]


@dataclass(frozen=True)
class Bins:
    """What is kept of the data in each of M bins; c: confidence, a: 1 if correct, else 0."""

    count: Tensor  # n_m, [M], float64
    confidence: Tensor  # Σ c, [M]
    correct: Tensor  # Σ a, [M]
    chance: Tensor  # Σ c (1 − c), [M], the variance of Σ a under perfect calibration
    squares: Tensor  # Σ (a − c)², [M]

    @staticmethod
    def of(index: Tensor, confidence: Tensor, correct: Tensor, bins: int) -> Bins:
        """Sums over data whose bins are given by `index`."""
        c, a = confidence.double(), correct.double()

        def total(values: Tensor) -> Tensor:
            return torch.zeros(bins, dtype=torch.float64).index_add_(0, index, values)

        chance, squares = (c * (1 - c)).clamp(min=0), (a - c).square()
        return Bins(total(torch.ones_like(c)), total(c), total(a), total(chance), total(squares))

    def merge(self, other: Bins) -> Bins:
        """The data of both."""
        return Bins(
            self.count + other.count,
            self.confidence + other.confidence,
            self.correct + other.correct,
            self.chance + other.chance,
            self.squares + other.squares,
        )

    def error(self, metric: str) -> Estimate:
        """ECE and its delta-method standard error.

        With the sign s_m of each bin's gap held fixed, ECE is the mean of s_m (a − c) over data,
        and has that mean's standard error. Near a gap of zero the sign is not fixed: there the
        number is too large (see `expected_if_calibrated`), never too small.
        """
        n = int(self.count.sum())
        require_data(n, metric)
        value = float((self.correct - self.confidence).abs().sum()) / n
        variance = max(float(self.squares.sum()) / n - value**2, 0.0)
        return Estimate(value, math.sqrt(variance / (n - 1)) if n > 1 else math.nan, n)

    def chance_error(self, metric: str) -> Estimate:
        """E and standard deviation of ECE if every label had come true with its confidence.

        Gaps Σ (a − c) are then about normal with variances V_m = Σ c (1 − c), so that ECE has the
        mean Σ √(2 V_m/π)/n and the variance Σ V_m (1 − 2/π)/n².
        """
        n = int(self.count.sum())
        require_data(n, metric)
        mean = float((2 * self.chance / math.pi).sqrt().sum()) / n
        return Estimate(mean, math.sqrt((1 - 2 / math.pi) * float(self.chance.sum())) / n, n)

    def excess(self, metric: str) -> Estimate:
        """ECE − what chance gives, with ECE's standard error."""
        error = self.error(metric)
        return Estimate(
            error.value - self.chance_error(metric).value, error.standard_error, error.count
        )


@dataclass(frozen=True)
class Reliability:
    """The reliability diagram's points, one per bin that is not empty."""

    count: Tensor  # n_m, [bins]
    confidence: Tensor  # mean confidence, [bins]
    accuracy: Tensor  # share correct, [bins]


def equal_width(confidence: Tensor, bins: int) -> Tensor:
    """The bin of each confidence: ((m − 1)/M, m/M], right-closed, with 0 in the first.

    Edges are rounded to the confidences' dtype, so that 0.1 in float32 is in the first of ten
    bins just as 0.1 in float64 is.
    """
    inner = (torch.arange(1, bins, dtype=torch.float64) / bins).to(confidence.dtype)
    return torch.bucketize(confidence.double(), inner.double(), right=False)


def equal_mass(count: int, bins: int) -> Tensor:
    """The bin of each rank: M runs whose sizes differ by one at most, the longer ones first."""
    sizes = torch.full((bins,), count // bins)
    sizes[: count % bins] += 1
    return torch.repeat_interleave(torch.arange(bins), sizes)


def _reliability(bins: Bins, metric: str) -> Reliability:
    require_data(int(bins.count.sum()), metric)
    seen = bins.count > 0
    count = bins.count[seen]
    return Reliability(count, bins.confidence[seen] / count, bins.correct[seen] / count)


@dataclass
class ECE:
    """Expected calibration error of the predicted class over M equal-width bins.

    Bins are right-closed, ((m − 1)/M, m/M], and a confidence of 0 is in the first (Guo et al.
    2017; torchmetrics closes them on the left, which differs only on the edges). Memory is
    O(M). The value is biased upwards: read `excess()` or `expected_if_calibrated()` beside it.
    For its bootstrap, keep confidences and pass `calibration_error` to `bootstrap`.

    >>> import torch
    >>> from regvar.metrics import ECE
    >>> ece = ECE()
    >>> ece.update(torch.tensor([[0.8, 0.2], [0.8, 0.2]]), torch.tensor([0, 1]))
    >>> round(ece.compute().value, 6), round(ece.expected_if_calibrated().value, 6)
    (0.3, 0.225676)
    """

    bins: int = 10
    ignore_index: int = IGNORED
    state: Bins = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Start empty."""
        require(self.bins >= 1, "bins", "at least 1", self.bins)
        nothing = torch.zeros(0)
        self.state = Bins.of(nothing.long(), nothing, nothing, self.bins)

    def update(self, probs: Tensor, targets: Tensor) -> None:
        """Add labels [batch, ...] with their probabilities [batch, ..., classes]."""
        scores = label_scores(probs, targets, self.ignore_index)
        self._add(scores.confidence, scores.correct)

    def update_confidence(self, confidence: Tensor, correct: Tensor) -> None:
        """Add predictions by their confidence in [0, 1] and whether they are correct."""
        self._add(*require_confidence(confidence, correct))

    def merge(self, other: ECE) -> ECE:
        """Both metrics' data in a new one."""
        require_like(self, other, "bins", "ignore_index")
        both = ECE(self.bins, self.ignore_index)
        both.state = self.state.merge(other.state)
        return both

    def compute(self) -> Estimate:
        """The plug-in ECE, biased upwards, with its delta-method standard error."""
        return self.state.error("ECE")

    def expected_if_calibrated(self) -> Estimate:
        """The ECE that chance alone gives at these confidences, with its standard deviation.

        A normal approximation in each bin: good from about ten expected errors a bin on.
        """
        return self.state.chance_error("ECE")

    def excess(self) -> Estimate:
        """ECE minus `expected_if_calibrated`; its interval covers 0 for a calibrated classifier.

        Its interval is wide for that purpose. Far from calibration the bias is smaller than what
        is subtracted, so that the excess is then too small by at most that much.
        """
        return self.state.excess("ECE")

    def reliability(self) -> Reliability:
        """The points of the reliability diagram."""
        return _reliability(self.state, "ECE")

    def _add(self, confidence: Tensor, correct: Tensor) -> None:
        index = equal_width(confidence, self.bins)
        self.state = self.state.merge(Bins.of(index, confidence, correct, self.bins))


@dataclass
class AdaptiveECE:
    """Expected calibration error of the predicted class over M equal-mass bins.

    Data are sorted by confidence and cut into runs whose sizes differ by one at most. Where a cut
    separates tied confidences, the ties' mean accuracy goes to either side, so that the order of
    the data does not matter. Keeps a confidence and a bit per datum (quantiles cannot be merged),
    never probabilities. Biased upwards as ECE is.

    >>> import torch
    >>> from regvar.metrics import AdaptiveECE
    >>> ace = AdaptiveECE(bins=2)
    >>> ace.update_confidence(torch.tensor([0.5, 0.75, 0.875, 1.0]), torch.tensor([0, 1, 1, 1]))
    >>> ace.compute().value
    0.09375
    """

    bins: int = 10
    ignore_index: int = IGNORED
    state: Chunks = field(default=(), repr=False)

    def __post_init__(self) -> None:
        """Refuse a number of bins below one."""
        require(self.bins >= 1, "bins", "at least 1", self.bins)

    def update(self, probs: Tensor, targets: Tensor) -> None:
        """Add labels [batch, ...] with their probabilities [batch, ..., classes]."""
        scores = label_scores(probs, targets, self.ignore_index)
        self.state = (*self.state, (scores.confidence.double(), scores.correct))

    def update_confidence(self, confidence: Tensor, correct: Tensor) -> None:
        """Add predictions by their confidence in [0, 1] and whether they are correct."""
        c, a = require_confidence(confidence, correct)
        self.state = (*self.state, (c.double(), a))

    def merge(self, other: AdaptiveECE) -> AdaptiveECE:
        """Both metrics' data in a new one."""
        require_like(self, other, "bins", "ignore_index")
        return AdaptiveECE(self.bins, self.ignore_index, self.state + other.state)

    def compute(self) -> Estimate:
        """The plug-in ECE, biased upwards, with its delta-method standard error."""
        return self._binned().error("AdaptiveECE")

    def expected_if_calibrated(self) -> Estimate:
        """The value that chance alone gives at these confidences, with its standard deviation."""
        return self._binned().chance_error("AdaptiveECE")

    def excess(self) -> Estimate:
        """The value minus `expected_if_calibrated`, as for `ECE`."""
        return self._binned().excess("AdaptiveECE")

    def reliability(self) -> Reliability:
        """The points of the reliability diagram."""
        return _reliability(self._binned(), "AdaptiveECE")

    def _binned(self) -> Bins:
        confidence = torch.cat([torch.zeros(0).double(), *(c for c, _ in self.state)])
        correct = torch.cat([torch.zeros(0).double(), *(a.double() for _, a in self.state)])
        squares = tied_means(confidence, (correct - confidence).square())
        accuracy = tied_means(confidence, correct)
        order = confidence.argsort()
        index = equal_mass(len(order), self.bins)
        sums = Bins.of(index, confidence[order], accuracy[order], self.bins)
        raw = torch.zeros(self.bins).double().index_add_(0, index, squares[order])
        return Bins(sums.count, sums.confidence, sums.correct, sums.chance, raw)


def calibration_error(confidence: Tensor, correct: Tensor, *, bins: int = 10) -> float:
    """ECE with equal-width bins as a function of all data, for `bootstrap`.

    >>> import torch
    >>> from regvar.metrics import calibration_error
    >>> round(calibration_error(torch.tensor([0.75, 0.75]), torch.tensor([1, 0])), 6)
    0.25
    """
    metric = ECE(bins)
    metric.update_confidence(confidence, correct)
    return metric.compute().value
