"""Subsamples are the same everywhere, whatever the order of the rows."""

from __future__ import annotations

import hashlib
import random

import pytest
import torch
from scipy import stats

from regvar.data.datasets import Images, Table, Texts
from regvar.data.subsets import Rows, split, subsample
from regvar.errors import ArgumentError

LETTERS = Texts(tuple("abcdefghijklmnopqrstuvwxyz"), torch.arange(26) % 2, ("even", "odd"))
PICTURES = Images((torch.arange(12 * 8 * 8 * 3) % 251).to(torch.uint8).view(12, 8, 8, 3))
NUMBERS = Table(torch.arange(20.0).view(10, 2), torch.arange(10.0), ("a", "b"), "y")


def test_rows_and_manifest_are_those_written_down() -> None:
    """Naively: digest of label, zero byte, text; lots are digests of seed, zero byte, digest."""
    pairs = [(f"{k % 2}\0{c}".encode(), k) for k, c in enumerate(LETTERS.texts)]
    digests = [(hashlib.sha256(row).digest(), k) for row, k in pairs]
    lots = sorted((hashlib.sha256(b"7\0" + d).digest(), d, k) for d, k in digests)
    chosen = subsample(LETTERS, 5, seed=7)
    assert chosen.indices == tuple(k for _, _, k in lots[:5])
    joined = b"".join(d for _, d, _ in lots[:5])
    assert chosen.manifest == hashlib.sha256(joined).hexdigest()
    assert chosen.data.texts == tuple(LETTERS.texts[k] for k in chosen.indices)


def test_the_manifest_is_the_same_on_every_machine() -> None:
    """Fixed once; if this fails, records made before can no longer be compared."""
    found = [subsample(data, 4, seed=0).manifest[:16] for data in (LETTERS, PICTURES, NUMBERS)]
    assert found == ["3175bfc0f8433350", "5002a2715fafb1ad", "5be42509b68728c5"]


@pytest.mark.parametrize("data", [LETTERS, PICTURES, NUMBERS], ids=["texts", "images", "table"])
def test_the_order_of_the_rows_does_not_matter(data: Rows) -> None:
    shuffled = list(range(len(data)))
    random.Random(3).shuffle(shuffled)
    ours = subsample(data, 6, seed=1)
    theirs = subsample(data.take(shuffled), 6, seed=1)
    assert ours.manifest == theirs.manifest
    assert list(ours.data.content()) == list(theirs.data.content())


def test_another_seed_and_another_label_give_another_manifest() -> None:
    assert LETTERS.labels is not None
    flipped = Texts(LETTERS.texts, 1 - LETTERS.labels, LETTERS.classes)
    manifests = {subsample(LETTERS, 26, seed).manifest for seed in range(5)}
    assert len(manifests | {subsample(flipped, 26, 0).manifest}) == 6


def test_every_row_is_as_likely() -> None:
    counts = torch.zeros(26)
    for seed in range(1300):
        counts[list(subsample(LETTERS, 2, seed).indices)] += 1
    assert stats.chisquare(counts.numpy()).pvalue > 1e-3


def test_parts_are_disjoint_and_of_the_sizes_asked_for() -> None:
    parts = split(LETTERS, (0.5, 0.25, 0.25), seed=0)
    assert [len(p.data) for p in parts] == [13, 7, 6]  # 13, 19.5 → 20, 26
    assert sorted(i for p in parts for i in p.indices) == list(range(26))
    eighty = split(NUMBERS, (0.8, 0.1, 0.1), seed=4)
    assert [len(p.data) for p in eighty] == [8, 1, 1]
    some = split(LETTERS, (0.1, 0.2), seed=0)
    assert [len(p.data) for p in some] == [3, 5]


def test_a_split_begins_with_the_subsample_of_its_seed() -> None:
    first, _ = split(LETTERS, (0.5, 0.5), seed=9)
    assert first.manifest == subsample(LETTERS, 13, seed=9).manifest


@pytest.mark.parametrize("n", [0, -1, 27])
def test_the_size_must_be_there(n: int) -> None:
    with pytest.raises(ArgumentError, match="n must be in 1…26, the size of the data, but it is"):
        subsample(LETTERS, n, seed=0)


@pytest.mark.parametrize("fractions", [(), (0.5, 0.6), (1.0, 0.0), (-0.5, 1.0)])
def test_fractions_must_be_fractions(fractions: tuple[float, ...]) -> None:
    with pytest.raises(ArgumentError, match="fractions must be positive and at most 1 together"):
        split(LETTERS, fractions, seed=0)
