"""Film reviews with their sentiment: IMDB in its official halves, and Rotten Tomatoes."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import torch

from regvar.data.catalogue import SOURCES
from regvar.data.datasets import Texts

CLASSES = ("negative", "positive")
_BREAKS = re.compile(r"\s*(?:<br\s*/?>\s*)+")


def imdb() -> dict[str, Texts]:
    """Maas et al. (2011): `train` and `test`, without the rows that occur twice.

    The 25,000 training rows are known from one package, all 50,000 from another: the rest are the
    official test half. Line breaks in HTML become line breaks; then of equal texts, up to white
    space, the first one stays, and test texts that are in the training half go.
    """
    everything, known = SOURCES["imdb"].fetch()
    train = [(r["text"], int(r["label"])) for r in _rows(known) if r["source"] == "imdb"]
    whole = [(r["review"], CLASSES.index(r["sentiment"])) for r in _rows(everything)]
    return official(train, whole)


def official(
    train: Iterable[tuple[str, int]], whole: Iterable[tuple[str, int]]
) -> dict[str, Texts]:
    r"""The two halves, given the training rows and all rows, each text with its label.

    >>> halves = official([("a<br />b", 0)], [("c ", 1), ("a<br />b", 0), ("c", 1)])
    >>> halves["train"].texts, halves["test"].texts
    (('a\nb',), ('c',))
    """
    left = Counter(train)
    test: list[tuple[str, int]] = []
    known: list[tuple[str, int]] = list(left.elements())
    for row in whole:
        if left[row]:
            left[row] -= 1
        else:
            test.append(row)
    seen: set[str] = set()
    return {"train": _distinct(known, seen), "test": _distinct(test, seen)}


def rotten_tomatoes() -> dict[str, Texts]:
    """Pang and Lee (2005): single sentences, the 8,530 of its training split as `all`."""
    (known,) = SOURCES["rotten-tomatoes"].fetch()
    rows = [(r["text"], int(r["label"])) for r in _rows(known) if r["source"] != "imdb"]
    return {"all": _distinct(rows, set())}


def clean(text: str) -> str:
    r"""A review with its HTML line breaks as line breaks.

    >>> clean("One. <br /><br />Two.")
    'One.\nTwo.'
    """
    return _BREAKS.sub("\n", text).strip()


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def _distinct(rows: Iterable[tuple[str, int]], seen: set[str]) -> Texts:
    """The rows not seen before, which are added to those seen."""
    texts: list[str] = []
    labels: list[int] = []
    for raw, label in rows:
        text = clean(raw)
        key = " ".join(text.split())
        if key not in seen:
            seen.add(key)
            texts.append(text)
            labels.append(label)
    return Texts(tuple(texts), torch.tensor(labels, dtype=torch.int64), CLASSES)
