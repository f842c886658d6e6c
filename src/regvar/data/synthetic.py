"""The four synthetic tasks of Appendix C, seeded, with in- and out-of-distribution test sets.

| task | x | out of distribution | y |
|---|---|---|---|
| quadratic-uniform | 32 of N(0, 1) | 22 in [−2.5, −2], 23 in [2, 2.5] | x²/10 − x/2 + 5 + ε/10 |
| quadratic-inbetween | 16 of U(−2, −½) and 16 of U(⅘, 5/2) | 45 in [−½, ⅘] | the same |
| sin-uniform | 160 of U(−1.5, 1.15) | 40 in [−1.75, −1.5], 40 in [1.15, 1.4] | sine + ε/10 |
| sin-inbetween | 80 evenly in [−1.5, −0.7) and 80 in [0.35, 1.15) | 80 in [−0.7, 0.35] | the same |

The sine is −sin(3x − 0.3).

The paper gives the training inputs. The sizes of its test sets follow from the fractions that its
coverages are (43/45 = 0.9556, 71/80 = 0.8875): as many as there are training data in distribution,
and 45 (quadratic) or 80 (sine) out of it. *Where* it looked out of distribution it does not say.
Here an in-between task looks into its gap. The other two look to both sides of their data, by about
a tenth of the range: half a unit beyond two standard deviations of N(0, 1), a quarter beyond the
sine's interval. (Farther out every network's mean is off by many times the noise, and a score only
says whose variance is largest.) These inputs are evenly spaced, so that every seed is asked about
the same places.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regvar import noise
from regvar.errors import ArgumentError

NOISE = 0.1  # the standard deviation of y around its mean
SPLITS = ("train", "validation", "id", "ood")


@dataclass(frozen=True)
class Task:
    """One data-generating distribution."""

    name: str
    inputs: Callable[[torch.Generator], Tensor]  # [n, 1]
    outside: tuple[tuple[int, float, float], ...]  # how many, from where to where
    span: tuple[float, float]  # of x, what a picture shows: all of the data and a margin
    mean: Callable[[Tensor], Tensor]

    def draw(self, seed: int, split: str = "train") -> tuple[Tensor, Tensor]:
        """A data set (x, y), both [n, 1] in double precision.

        Args:
            seed: same seed, same data.
            split: "train", "validation" and "id" are independent draws of one distribution;
                "ood" is out of it.

        >>> task("sin-inbetween").draw(seed=0, split="ood")[0].shape
        torch.Size([80, 1])
        """
        if split not in SPLITS:
            raise ArgumentError(f"split must be one of {list(SPLITS)}, but it is {split!r}.")
        generator = noise.generator((seed, SPLITS.index(split)), -1)
        if split == "ood":
            x = torch.cat([_midpoints(*part) for part in self.outside])
        else:
            x = self.inputs(generator)
        eps = torch.randn(x.shape, generator=generator, dtype=torch.float64)
        return x, self.mean(x) + NOISE * eps


def _uniform(generator: torch.Generator, count: int, low: float, high: float) -> Tensor:
    unit = torch.rand(count, 1, generator=generator, dtype=torch.float64)
    return low + (high - low) * unit


def _spaced(count: int, low: float, high: float) -> Tensor:
    return low + (high - low) * torch.arange(count, dtype=torch.float64)[:, None] / count


def _midpoints(count: int, low: float, high: float) -> Tensor:
    return _spaced(count, low, high) + (high - low) / (2 * count)


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
            ((22, -2.5, -2.0), (23, 2.0, 2.5)),
            (-3.2, 3.2),
            _quadratic,
        ),
        Task(
            "quadratic-inbetween",
            lambda g: torch.cat([_uniform(g, 16, -2.0, -0.5), _uniform(g, 16, 0.8, 2.5)]),
            ((45, -0.5, 0.8),),
            (-2.5, 3.0),
            _quadratic,
        ),
        Task(
            "sin-uniform",
            lambda g: _uniform(g, 160, -1.5, 1.15),
            ((40, -1.75, -1.5), (40, 1.15, 1.4)),
            (-2.0, 1.65),
            _sine,
        ),
        Task(
            "sin-inbetween",
            lambda g: torch.cat([_spaced(80, -1.5, -0.7), _spaced(80, 0.35, 1.15)]),
            ((80, -0.7, 0.35),),
            (-2.0, 1.7),
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
