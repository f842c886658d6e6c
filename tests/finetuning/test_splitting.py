"""Three parts: apart, together all rows, each with every class, the same on any machine."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st

from regvar.data.datasets import Texts
from regvar.errors import DataError
from regvar.finetuning.splitting import counts, split
from tests.finetuning import tiny

CLASSES = ("a", "b", "c")


def texts(labels: list[int]) -> Texts:
    known = CLASSES[: max(labels) + 1]
    return Texts(tuple(f"row {k}" for k in range(len(labels))), torch.tensor(labels), known)


SIZES = st.lists(st.integers(3, 23), min_size=1, max_size=3)


@given(SIZES, st.integers(0, 2**32 - 1))
def test_parts_are_disjoint_cover_all_rows_and_have_every_class(
    sizes: list[int], seed: int
) -> None:
    whole = texts([k for k, size in enumerate(sizes) for _ in range(size)])
    parts = split(whole, None, seed)
    drawn = [i for part in parts.values() for i in part.indices]
    assert sorted(drawn) == list(range(len(whole)))
    for name, part in parts.items():
        assert isinstance(part.rows, Texts) and part.rows.labels is not None
        assert part.rows.texts == tuple(whole.texts[i] for i in part.indices)
        for k, size in enumerate(sizes):
            held = max(1, round(0.2 * size))
            expected = size - 2 * held if name == "train" else held
            assert int((part.rows.labels == k).sum()) == expected >= 1


@given(st.permutations(range(12)), st.integers(0, 9))
def test_the_order_of_the_rows_plays_no_part(order: list[int], seed: int) -> None:
    whole = texts([k % 2 for k in range(12)])
    before = {name: part.manifest for name, part in split(whole, None, seed).items()}
    after = split(whole.take(order), None, seed)
    assert {name: part.manifest for name, part in after.items()} == before
    assert len(set(before.values())) == 3


def test_a_part_is_mixed_and_another_seed_mixes_otherwise() -> None:
    whole = texts([0] * 150 + [1] * 150)
    labels = split(whole, None, 0)["train"].rows.labels
    assert labels is not None and len(labels) == 180
    assert 35 < int((labels[:90] == 0).sum()) < 55
    assert split(whole, None, 0)["test"].indices != split(whole, None, 1)["test"].indices


def test_a_limit_draws_from_all_and_a_larger_one_keeps_what_a_smaller_has() -> None:
    whole = texts([k % 2 for k in range(200)])
    drawn = {
        limit: {i for part in split(whole, limit, 3).values() for i in part.indices}
        for limit in (30, 60, 200, 999)
    }
    assert [len(rows) for rows in drawn.values()] == [30, 60, 200, 200]
    assert drawn[30] < drawn[60] < drawn[200]
    assert max(drawn[30]) > 150


def test_rows_without_labels_are_split_too() -> None:
    parts = split(Texts(tuple(f"row {k}" for k in range(50))), None, 0)
    assert [len(part.rows) for part in parts.values()] == [30, 10, 10]
    assert counts(parts["test"].rows) == {"": 10}


@pytest.mark.parametrize("labels", [[0, 0, 0, 1, 1], [0, 0, 1, 1, 1, 1]])
def test_a_class_that_is_too_small_for_three_parts_is_named(labels: list[int]) -> None:
    small = CLASSES[min(set(labels), key=labels.count)]
    with pytest.raises(DataError, match=f"but '{small}' has 2. Add examples"):
        split(texts(labels), None, 0)


def test_counts_are_by_class() -> None:
    rows = tiny.sentences(7)
    found = Texts(
        tuple(text for text, _ in rows),
        torch.tensor([("negative", "positive").index(label) for _, label in rows]),
        ("negative", "positive"),
    )
    assert counts(found) == {"negative": 3, "positive": 4}
