"""Independent yes/no labels: p = sigmoid(f), Λ = diag(p (1 − p))."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regvar.errors import DataError
from regvar.likelihoods.protocol import full_precision, same_shape


@dataclass(frozen=True)
class Bernoulli:
    """y log sigmoid(f) + (1 − y) log sigmoid(−f), summed over outputs.

    >>> import torch, regvar
    >>> float(regvar.Bernoulli().log_prob(torch.zeros(1, 1), torch.ones(1, 1)).exp())
    0.5
    """

    def check(self, outputs: Tensor, targets: Any) -> Tensor:
        """Targets of the outputs' shape, between 0 and 1."""
        y = same_shape(outputs, targets, "Bernoulli")
        bad = y[~((y >= 0) & (y <= 1))]
        if bad.numel():
            raise DataError(
                f"label of Bernoulli must lie in 0..1, but {float(bad[0])} is out of range. "
                "Use 0 and 1, or Categorical() for more classes."
            )
        return y

    def log_prob(self, outputs: Tensor, targets: Any) -> Tensor:
        """Σ [y f − softplus(f)]."""
        f = full_precision(outputs)
        return -torch.nn.functional.binary_cross_entropy_with_logits(
            f, targets.to(f), reduction="sum"
        )

    def count(self, outputs: Tensor, targets: Any) -> int:
        """One datum per example."""
        return outputs.shape[0]

    def mask(self, outputs: Tensor, targets: Any) -> Tensor | None:
        """Every output is scored."""
        return None

    def curvature(self, outputs: Tensor, targets: Any, v: Tensor) -> Tensor:
        """Λ v = p (1 − p) v."""
        p = full_precision(outputs).sigmoid()
        return p * (1 - p) * v

    def noise(self, outputs: Tensor, targets: Any, eps: Tensor) -> Tensor:
        """Λ^½ ε = √(p (1 − p)) ε."""
        p = full_precision(outputs).sigmoid()
        return (p * (1 - p)).sqrt() * eps

    def label_noise(self, outputs: Tensor, targets: Any, uniform: Tensor) -> Tensor:
        """ỹ − p with ỹ ~ Bernoulli(p)."""
        p = full_precision(outputs).sigmoid()
        return (uniform.to(p) < p).to(p) - p

    def label_shape(self, outputs: Tensor) -> torch.Size:
        """One label per output."""
        return outputs.shape
