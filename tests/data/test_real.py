"""What was fetched is what it should be. Runs where the files are in the cache already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from regvar import data
from regvar.data import newsgroups, pictures, snippets
from regvar.data.fetching import File, sha256

pytestmark = pytest.mark.slow


def cached(files: tuple[File, ...]) -> bool:
    return all(file.path.is_file() for file in files)


def load(name: str) -> Any:
    source = data.SOURCES[name]
    if not any(cached(files) for files in (source.files, *source.mirrors)):
        pytest.skip(f"{name} is not in the cache")
    return data.load(name)


@pytest.mark.parametrize("name", data.WEIGHTS)
def test_weights_in_the_cache_are_the_pinned_ones(name: str) -> None:
    weights = data.WEIGHTS[name]
    if not cached(weights.files):
        pytest.skip(f"{name} is not in the cache")
    folder = weights.fetch()
    assert {f.name: sha256(folder / f.name) for f in weights.files} == {
        f.name: f.sha256 for f in weights.files
    }


def test_imdb_has_its_official_halves_without_duplicates() -> None:
    halves = load("imdb")
    train, test = set(halves["train"].texts), set(halves["test"].texts)
    assert (len(train), len(test)) == (len(halves["train"]), len(halves["test"]))
    assert train.isdisjoint(test)
    # 98 and 201 of 25,000 repeat within their half up to white space, 123 more across.
    assert (len(train), len(test)) == (25_000 - 98, 25_000 - 201 - 123)
    assert not any("<br" in text for text in train | test)
    # The one test review everybody has seen, and the training set's first.
    assert any(text.startswith("I love sci-fi and am willing to put up with") for text in test)
    assert any(text.startswith("I rented I AM CURIOUS-YELLOW from my video") for text in train)


def test_rotten_tomatoes_is_balanced() -> None:
    everything = load("rotten-tomatoes")["all"]
    assert torch.bincount(everything.labels).tolist() == [4265, 4265]


def test_wikitext_has_its_articles_and_words() -> None:
    splits = load("wikitext-2")
    assert {k: len(v) for k, v in splits.items()} == {"train": 600, "validation": 60, "test": 60}
    words = {k: sum(len(text.split()) for text in v.texts) for k, v in splits.items()}
    assert words == {"train": 2_051_910, "validation": 213_886, "test": 241_211}
    assert splits["test"].texts[0].startswith(" = Robert Boulter = \n")


@pytest.mark.parametrize(
    ("domain", "lines", "undecided", "repeated"),
    [
        ("film", 10_605, 37, 2),
        ("product", 3_708, 98, 10),
        ("editorial", 5_190, 244, 62),
        ("tweet", 4_200, 4, 0),
    ],
)
def test_snippets_are_all_but_the_undecided_and_the_repeated(
    domain: str, lines: int, undecided: int, repeated: int
) -> None:
    everything = load(f"snippets-{domain}")["all"]
    rated = snippets.rated(domain)
    assert len(rated) == lines - undecided
    assert len(everything) == len(set(everything.texts)) == len(rated) - repeated
    assert set(zip(everything.texts, everything.labels.tolist(), strict=True)) <= set(rated)


def test_newsgroups_are_the_twenty() -> None:
    load("20newsgroups")
    whole = newsgroups.newsgroups(headers=True, quotes=True, footers=True)
    assert (len(whole["train"]), len(whole["test"])) == (11_314, 7_532)
    # Group by group as scikit-learn documents them, the first and the last.
    counts = torch.bincount(whole["train"].labels).tolist()
    assert (counts[0], counts[-1], len(counts)) == (480, 377, 20)
    first = whole["train"].texts[0]
    assert first.startswith("From: cubbie@garnet.berkeley.edu")
    assert whole["train"].classes[int(whole["train"].labels[0])] == "rec.sport.baseball"


def test_cifar10_is_read_as_pillow_reads_it() -> None:
    splits = load("cifar10")
    assert torch.bincount(splits["train"].labels).tolist() == [5000] * 10
    assert torch.bincount(splits["test"].labels).tolist() == [1000] * 10
    files = {f.name: f.path for f in data.SOURCES["cifar10"].files}
    for name, found in [
        ("data_batch_1.png", splits["train"].pixels[:10_000]),
        ("data_batch_5.png", splits["train"].pixels[40_000:]),
        ("test_batch.png", splits["test"].pixels),
    ]:
        with Image.open(files[name]) as picture:
            assert np.array_equal(np.asarray(picture).reshape(-1, 32, 32, 3), found.numpy())
    # The mean color that every CIFAR-10 recipe normalizes with.
    mean = splits["train"].pixels.double().mean(dim=(0, 1, 2)) / 255
    assert mean.tolist() == pytest.approx([0.4914, 0.4822, 0.4465], abs=5e-5)
    assert splits["train"].classes[int(splits["train"].labels[0])] == "frog"


@pytest.mark.parametrize(
    ("name", "mean", "std"), [("mnist", 0.1307, 0.3081), ("fashion-mnist", 0.2860, 0.3530)]
)
def test_idx_sets_have_the_mean_everybody_normalizes_with(
    name: str, mean: float, std: float
) -> None:
    splits = load(name)
    x = splits["train"].pixels.double() / 255
    assert (len(splits["train"]), len(splits["test"])) == (60_000, 10_000)
    assert (float(x.mean()), float(x.std())) == pytest.approx((mean, std), abs=5e-5)
    assert int(splits["train"].labels[0]) == {"mnist": 5, "fashion-mnist": 9}[name]


def test_both_homes_of_fashion_mnist_hold_the_same() -> None:
    source = data.SOURCES["fashion-mnist"]
    homes = (source.files, *source.mirrors)
    if not all(cached(files) for files in homes):
        pytest.skip("not both are in the cache")
    for one, other in zip(*homes, strict=True):
        assert torch.equal(pictures.read_idx(one.path), pictures.read_idx(other.path))


# Rows, inputs, and the target's least, mean and greatest as the repository's pages give them.
TABLES: dict[str, tuple[int, int, Callable[[Any], bool]]] = {
    "protein": (45_730, 9, lambda y: y == pytest.approx((0.0, 7.75, 20.999), abs=5e-3)),
    "power": (9_568, 4, lambda y: y == pytest.approx((420.26, 454.37, 495.76), abs=5e-3)),
    "concrete": (1_030, 8, lambda y: y == pytest.approx((2.33, 35.82, 82.60), abs=5e-3)),
    "wine-red": (1_599, 11, lambda y: y == pytest.approx((3, 5.636, 8), abs=5e-4)),
    "wine-white": (4_898, 11, lambda y: y == pytest.approx((3, 5.878, 9), abs=5e-4)),
    "yacht": (308, 6, lambda y: y == pytest.approx((0.01, 10.495, 62.42), abs=5e-4)),
    "airfoil": (1_503, 5, lambda y: y == pytest.approx((103.38, 124.836, 140.987), abs=5e-4)),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_have_the_published_targets(name: str) -> None:
    rows, inputs, matches = TABLES[name]
    table = load(f"uci-{name}")["all"]
    assert table.inputs.shape == (rows, inputs)
    y = table.targets
    assert matches((float(y.min()), float(y.mean()), float(y.max())))
    assert bool(table.inputs.isfinite().all())
