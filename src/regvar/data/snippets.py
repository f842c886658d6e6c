"""Short texts of four domains with their mean human rating in −4…4 (Hutto and Gilbert, 2014).

Real shifts between domains: film reviews, product reviews, newspaper editorials, tweets.
"""

from __future__ import annotations

import random
import tarfile

import torch

from regvar.data.catalogue import SOURCES, choose
from regvar.data.datasets import Texts

CLASSES = ("negative", "positive")
_FOLDER = "hutto_ICWSM_2014/"
_FILES = {
    "film": "movieReviewSnippets_GroundTruth.txt",
    "product": "amazonReviewSnippets_GroundTruth.txt",
    "editorial": "nytEditorialSnippets_GroundTruth.txt",
    "tweet": "tweets_GroundTruth.txt",
}


def rated(domain: str, seed: int = 0) -> list[tuple[str, int]]:
    """All texts of a domain with label 1 for a positive and 0 for a negative mean rating.

    They come in an order that follows from `seed`; ratings of exactly zero are left out.
    """
    name = _FOLDER + choose(domain, _FILES, "domain")
    (path,) = SOURCES[f"snippets-{domain}"].fetch()
    with tarfile.open(path) as bundle:
        stream = bundle.extractfile(name)
        text = stream.read().decode("utf-8", errors="replace") if stream else ""
    rows: list[tuple[str, int]] = []
    for line in text.splitlines():
        parts = line.split("\t", 2)
        if len(parts) == 3 and float(parts[1]) != 0.0:
            rows.append((parts[2].strip(), int(float(parts[1]) > 0)))
    random.Random(seed).shuffle(rows)
    return rows


def snippets(domain: str) -> dict[str, Texts]:
    """The texts of a domain as `all`, each once, in the order of `rated` with seed 0."""
    distinct: dict[str, int] = {}
    for text, label in rated(domain):
        distinct.setdefault(text, label)
    labels = torch.tensor(list(distinct.values()), dtype=torch.int64)
    return {"all": Texts(tuple(distinct), labels, CLASSES)}
