"""Rows cut into training, validation and test, so that each part has every class."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from regvar import data
from regvar.errors import DataError, require
from regvar.finetuning.sources import Rows

NAMES = ("train", "validation", "test")
_HELD_OUT = 0.2  # of the rows, for validation and again for test
_FEWEST = 3  # rows of a class: one for each part


@dataclass(frozen=True)
class Split:
    """One part of the data."""

    rows: Rows
    indices: tuple[int, ...]  # into the whole, in the order drawn
    manifest: str  # sha256 of the rows' contents, in that order


def split(whole: Rows, limit: int | None, seed: int) -> Mapping[str, Split]:
    """60 % to train on, 20 % to calibrate on, 20 % to test on; of each class apart.

    Args:
        whole: all rows, with labels or without.
        limit: at most so many rows, drawn at random; `None` takes all.
        seed: same seed and same rows, same parts, on any machine.

    >>> import torch
    >>> from regvar.data.datasets import Texts
    >>> letters = Texts(tuple("abcdefghij"), torch.arange(10) % 2, ("even", "odd"))
    >>> parts = split(letters, None, seed=0)
    >>> {name: (len(part.rows), part.rows.labels.unique().tolist()) for name, part in parts.items()}
    {'train': (6, [0, 1]), 'validation': (2, [0, 1]), 'test': (2, [0, 1])}
    """
    line = _line(whole, limit, seed)
    found: dict[str, list[int]] = {name: [] for name in NAMES}
    for group in _groups(whole, line):
        held = max(1, round(_HELD_OUT * len(group)))
        cuts = (group[2 * held :], group[:held], group[held : 2 * held])
        for name, rows in zip(NAMES, cuts, strict=True):
            found[name] += rows
    # In the order drawn again: classes mixed, as they came out of the hat.
    place = {row: k for k, row in enumerate(line)}
    return {name: _part(whole, sorted(rows, key=place.__getitem__)) for name, rows in found.items()}


def require_rows(whole: Rows) -> None:
    """Refuse rows of which not every part can have each class."""
    for name, count in counts(whole).items():
        if count < _FEWEST:
            what = f"{name!r} " if name else ""
            raise DataError(
                f"rows of data must be {_FEWEST} or more of each class, one for each of "
                f"{', '.join(NAMES)}, but {what}has {count}. Add examples, or raise --limit if it "
                "is set."
            )


def counts(rows: Rows) -> dict[str, int]:
    """How many rows each class has; without labels, all under an empty name."""
    if rows.labels is None:
        return {"": len(rows)}
    tally = torch.bincount(rows.labels, minlength=len(rows.classes)).tolist()
    return dict(zip(rows.classes, tally, strict=True))


def _line(whole: Rows, limit: int | None, seed: int) -> tuple[int, ...]:
    size = len(whole) if limit is None else min(limit, len(whole))
    require(size > 0, "data", "one row or more", len(whole))
    drawn = data.subsample(whole, size, seed)
    require_rows(drawn.data)
    return drawn.indices


def _groups(whole: Rows, line: Sequence[int]) -> list[list[int]]:
    """The rows of each class, in the order drawn."""
    if whole.labels is None:
        return [list(line)]
    labels = whole.labels.tolist()
    return [[i for i in line if labels[i] == k] for k in range(len(whole.classes))]


def _part(whole: Rows, rows: list[int]) -> Split:
    taken = whole.take(rows)
    digest = hashlib.sha256()
    for content in taken.content():
        digest.update(hashlib.sha256(content).digest())
    return Split(taken, tuple(rows), digest.hexdigest())
