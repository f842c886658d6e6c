"""Ranks that do not depend on the order in which tied numbers arrived."""

from __future__ import annotations

import torch
from torch import Tensor


def tied_groups(keys: Tensor) -> tuple[Tensor, Tensor]:
    """For each key which group of equal keys it is in, counted upwards, and the groups' sizes."""
    _, group, size = torch.unique(keys, sorted=True, return_inverse=True, return_counts=True)
    return group, size


def midranks(keys: Tensor) -> Tensor:
    """Ranks 1..n, tied keys sharing the mean of theirs; float64."""
    group, size = tied_groups(keys)
    last = size.cumsum(0).double()
    return (last - (size.double() - 1) / 2)[group]


def tied_means(keys: Tensor, values: Tensor) -> Tensor:
    """Each value replaced by the mean over its key's ties, in the original order; float64."""
    group, size = tied_groups(keys)
    sums = torch.zeros(len(size), dtype=torch.float64).index_add_(0, group, values.double())
    return (sums / size)[group]
