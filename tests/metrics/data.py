"""Simulated predictions, shared by the tests of metrics."""

from __future__ import annotations

import torch
from torch import Tensor


def stream(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def classifier(n: int = 500, classes: int = 5, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Probabilities of an overconfident classifier, and labels."""
    generator = stream(seed)
    logits = 1.5 * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(-1), 1, generator=generator).squeeze(1)
    return (1.7 * logits).softmax(-1), labels


def calibrated(n: int, seed: int, classes: int = 4) -> tuple[Tensor, Tensor]:
    """Confidences of a perfectly calibrated classifier, and whether its labels are correct."""
    generator = stream(seed)
    probs = (1.5 * torch.randn(n, classes, generator=generator, dtype=torch.float64)).softmax(-1)
    labels = torch.multinomial(probs, 1, generator=generator).squeeze(1)
    confidence, predicted = probs.max(-1)
    return confidence, predicted == labels


def regression(n: int = 400, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Means, variances and targets, the variances a little too small."""
    generator = stream(seed)
    mean, noise = torch.randn(2, n, generator=generator, dtype=torch.float64).unbind(0)
    variance = 0.2 + torch.rand(n, generator=generator, dtype=torch.float64)
    return 3 * mean, variance, 3 * mean + 1.2 * variance.sqrt() * noise


def scores(n: int = 300, seed: int = 0, *, tied: bool = False) -> tuple[Tensor, Tensor]:
    """Uncertainties that tell positives from negatives in part, and which are positive.

    There are two of each kind at least.
    """
    generator = stream(seed)
    positive = torch.rand(n, generator=generator) < 0.4
    positive[:4] = torch.tensor([True, False, True, False])
    values = torch.randn(n, generator=generator, dtype=torch.float64) + positive
    return ((2 * values).round() if tied else values), positive
