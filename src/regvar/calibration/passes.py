"""One pass over validation data: the log likelihood at every scale, and what is kept of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import length_hint
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from regvar import batches
from regvar.batches import Batch
from regvar.errors import DataError
from regvar.estimators.protocol import Estimator
from regvar.likelihoods.protocol import full_precision
from regvar.predictives import Predictive
from regvar.results import Moments

Pair = tuple[Moments, Any]  # a batch's moments and its targets


@dataclass(frozen=True)
class Scores:
    """One pass: the mean log likelihood of each scale."""

    scales: tuple[float, ...]  # increasing
    values: tuple[float, ...]
    size: int
    epsilon: float  # of the outputs' precision

    def tied(self, k: int) -> bool:
        """Whether a value is the highest, up to rounding."""
        top = max(self.values)
        return top - self.values[k] <= self.epsilon * max(1.0, abs(top))

    def best(self) -> int:
        """The first of the highest."""
        return next(k for k in range(len(self.values)) if self.tied(k))

    def peak(self) -> tuple[float, float]:
        """Place and height of the parabola through the best and its neighbors."""
        k = self.best()
        if k in (0, len(self.scales) - 1):
            return self.scales[k], self.values[k]
        left, top, right = self.values[k - 1 : k + 2]
        bend = left - 2 * top + right
        shift = 0.5 * (left - right) / bend if bend < 0 else 0.0
        shift = max(-1.0, min(1.0, shift))
        a, b, c = self.scales[k - 1 : k + 2]
        scale = b * (b / a if shift < 0 else c / b) ** shift if a > 0 else b + shift * (c - b)
        return scale, top - 0.25 * (left - right) * shift


@dataclass
class Held:
    """The pairs of a pass, as long as they fit; more than that, and none is kept."""

    room: int  # bytes
    pairs: list[Pair] = field(default_factory=lambda: [])
    whole: bool = True

    def keeping(self, passing: Iterable[Pair]) -> Iterator[Pair]:
        """The same pairs, kept on their way."""
        for pair in passing:
            self.room -= _bytes(pair)
            self.whole = self.whole and self.room >= 0
            if self.whole:
                self.pairs.append(pair)
            else:
                self.pairs.clear()
            yield pair


def _bytes(pair: Pair) -> int:
    tensors = (pair[0].mean, pair[0].variance, pair[1])
    return sum(t.numel() * t.element_size() for t in tensors if isinstance(t, Tensor))


def read(uq: Estimator, loader: Iterable[Batch]) -> Iterator[Pair]:
    """Moments and targets, batch by batch."""
    count = length_hint(loader) or None
    passing = batches.pinned(loader, 0)
    for batch in tqdm(passing, desc="calibration", total=count, leave=False, disable=None):
        moments = _checked(uq.moments(batch))
        yield moments, uq.network.targets(batch, moments.mean)


def evaluate(pairs: Iterable[Pair], predictive: Predictive, scales: tuple[float, ...]) -> Scores:
    """The sum of each scale's log probabilities, in double precision."""
    totals = torch.zeros(len(scales), dtype=torch.float64)
    size, epsilon = 0, 0.0
    for moments, targets in pairs:
        with torch.no_grad():
            values = predictive.log_prob(moments, targets, scales)
        totals += values.cpu().sum(1, dtype=torch.float64)
        size += values.shape[1]
        epsilon = max(epsilon, torch.finfo(values.dtype).eps)
    if size == 0:
        raise DataError(
            "loader must hold at least one scored example, but it is empty or every label is "
            "ignored. Check the data set, drop_last and ignore_index."
        )
    means = (totals / size).tolist()
    bad = next((k for k, v in enumerate(means) if not math.isfinite(v)), None)
    if bad is not None:
        raise DataError(
            f"log likelihood of loader must be finite, but is {means[bad]} at the scale "
            f"{scales[bad]:g}. Look for NaN in the targets, or give a grid without that scale."
        )
    return Scores(scales, tuple(means), size, epsilon)


def _checked(moments: Moments) -> Moments:
    """Moments that a likelihood can be computed from."""
    finite = all(bool(torch.isfinite(m).all()) for m in (moments.mean, moments.variance))
    if not finite or bool((moments.variance < 0).any()):
        raise DataError(
            "moments of uq must be finite, with a variance of 0 or larger, but hold NaN, inf or "
            "a negative variance. Look for NaN in the inputs, and at uq.solution."
        )
    return Moments(moments.mean.detach(), full_precision(moments.variance.detach()))
