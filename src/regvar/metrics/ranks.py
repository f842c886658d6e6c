"""Ranks that do not depend on the order in which tied numbers arrived."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regvar.errors import DataError
from regvar.metrics.estimate import float64


def rank_correlation(first: Tensor, second: Tensor) -> float:
    """Spearman's rank correlation, ties at their mean rank; NaN if either is constant.

    >>> import torch
    >>> from regvar.metrics import rank_correlation
    >>> round(rank_correlation(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 9.0, 5.0])), 6)
    0.5
    """
    if first.shape != second.shape:
        raise DataError(
            f"second must have the shape of first, {tuple(first.shape)}, but has "
            f"{tuple(second.shape)}. Give one of each per datum."
        )
    ranks = [midranks(float64(values).flatten()) for values in (first, second)]
    a, b = (r - r.mean() for r in ranks)
    size = float(a.norm() * b.norm())
    return float(a @ b) / size if size > 0 else math.nan


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
