"""Metrics that are means over data: NLL, Brier, accuracy, PICP and CRPS."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from regvar.batches import IGNORED
from regvar.errors import DataError, require
from regvar.metrics.densities import (
    gaussian_coverage,
    gaussian_crps,
    gaussian_log_density,
    sample_crps,
)
from regvar.metrics.estimate import Estimate, RunningMean, require_like
from regvar.metrics.labels import label_scores


@dataclass
class NLL:
    """Mean negative log probability per datum, −log p(y | x), in nats.

    A datum is a label that is not ignored (for a language model, a token), or an example of a
    regression, whose outputs' log densities add up. The standard error takes data as independent,
    which tokens of one text are not. A label of probability zero makes the value infinite.

    >>> import torch
    >>> from regvar.metrics import NLL
    >>> nll = NLL()
    >>> nll.update(torch.tensor([[0.5, 0.5], [0.5, 0.5]]), torch.tensor([0, -100]))
    >>> nll.compute().value, nll.compute().count
    (0.6931471805599453, 1)
    """

    ignore_index: int = IGNORED
    state: RunningMean = field(default_factory=RunningMean, repr=False)

    def update(self, probs: Tensor, targets: Tensor) -> None:
        """Add labels [batch, ...] with their probabilities [batch, ..., classes]."""
        scores = label_scores(probs, targets, self.ignore_index)
        self.state = self.state.add(-scores.target_prob.log())

    def update_gaussian(self, mean: Tensor, variance: Tensor, targets: Tensor) -> None:
        """Add targets with their predictive mean and variance (σ²_f + σ²), of equal shapes."""
        self.state = self.state.add(-gaussian_log_density(mean, variance, targets))

    def update_log_probs(self, log_probs: Tensor) -> None:
        """Add data by log p(y | x), one number each; see `label_log_probs` for logits."""
        if bool(log_probs.isnan().any()):
            raise DataError(
                "log_probs must be numbers, but hold NaN. Find where it arises first; a "
                "probability of zero is -inf."
            )
        self.state = self.state.add(-log_probs)

    def merge(self, other: NLL) -> NLL:
        """Both metrics' data in a new one."""
        require_like(self, other, "ignore_index")
        return NLL(self.ignore_index, self.state.merge(other.state))

    def compute(self) -> Estimate:
        """The mean so far."""
        return self.state.estimate("NLL")


@dataclass
class Brier:
    """Mean squared error of the class probabilities, Σ_c (p_c − 1[c = y])², from 0 to 2.

    The sum over all classes, as Brier (1950) has it: for two classes twice the score that takes
    the positive class alone.

    >>> import torch
    >>> from regvar.metrics import Brier
    >>> brier = Brier()
    >>> brier.update(torch.tensor([[0.5, 0.5]]), torch.tensor([0]))
    >>> round(brier.compute().value, 6)
    0.5
    """

    ignore_index: int = IGNORED
    state: RunningMean = field(default_factory=RunningMean, repr=False)

    def update(self, probs: Tensor, targets: Tensor) -> None:
        """Add labels [batch, ...] with their probabilities [batch, ..., classes]."""
        scores = label_scores(probs, targets, self.ignore_index)
        self.state = self.state.add(scores.norm - 2 * scores.target_prob + 1)

    def merge(self, other: Brier) -> Brier:
        """Both metrics' data in a new one."""
        require_like(self, other, "ignore_index")
        return Brier(self.ignore_index, self.state.merge(other.state))

    def compute(self) -> Estimate:
        """The mean so far."""
        return self.state.estimate("Brier")


@dataclass
class Accuracy:
    """Share of labels that are the most probable class; the first of tied classes counts.

    The standard error is Wald's √(p (1 − p)/n): zero, not small, when all or none are right.

    >>> import torch
    >>> from regvar.metrics import Accuracy
    >>> accuracy = Accuracy()
    >>> accuracy.update(torch.tensor([[0.9, 0.1], [0.9, 0.1]]), torch.tensor([0, 1]))
    >>> accuracy.compute().value
    0.5
    """

    ignore_index: int = IGNORED
    state: RunningMean = field(default_factory=RunningMean, repr=False)

    def update(self, probs: Tensor, targets: Tensor) -> None:
        """Add labels [batch, ...] with their probabilities [batch, ..., classes]."""
        self.state = self.state.add(label_scores(probs, targets, self.ignore_index).correct)

    def merge(self, other: Accuracy) -> Accuracy:
        """Both metrics' data in a new one."""
        require_like(self, other, "ignore_index")
        return Accuracy(self.ignore_index, self.state.merge(other.state))

    def compute(self) -> Estimate:
        """The share so far."""
        return self.state.estimate("Accuracy", proportion=True)


@dataclass
class PICP:
    """Prediction interval coverage probability: how often y is in its central Gaussian interval.

    The ends are inside. Well calibrated means equal to `level`, not as large as possible. The
    standard error is Wald's √(p (1 − p)/n): zero, not small, when all or none are covered.

    >>> import torch
    >>> from regvar.metrics import PICP
    >>> picp = PICP()
    >>> picp.update(torch.zeros(2), torch.ones(2), torch.tensor([1.9, 2.0]))
    >>> picp.compute().value
    0.5
    """

    level: float = 0.95
    state: RunningMean = field(default_factory=RunningMean, repr=False)

    def __post_init__(self) -> None:
        """Refuse a level that is no probability."""
        require(0 < self.level < 1, "level", "strictly between 0 and 1", self.level)

    def update(self, mean: Tensor, variance: Tensor, targets: Tensor) -> None:
        """Add targets with their predictive mean and variance (σ²_f + σ²), of equal shapes."""
        self.state = self.state.add(gaussian_coverage(mean, variance, targets, level=self.level))

    def merge(self, other: PICP) -> PICP:
        """Both metrics' data in a new one."""
        require_like(self, other, "level")
        return PICP(self.level, self.state.merge(other.state))

    def compute(self) -> Estimate:
        """The share so far."""
        return self.state.estimate("PICP", proportion=True)


@dataclass
class CRPS:
    """Mean continuous ranked probability score ∫ (F(u) − 1[y ≤ u])² du, in the unit of y.

    >>> import torch
    >>> from regvar.metrics import CRPS
    >>> crps = CRPS()
    >>> crps.update(torch.zeros(1), torch.ones(1), torch.zeros(1))
    >>> round(crps.compute().value, 6)
    0.233695
    """

    state: RunningMean = field(default_factory=RunningMean, repr=False)

    def update(self, mean: Tensor, variance: Tensor, targets: Tensor) -> None:
        """Add targets with a Gaussian predictive mean and variance (σ²_f + σ²), in closed form."""
        self.state = self.state.add(gaussian_crps(mean, variance, targets))

    def update_samples(self, samples: Tensor, targets: Tensor, *, fair: bool = True) -> None:
        """Add targets with draws [draws, batch, outputs...]; see `sample_crps` for `fair`."""
        self.state = self.state.add(sample_crps(samples, targets, fair=fair))

    def merge(self, other: CRPS) -> CRPS:
        """Both metrics' data in a new one."""
        require_like(self, other)
        return CRPS(self.state.merge(other.state))

    def compute(self) -> Estimate:
        """The mean so far."""
        return self.state.estimate("CRPS")
