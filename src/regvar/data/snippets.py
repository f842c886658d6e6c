"""Short texts of four domains with their mean human rating in −4…4 (Hutto and Gilbert, 2014).

Real shifts between domains: film reviews, product reviews, newspaper editorials, tweets.
"""

from __future__ import annotations

import random
import tarfile

from regvar.data import packages
from regvar.errors import ArgumentError

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
    if domain not in _FILES:
        raise ArgumentError(f"domain must be one of {sorted(_FILES)}, but it is {domain!r}.")
    folder = packages.fetch(packages.RATED_SNIPPETS)
    with tarfile.open(folder / packages.RATED_SNIPPETS.name) as bundle:
        member = next(m for m in bundle if m.name.endswith("/" + _FILES[domain]))
        stream = bundle.extractfile(member)
        text = stream.read().decode("utf-8", errors="replace") if stream else ""
    rows: list[tuple[str, int]] = []
    for line in text.splitlines():
        parts = line.split("\t", 2)
        if len(parts) == 3 and float(parts[1]) != 0.0:
            rows.append((parts[2].strip(), int(float(parts[1]) > 0)))
    random.Random(seed).shuffle(rows)
    return rows
