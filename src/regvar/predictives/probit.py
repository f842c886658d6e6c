"""Extended probit approximation (Eq. 20): uncertain logits are shrunk towards 0.

    κ_c = 1 / √(1 + π s σ²_c / 8),   p = softmax(κ ⊙ f),   or sigmoid(κ f) for yes/no labels

with the variance scale s. No random numbers. With one variance for all outputs of an input, their
mean, κ is a temperature of that input: it shrinks every logit alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regvar.errors import require
from regvar.likelihoods import Categorical
from regvar.predictives import labels
from regvar.predictives.labels import LabelModel
from regvar.predictives.prediction import Classification
from regvar.results import Moments

_NODES = 65  # trapezoidal rule on ±8 standard deviations, for one logit at a time


@dataclass(frozen=True)
class Probit:
    """Eq. 20, the paper's predictive for classes.

    For `Categorical`, `shared` takes the mean of an input's variances for all its logits: the most
    probable class is then that of the network, as it need not be where each logit has a κ of its
    own, and adding a constant to all logits changes nothing.

    For `Bernoulli` the probability is within 0.02 of the integral it approximates, whatever the
    moments. For `Categorical` no such bound holds: κ acts on each logit by itself, so that without
    `shared` adding a constant to all logits changes p. `MonteCarlo` has neither limit.

    `total` is the entropy of p as approximated. The mutual information comes without sampling:
    for `Bernoulli` by quadrature (to 2e-4 up to σ² = 64, to 0.1 beyond); for `Categorical` as
    ½ Σ_c κ_c² σ²_c p_c (1 − p_c), which is right to first order in σ² and at most
    4/π Σ_c p_c (1 − p_c): about half the truth at 50 classes and σ² = 4. Neither exceeds the
    total, and `aleatoric` is what remains of it.

    >>> import torch, regvar
    >>> from regvar.predictives import Probit
    >>> moments = regvar.Moments(torch.tensor([[2.0, 0.0]]), torch.full((1, 2), 8 / torch.pi))
    >>> Probit(regvar.Categorical()).predict(moments).probs
    tensor([[0.8044, 0.1956]])
    """

    likelihood: LabelModel
    shared: bool = False  # one κ for all logits of an input

    def __post_init__(self) -> None:
        """Refuse a likelihood without labels, and sharing where each logit is its own label."""
        labels.check_likelihood(self.likelihood)
        alone = isinstance(self.likelihood, Categorical) or not self.shared
        require(alone, "shared", "False for Bernoulli, whose logits do not compete", self.shared)

    def log_prob(self, moments: Moments, targets: Any, scales: Sequence[float] = (1.0,)) -> Tensor:
        """Log p(y | x) at each scale: [scales, data]; temporaries stay small."""
        columns = [
            torch.stack(
                [labels.log_prob(self.likelihood, f * kappa(variance, s), y) for s in scales]
            )
            for f, each, y in labels.scored(self.likelihood, moments, targets)
            for variance in (self._of(each),)
        ]
        return labels.per_datum(torch.cat(columns, 1))

    def predict(self, moments: Moments) -> Classification:
        """Probabilities, and their entropy split in two."""
        return labels.predicted(self.likelihood, moments, self._reading)

    def _of(self, variance: Tensor) -> Tensor:
        """The variance that κ is made of: each logit's own, or the mean over the classes."""
        return variance.mean(-1, keepdim=True) if self.shared else variance

    def _reading(self, f: Tensor, each: Tensor) -> tuple[Tensor, Tensor]:
        variance = self._of(each)
        shrink = kappa(variance)
        probs = labels.probabilities(self.likelihood, f * shrink)
        if isinstance(self.likelihood, Categorical):
            spread = shrink.square() * variance * probs * (1 - probs)
            return probs, 0.5 * spread.sum(-1)
        return probs, _one_logit_information(self.likelihood, f, variance)


def kappa(variance: Tensor, scale: float = 1.0) -> Tensor:
    """κ = 1/√(1 + π s σ²/8), one per logit (Eq. 20)."""
    return torch.rsqrt(1 + (math.pi / 8 * scale) * variance)


def _one_logit_information(likelihood: LabelModel, f: Tensor, variance: Tensor) -> Tensor:
    """I[y; f] for y ~ Bernoulli(sigmoid f): H[E p] − E H[p], never negative (Jensen)."""
    nodes = torch.linspace(-8, 8, _NODES, dtype=torch.float64)
    weights = torch.softmax(-0.5 * nodes.square(), 0).tolist()
    std = variance.sqrt()
    mean, expected = torch.zeros_like(std), torch.zeros_like(std)
    for node, weight in zip(nodes.tolist(), weights, strict=True):
        p = (f + node * std).sigmoid()
        mean += weight * p
        expected += weight * labels.entropy(likelihood, p)
    return labels.entropy(likelihood, mean) - expected
