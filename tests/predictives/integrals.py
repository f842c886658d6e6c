"""Gaussian integrals over one logit by a very fine rule: the truth for yes/no labels."""

from __future__ import annotations

import torch
from torch import Tensor

import regvar

_NODES = torch.linspace(-12, 12, 100_001, dtype=torch.float64)
_WEIGHTS = torch.softmax(-0.5 * _NODES.square(), 0)


def binary_entropy(p: Tensor) -> Tensor:
    q = (1 - p).clamp(min=0)
    return -(torch.xlogy(p, p) + torch.xlogy(q, q))


def yes(mean: float, variance: float) -> float:
    """E sigmoid(f), f ~ N(mean, variance)."""
    return float(_WEIGHTS @ (mean + variance**0.5 * _NODES).sigmoid())


def information(mean: float, variance: float) -> float:
    """H[E p] − E H[p]."""
    expected = float(_WEIGHTS @ binary_entropy((mean + variance**0.5 * _NODES).sigmoid()))
    return float(binary_entropy(torch.tensor(yes(mean, variance), dtype=torch.float64))) - expected


def logits(
    batch: int = 6, classes: int = 4, variance: float = 2.0, seed: int = 0
) -> regvar.Moments:
    """Random moments in double precision, the variances unequal."""
    generator = torch.Generator().manual_seed(seed)
    mean = 2 * torch.randn(batch, classes, generator=generator, dtype=torch.float64)
    spread = torch.rand(batch, classes, generator=generator, dtype=torch.float64)
    return regvar.Moments(mean, 2 * variance * spread)
