"""Gaussian predictive: the variance of the outputs adds to that of the observation noise.

    p(y | x) = N(f(x), s σ²_f(x) + σ²)

with the variance scale s; independent over outputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regvar.errors import require
from regvar.likelihoods import Gaussian
from regvar.likelihoods.protocol import full_precision
from regvar.predictives.prediction import Regression
from regvar.results import Moments


@dataclass(frozen=True)
class GaussianPredictive:
    """N(f, s σ²_f + σ²), exact for Gaussian outputs and a `Gaussian` likelihood.

    >>> import torch, regvar
    >>> from regvar.predictives import GaussianPredictive
    >>> predictive = GaussianPredictive(regvar.Gaussian(sigma=1.0))
    >>> predictive.predict(regvar.Moments(torch.zeros(1, 1), torch.full((1, 1), 3.0))).variance
    tensor([[4.]])
    """

    likelihood: Gaussian

    def __post_init__(self) -> None:
        """Refuse a likelihood without σ."""
        _check_likelihood(self.likelihood)

    def log_prob(self, moments: Moments, targets: Any, scales: Sequence[float] = (1.0,)) -> Tensor:
        """Log N(y | f, s σ²_f + σ²), summed over the outputs of an example: [scales, batch]."""
        y = self.likelihood.check(moments.mean, targets)
        f, variance = full_precision(moments.mean), full_precision(moments.variance)
        error = (y.to(f) - f).square()
        noise = self.likelihood.variance(f)
        rows: list[Tensor] = []
        for scale in scales:
            v = scale * variance + noise
            logs = -0.5 * (error / v + torch.log(2 * math.pi * v))
            rows.append(logs.unsqueeze(-1).flatten(1).sum(1))
        return torch.stack(rows)

    def predict(self, moments: Moments) -> Regression:
        """Mean and variance of the next observation."""
        f = full_precision(moments.mean)
        noise = self.likelihood.variance(f).expand(f.shape)
        return Regression(f, aleatoric=noise, epistemic=full_precision(moments.variance))


def _check_likelihood(likelihood: object) -> None:
    ok = isinstance(likelihood, Gaussian)
    require(ok, "likelihood", "regvar.Gaussian(sigma=...)", likelihood)
