"""An estimator whose moments are given, and data whose best scale is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

import regvar
from regvar.network import Network
from regvar.predictives import (
    GaussianPredictive,
    Probit,
)

Batches = list[tuple[Tensor, Tensor]]

CLASSES = Probit(regvar.Categorical())


def numbers(sigma: float) -> GaussianPredictive:
    return GaussianPredictive(regvar.Gaussian(sigma=sigma))


class FirstHalf(nn.Module):
    """Inputs carry the moments themselves: mean, then variance."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x.chunk(2, dim=-1)[0]


@dataclass(frozen=True)
class Simulated:
    """An estimator whose moments are read from its inputs."""

    network: Network
    solution: None = None

    def moments(self, x: Any) -> regvar.Moments:
        inputs = x[0] if isinstance(x, tuple | list) else x["x"] if isinstance(x, dict) else x
        mean, variance = cast("Tensor", inputs).chunk(2, dim=-1)
        return regvar.Moments(mean, variance)


def simulated(forward: Any = None) -> Simulated:
    return Simulated(Network(FirstHalf(), forward))


def real_numbers(scale: float, sigma: float, rows: int = 4000) -> tuple[Tensor, Tensor]:
    """Residuals whose variance is sigma² + scale · s2."""
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(rows, 2, generator=generator, dtype=torch.float64)
    s2 = 0.1 + 4 * torch.rand(rows, 2, generator=generator, dtype=torch.float64)
    eps = torch.randn(rows, 2, generator=generator, dtype=torch.float64)
    return torch.cat([mean, s2], 1), mean + (sigma**2 + scale * s2).sqrt() * eps


def labels(scale: float, rows: int = 4000, classes: int = 3) -> tuple[Tensor, Tensor]:
    """Labels drawn from Eq. 20 at the scale."""
    generator = torch.Generator().manual_seed(1)
    mean = 3 * torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    s2 = 4 * torch.rand(rows, classes, generator=generator, dtype=torch.float64)
    p = (mean / (1 + math.pi * scale * s2 / 8).sqrt()).softmax(-1)
    y = torch.multinomial(p, 1, generator=generator)[:, 0]
    return torch.cat([mean, s2], 1), y


def cut(data: tuple[Tensor, Tensor], size: int) -> Batches:
    return list(zip(data[0].split(size), data[1].split(size), strict=True))


def search(value: Callable[[float], float], low: float, high: float) -> float:
    """A dense search in log s, independent of the library: each round narrows it by a hundred."""
    a, b = math.log(low), math.log(high)
    for _ in range(4):
        places = [a + (b - a) * k / 400 for k in range(401)]
        best = max(places, key=lambda t: value(math.exp(t)))
        width = (b - a) / 200
        a, b = best - width, best + width
    return math.exp(0.5 * (a + b))


class Passes:
    """Counts the passes over its batches; `drift` makes each one different."""

    def __init__(self, data: Batches, drift: float = 0.0) -> None:
        self.data, self.drift, self.count = data, drift, 0

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        self.count += 1
        yield from ((x, y + self.count * self.drift) for x, y in self.data)
