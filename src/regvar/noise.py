"""Random numbers that belong to a row of the data, not to a moment of the program.

Row i of draw k gets its own stream, seeded by (seed, k, i): the same noise in every epoch, for
every batch size and on every device.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_MASK = (1 << 64) - 1


def _mix(*numbers: int) -> int:
    """One well-stirred 63-bit seed out of several integers (splitmix64's finalizer, chained)."""
    state = 0x9E3779B97F4A7C15
    for number in numbers:
        z = (state + (number & _MASK) * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) & _MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        state = z ^ (z >> 31)
    return state >> 1


def generator(key: tuple[int, ...], row: int) -> torch.Generator:
    """The stream of one row; rows below zero are free for other uses."""
    return torch.Generator().manual_seed(_mix(*key, row))


def normal(key: tuple[int, ...], first_row: int, shape: torch.Size, like: Tensor) -> Tensor:
    """ε ~ N(0, I) for consecutive rows: [rows, ...] in at least single precision."""
    return _rows(torch.randn, key, first_row, shape, like)


def uniform(key: tuple[int, ...], first_row: int, shape: torch.Size, like: Tensor) -> Tensor:
    """Uniform numbers in [0, 1) for consecutive rows."""
    return _rows(torch.rand, key, first_row, shape, like)


def _rows(
    draw: Callable[..., Tensor],
    key: tuple[int, ...],
    first_row: int,
    shape: torch.Size,
    like: Tensor,
) -> Tensor:
    rows = [
        draw(shape[1:], generator=generator(key, first_row + i), dtype=torch.float64)
        for i in range(shape[0])
    ]
    dtype = like.dtype if like.dtype is torch.float64 else torch.float32
    return torch.stack(rows).to(like.device, dtype)
