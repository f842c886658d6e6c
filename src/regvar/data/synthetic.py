"""The four synthetic tasks of Appendix C, seeded.

| task | x | y |
|---|---|---|
| quadratic-uniform | 32 of N(0, 1) | x²/10 − x/2 + 5 + ε/10 |
| quadratic-inbetween | 16 of U(−2, −½) and 16 of U(⅘, 5/2) | the same |
| sin-uniform | 160 of U(−3/2, 23/20) | −sin(3x − 3/10) + ε/10 |
| sin-inbetween | 160 evenly spaced in [−1.5, −0.7) and [0.35, 1.15) | the same |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regvar.errors import ArgumentError

NOISE = 0.1  # the standard deviation of y around its mean


@dataclass(frozen=True)
class Task:
    """One data-generating distribution."""

    name: str
    inputs: Callable[[torch.Generator], Tensor]  # [n, 1]
    mean: Callable[[Tensor], Tensor]

    def draw(self, seed: int) -> tuple[Tensor, Tensor]:
        """A data set (x, y), both [n, 1] in double precision."""
        generator = torch.Generator().manual_seed(seed)
        x = self.inputs(generator)
        eps = torch.randn(x.shape, generator=generator, dtype=torch.float64)
        return x, self.mean(x) + NOISE * eps


def _uniform(generator: torch.Generator, count: int, low: float, high: float) -> Tensor:
    unit = torch.rand(count, 1, generator=generator, dtype=torch.float64)
    return low + (high - low) * unit


def _spaced(count: int, low: float, high: float) -> Tensor:
    return low + (high - low) * torch.arange(count, dtype=torch.float64)[:, None] / count


def _quadratic(x: Tensor) -> Tensor:
    return x.square() / 10 - x / 2 + 5


def _sine(x: Tensor) -> Tensor:
    return -torch.sin(3 * x - 0.3)


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task(
            "quadratic-uniform",
            lambda g: torch.randn(32, 1, generator=g, dtype=torch.float64),
            _quadratic,
        ),
        Task(
            "quadratic-inbetween",
            lambda g: torch.cat([_uniform(g, 16, -2.0, -0.5), _uniform(g, 16, 0.8, 2.5)]),
            _quadratic,
        ),
        Task("sin-uniform", lambda g: _uniform(g, 160, -1.5, 1.15), _sine),
        Task(
            "sin-inbetween",
            lambda g: torch.cat([_spaced(80, -1.5, -0.7), _spaced(80, 0.35, 1.15)]),
            _sine,
        ),
    )
}


def task(name: str) -> Task:
    """A task by name.

    >>> task("sin-inbetween").draw(seed=0)[0].shape
    torch.Size([160, 1])
    """
    if name not in TASKS:
        raise ArgumentError(f"name must be one of {sorted(TASKS)}, but it is {name!r}.")
    return TASKS[name]
