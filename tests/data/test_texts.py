"""The official halves of IMDB, and WikiText's articles, from small texts worked out by hand."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, strategies as st

from regvar.data.datasets import Images, Table, Texts
from regvar.data.reviews import clean, official
from regvar.data.wikitext import articles
from regvar.errors import ArgumentError, DataError

PAGE = """ \n = First = \n \n It is . \n \n = = Early life = = \n \n Born . \n = k = \n \n\
 = = = Deeper = = = \n \n = Second : a tale = \n \n Other . \n \n"""


def test_articles_are_cut_at_titles_and_lose_nothing() -> None:
    found = articles(PAGE)
    assert [a.split("\n")[0] for a in found] == [" = First = ", " = Second : a tale = "]
    assert " \n" + "".join(found) == PAGE


def test_halves_are_the_whole_minus_the_training_rows() -> None:
    rows = [(f"text {k}", k % 2) for k in range(40)]
    train = rows[:20]
    whole = random.Random(0).sample(rows, 40)
    halves = official(train, whole)
    assert halves["train"].texts == tuple(text for text, _ in train)
    assert set(halves["test"].texts) == {text for text, _ in rows[20:]}
    numbers = [int(text.split()[1]) % 2 for text in halves["test"].texts]
    assert halves["test"].labels is not None
    assert halves["test"].labels.tolist() == numbers


def test_duplicates_go_within_and_across_the_halves() -> None:
    train = [("a<br />b", 0), ("a b", 0), ("c", 1)]
    whole = [*train, ("c", 1), ("d", 1), (" d", 1), ("a  <br /> b", 0), ("e", 0)]
    halves = official(train, whole)
    assert halves["train"].texts == ("a\nb", "c")
    assert halves["test"].texts == ("d", "e")


@given(st.lists(st.sampled_from(["x", " ", "<br />", "<br/>", "\n", "y."]), max_size=30))
def test_cleaning_keeps_the_words_and_drops_the_tags(pieces: list[str]) -> None:
    raw = "".join(pieces)
    assert clean(raw).split() == raw.replace("<br />", " ").replace("<br/>", " ").split()
    assert "<br" not in clean(raw)
    assert "\n\n" not in clean(raw.replace("\n", ""))


def test_data_sets_refuse_labels_that_do_not_fit() -> None:
    with pytest.raises(DataError, match="labels must be 2 int64 numbers, one per row"):
        Texts(("a", "b"), torch.tensor([1]), ("x", "y"))
    with pytest.raises(DataError, match=r"labels must lie in 0…1, .* from 0 to 2"):
        Texts(("a", "b"), torch.tensor([0, 2]), ("x", "y"))
    with pytest.raises(ArgumentError, match="pixels must be uint8 of shape"):
        Images(torch.zeros(2, 3, 8, 8))
    with pytest.raises(ArgumentError, match=r"inputs must be of shape \(2, 3\)"):
        Table(torch.zeros(2, 2), torch.zeros(2), ("a", "b", "c"), "y")
