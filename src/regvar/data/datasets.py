"""What a data set is once it is read: texts, images or a table, with labels."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regvar.errors import DataError, require


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts, labeled or not.

    >>> few = Texts(("good", "bad", "fine"), torch.tensor([1, 0, 1]), ("negative", "positive"))
    >>> few
    Texts(3 labeled, classes=('negative', 'positive'))
    >>> few.take([2, 1]).texts
    ('fine', 'bad')
    """

    texts: tuple[str, ...] = field(repr=False)
    labels: Tensor | None = None  # indices into classes, [n], int64
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_labels(len(self.texts), self.labels, self.classes)

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        return f"Texts({_summary(len(self), self.labels)}, classes={self.classes})"

    def take(self, rows: Sequence[int]) -> Texts:
        """The rows at these places, in this order."""
        return Texts(tuple(self.texts[i] for i in rows), _rows_of(self.labels, rows), self.classes)

    def content(self) -> Iterator[bytes]:
        """Each row as bytes: what it is known by, wherever it stands."""
        for text, label in zip(self.texts, _names(len(self), self.labels), strict=True):
            yield label + b"\0" + text.encode("utf-8", "surrogatepass")


@dataclass(frozen=True, eq=False)
class Images:
    """Images of one size, labeled or not.

    >>> Images(torch.zeros(5, 32, 32, 3, dtype=torch.uint8), torch.zeros(5, dtype=torch.int64),
    ...        ("cat", "dog"))
    Images(5 labeled of 32×32×3, classes=('cat', 'dog'))
    """

    pixels: Tensor = field(repr=False)  # [n, height, width, channels], uint8
    labels: Tensor | None = None  # indices into classes, [n], int64
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        right = self.pixels.dtype == torch.uint8 and self.pixels.dim() == 4
        found = (tuple(self.pixels.shape), self.pixels.dtype)
        require(right, "pixels", "uint8 of shape [n, height, width, channels]", found)
        _check_labels(len(self), self.labels, self.classes)

    def __len__(self) -> int:
        return self.pixels.shape[0]

    def __repr__(self) -> str:
        size = "×".join(str(side) for side in self.pixels.shape[1:])
        return f"Images({_summary(len(self), self.labels)} of {size}, classes={self.classes})"

    def take(self, rows: Sequence[int]) -> Images:
        """The rows at these places, in this order."""
        index = torch.tensor(rows, dtype=torch.int64)
        return Images(self.pixels[index], _rows_of(self.labels, rows), self.classes)

    def content(self) -> Iterator[bytes]:
        """Each row as bytes: what it is known by, wherever it stands."""
        for image, label in zip(self.pixels, _names(len(self), self.labels), strict=True):
            yield label + b"\0" + image.contiguous().numpy().tobytes()


@dataclass(frozen=True, eq=False)
class Table:
    """Numbers to predict a number from.

    >>> Table(torch.zeros(4, 2), torch.zeros(4), ("height", "age"), "weight")
    Table(4 rows, 2 inputs, target='weight')
    """

    inputs: Tensor = field(repr=False)  # [n, columns]
    targets: Tensor = field(repr=False)  # [n]
    columns: tuple[str, ...]
    target: str

    def __post_init__(self) -> None:
        expected = (len(self.targets), len(self.columns))
        found = tuple(self.inputs.shape)
        require(found == expected, "inputs", f"of shape {expected}", found)

    def __len__(self) -> int:
        return len(self.targets)

    def __repr__(self) -> str:
        return f"Table({len(self)} rows, {len(self.columns)} inputs, target={self.target!r})"

    def take(self, rows: Sequence[int]) -> Table:
        """The rows at these places, in this order."""
        index = torch.tensor(rows, dtype=torch.int64)
        return Table(self.inputs[index], self.targets[index], self.columns, self.target)

    def content(self) -> Iterator[bytes]:
        """Each row as bytes: what it is known by, wherever it stands."""
        for row, target in zip(self.inputs.tolist(), self.targets.tolist(), strict=True):
            yield struct.pack(f"<{len(row) + 1}d", *row, target)


def _check_labels(count: int, labels: Tensor | None, classes: tuple[str, ...]) -> None:
    if labels is None:
        return
    if labels.dtype != torch.int64 or tuple(labels.shape) != (count,):
        raise DataError(
            f"labels must be {count} int64 numbers, one per row, but they are {labels.dtype} of "
            f"shape {tuple(labels.shape)}."
        )
    least, most = (int(labels.min()), int(labels.max())) if count else (0, -1)
    if least < 0 or most >= len(classes):
        raise DataError(
            f"labels must lie in 0…{len(classes) - 1}, one number per class, but they reach from "
            f"{least} to {most}."
        )


def _summary(count: int, labels: Tensor | None) -> str:
    return f"{count} {'unlabeled' if labels is None else 'labeled'}"


def _rows_of(labels: Tensor | None, rows: Sequence[int]) -> Tensor | None:
    return None if labels is None else labels[torch.tensor(rows, dtype=torch.int64)]


def _names(count: int, labels: Tensor | None) -> list[bytes]:
    return [b""] * count if labels is None else [str(k).encode() for k in labels.tolist()]
