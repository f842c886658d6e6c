"""Seeded subsamples and splits, the same on every machine, with a hash that says which rows.

A row's place in line is the sha256 of the seed and the row's own content. It depends on neither a
random generator's version nor on the order in which the rows were read; the smaller of two
subsamples with one seed is contained in the larger; and equal rows stand next to each other.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from regvar.errors import require


class Rows(Protocol):
    """A data set that can be cut: `Texts`, `Images`, `Table`."""

    def __len__(self) -> int: ...

    def take(self: R, rows: Sequence[int]) -> R:
        """The rows at these places, in this order."""
        ...

    def content(self) -> Iterator[bytes]:
        """Each row as bytes."""
        ...


R = TypeVar("R", bound=Rows)


@dataclass(frozen=True, eq=False)
class Subset(Generic[R]):
    """Some rows of a data set, and which they are."""

    data: R
    indices: tuple[int, ...]  # into the whole, in the order drawn
    manifest: str  # sha256 of the rows' contents in that order


def subsample(dataset: R, n: int, seed: int) -> Subset[R]:
    """`n` rows drawn without replacement, in an order that is random too.

    >>> from regvar.data.datasets import Texts
    >>> letters = Texts(tuple("abcdefgh"))
    >>> subsample(letters, 3, seed=0).data.texts == subsample(letters, 5, seed=0).data.texts[:3]
    True
    """
    require(0 < n <= len(dataset), "n", f"in 1…{len(dataset)}, the size of the data", n)
    return _cut(dataset, _line(dataset, seed)[:n])


def split(dataset: R, fractions: Sequence[float], seed: int) -> tuple[Subset[R], ...]:
    """Disjoint random parts of the given fractions, such as 0.5, 0.25, 0.25.

    >>> from regvar.data.datasets import Texts
    >>> [len(part.data) for part in split(Texts(tuple("abcdefgh")), (0.5, 0.25, 0.25), seed=0)]
    [4, 2, 2]
    """
    total = sum(fractions)
    fair = len(fractions) > 0 and min(fractions) > 0 and total <= 1 + 1e-9
    require(fair, "fractions", "positive and at most 1 together", tuple(fractions))
    line = _line(dataset, seed)
    ends = [round(len(line) * part) for part in itertools.accumulate(fractions)]
    return tuple(_cut(dataset, line[a:b]) for a, b in zip([0, *ends], ends, strict=False))


def _line(dataset: Rows, seed: int) -> list[tuple[int, bytes]]:
    """All rows, drawn one after the other: place in the data and digest of the content."""
    digests = [hashlib.sha256(row).digest() for row in dataset.content()]
    key = str(seed).encode()
    lots = [hashlib.sha256(key + b"\0" + digest).digest() for digest in digests]
    return [(i, digests[i]) for i in sorted(range(len(digests)), key=lots.__getitem__)]


def _cut(dataset: R, rows: list[tuple[int, bytes]]) -> Subset[R]:
    indices = tuple(i for i, _ in rows)
    manifest = hashlib.sha256(b"".join(digest for _, digest in rows)).hexdigest()
    return Subset(dataset.take(indices), indices, manifest)
