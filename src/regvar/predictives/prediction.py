"""What a predictive hands out: the prediction, and where its uncertainty comes from.

    total = aleatoric + epistemic

For classes these are entropies in nats: total H[p], aleatoric E_f H[p(y | f)], and epistemic their
difference, the mutual information of label and outputs. For real numbers they are variances.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Classification:
    """Probabilities of labels, with their entropy split in two.

    >>> import torch
    >>> from regvar.predictives import Classification
    >>> half = torch.tensor([[0.5, 0.5]])
    >>> known = Classification(half, aleatoric=torch.tensor([0.5]), epistemic=torch.tensor([0.25]))
    >>> known.total
    tensor([0.7500])
    """

    probs: Tensor  # p(y | x), shaped like the outputs; for Bernoulli p(y = 1 | x)
    aleatoric: Tensor  # E_f H[p(y | f)] ≥ 0, one per label
    epistemic: Tensor  # mutual information I[y; f] ≥ 0, one per label

    @property
    def total(self) -> Tensor:
        """H[p(y | x)] in nats, one per label."""
        return self.aleatoric + self.epistemic


@dataclass(frozen=True)
class Regression:
    """A Gaussian prediction, with its variance split in two.

    >>> import torch
    >>> from regvar.predictives import Regression
    >>> Regression(torch.zeros(1), aleatoric=torch.ones(1), epistemic=torch.ones(1)).variance
    tensor([2.])
    """

    mean: Tensor  # f(x), [batch, outputs...]
    aleatoric: Tensor  # σ², the observation noise, [batch, outputs...]
    epistemic: Tensor  # σ²_f(x), [batch, outputs...]

    @property
    def variance(self) -> Tensor:
        """σ²_f(x) + σ²: the variance of the next observation."""
        return self.aleatoric + self.epistemic

    @property
    def total(self) -> Tensor:
        """The same as `variance`."""
        return self.variance


Prediction = Classification | Regression
