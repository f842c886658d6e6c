"""Monte Carlo predictive: the labels' probabilities averaged over draws of the logits.

    p(y | x) = (1/S) Σ_k p(y | f + √(s σ²_f) ⊙ ε_k),   ε_k ~ N(0, I)

with the variance scale s and the logits independent given x, as their diagonal variance says. One
draw is held at a time. Each row of the data has random numbers of its own: the answer is the same
for every batch size (as long as `first_row` counts on), and smooth in the scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regvar import noise
from regvar.errors import require
from regvar.likelihoods.protocol import full_precision
from regvar.predictives import labels
from regvar.predictives.labels import LabelModel
from regvar.predictives.prediction import Classification
from regvar.results import Moments

_STREAM = 20  # keeps these random numbers apart from those of the regularizers


@dataclass(frozen=True)
class MonteCarlo:
    """Softmax or sigmoid averaged over S draws: a probability's error is at most 1/(2√S).

    >>> import torch, regvar
    >>> from regvar.predictives import MonteCarlo
    >>> predictive = MonteCarlo(regvar.Categorical(), samples=50, seed=0)
    >>> found = predictive.predict(regvar.Moments(torch.zeros(2, 3), torch.ones(2, 3)))
    >>> bool((found.epistemic > 0).all()), found.probs.shape
    (True, torch.Size([2, 3]))
    """

    likelihood: LabelModel
    samples: int = 100  # S
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse a likelihood without labels, and no draws."""
        labels.check_likelihood(self.likelihood)
        require(self.samples >= 1, "samples", "at least 1", self.samples)

    def log_prob(
        self, moments: Moments, targets: Any, scales: Sequence[float] = (1.0,), first_row: int = 0
    ) -> Tensor:
        """Log of the averaged probability at each scale, the same draws for all: [scales, data]."""
        y = self.likelihood.check(moments.mean, targets)
        f = full_precision(moments.mean)
        sums = [torch.full(y.shape, -math.inf, dtype=f.dtype, device=f.device) for _ in scales]
        for step in self._steps(moments, first_row):
            for k, scale in enumerate(scales):
                value = labels.log_prob(self.likelihood, f + math.sqrt(scale) * step, y)
                sums[k] = torch.logaddexp(sums[k], value)
        means = [total - math.log(self.samples) for total in sums]
        return torch.stack([labels.per_datum(self.likelihood, mean, y) for mean in means])

    def predict(self, moments: Moments, first_row: int = 0) -> Classification:
        """Probabilities; the mutual information is H[mean of p] − mean of H[p]."""
        f = full_precision(moments.mean)
        probs = torch.zeros_like(f)
        expected = torch.zeros_like(labels.entropy(self.likelihood, probs))
        for step in self._steps(moments, first_row):
            p = labels.probabilities(self.likelihood, f + step)
            probs += p / self.samples
            expected += labels.entropy(self.likelihood, p) / self.samples
        probs = probs.clamp(max=1)
        total = labels.entropy(self.likelihood, probs)
        epistemic = (total - expected).clamp(min=0)
        return Classification(probs, aleatoric=total - epistemic, epistemic=epistemic)

    def _steps(self, moments: Moments, first_row: int) -> Iterator[Tensor]:
        """σ_f ⊙ ε_k, one draw at a time."""
        std = full_precision(moments.variance).sqrt().to(full_precision(moments.mean))
        for k in range(self.samples):
            yield std * noise.normal((self.seed, k, _STREAM), first_row, std.shape, std)
