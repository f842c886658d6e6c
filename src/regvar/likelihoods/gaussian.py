"""Gaussian observation noise with a known standard deviation σ: Λ = I / σ²."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regvar.errors import DataError, require
from regvar.likelihoods.protocol import full_precision, same_shape


@dataclass(frozen=True)
class Gaussian:
    """log N(y | f, σ²), summed over outputs; `sigma` is a number or broadcasts over the outputs.

    >>> import torch, regvar
    >>> regvar.Gaussian(sigma=0.5).curvature(torch.zeros(1, 2), torch.zeros(1, 2), torch.ones(1, 2))
    tensor([[4., 4.]])
    """

    sigma: float | Tensor

    def __post_init__(self) -> None:
        """Refuse a σ that is not positive."""
        ok = bool((torch.as_tensor(self.sigma) > 0).all())
        require(ok, "sigma", "positive", self.sigma, "It is the noise's standard deviation.")

    def check(self, outputs: Tensor, targets: Any) -> Tensor:
        """Targets of the outputs' shape, finite."""
        y = same_shape(outputs, targets, "Gaussian")
        if not bool(torch.isfinite(y).all()):
            raise DataError("targets of Gaussian must be finite, but hold NaN or inf. Drop them.")
        return y

    def log_prob(self, outputs: Tensor, targets: Any) -> Tensor:
        """−½ Σ [(y − f)² / σ² + log 2πσ²]."""
        f = full_precision(outputs)
        sigma = self._sigma(f)
        z = (targets.to(f) - f) / sigma
        return -0.5 * (z.square() + torch.log(2 * math.pi * sigma.square())).sum()

    def count(self, outputs: Tensor, targets: Any) -> int:
        """One datum per example."""
        return outputs.shape[0]

    def mask(self, outputs: Tensor, targets: Any) -> Tensor | None:
        """Every output is scored."""
        return None

    def curvature(self, outputs: Tensor, targets: Any, v: Tensor) -> Tensor:
        """Λ v = v / σ²."""
        return v / self._sigma(v).square()

    def noise(self, outputs: Tensor, targets: Any, eps: Tensor) -> Tensor:
        """Λ^½ ε = ε / σ."""
        return eps / self._sigma(eps)

    def variance(self, outputs: Tensor) -> Tensor:
        """σ², broadcastable to the outputs."""
        return self._sigma(outputs).square()

    def _sigma(self, like: Tensor) -> Tensor:
        return torch.as_tensor(self.sigma, dtype=like.dtype, device=like.device)
