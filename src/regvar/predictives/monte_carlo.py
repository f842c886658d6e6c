"""Monte Carlo predictive: the labels' probabilities averaged over draws of the logits.

    p(y | x) = (1/S) Σ_k p(y | f + √(s σ²_f) ⊙ ε_k),   ε_k ~ N(0, I)

with the variance scale s and the logits independent given x, as their diagonal variance says. All
labels are read with the same S draws ε_k: an answer does not depend on what else is in a batch, is
smooth in the scale, and comparisons of inputs, scales and methods share their random error. One
draw is held at a time.
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
from regvar.likelihoods import Categorical
from regvar.predictives import labels
from regvar.predictives.labels import LabelModel
from regvar.predictives.prediction import Classification
from regvar.results import Moments

_STREAM = 20  # keeps these random numbers apart from those of the regularizers


@dataclass(frozen=True)
class MonteCarlo:
    """Softmax or sigmoid averaged over S draws: a probability's standard error is ≤ 1/(2√S).

    Costs S evaluations for every scale that calibration tries: over a large vocabulary give
    `calibrate` a short grid.

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

    def log_prob(self, moments: Moments, targets: Any, scales: Sequence[float] = (1.0,)) -> Tensor:
        """Log of the averaged probability at each scale, the same draws for all: [scales, data]."""
        columns: list[Tensor] = []
        for f, variance, y in labels.scored(self.likelihood, moments, targets):
            std = variance.sqrt().to(f)
            sums = [torch.full(y.shape, -math.inf, dtype=f.dtype, device=f.device) for _ in scales]
            for eps in self._draws(f):
                step = std * eps
                for k, scale in enumerate(scales):
                    value = labels.log_prob(self.likelihood, f + math.sqrt(scale) * step, y)
                    sums[k] = torch.logaddexp(sums[k], value)
            columns.append(torch.stack(sums) - math.log(self.samples))
        return labels.per_datum(torch.cat(columns, 1))

    def predict(self, moments: Moments) -> Classification:
        """Probabilities; the mutual information is H[mean of p] − mean of H[p]."""
        return labels.predicted(self.likelihood, moments, self._reading)

    def _reading(self, f: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        std = variance.sqrt().to(f)
        probs = torch.zeros_like(f)
        expected = torch.zeros_like(labels.entropy(self.likelihood, probs))
        for eps in self._draws(f):
            p = labels.probabilities(self.likelihood, f + std * eps)
            probs += p / self.samples
            expected += labels.entropy(self.likelihood, p) / self.samples
        probs = probs.clamp(max=1)
        return probs, labels.entropy(self.likelihood, probs) - expected

    def _draws(self, f: Tensor) -> Iterator[Tensor]:
        """ε_k, one draw at a time: [classes] for `Categorical`, [outputs...] for `Bernoulli`."""
        shape = f.shape[-1:] if isinstance(self.likelihood, Categorical) else f.shape[1:]
        for k in range(self.samples):
            yield noise.normal((self.seed, k, _STREAM), 0, torch.Size((1, *shape)), f)[0]
