"""Every data set of the catalogue by its short name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from regvar.data import newsgroups, pictures, reviews, snippets, tables, wikitext
from regvar.data.catalogue import choose
from regvar.data.datasets import Images, Table, Texts

Splits = Mapping[str, Texts] | Mapping[str, Images] | Mapping[str, Table]

LOADERS: dict[str, Callable[[], Splits]] = {
    "imdb": reviews.imdb,
    "rotten-tomatoes": reviews.rotten_tomatoes,
    "wikitext-2": wikitext.wikitext2,
    "snippets-film": partial(snippets.snippets, "film"),
    "snippets-product": partial(snippets.snippets, "product"),
    "snippets-editorial": partial(snippets.snippets, "editorial"),
    "snippets-tweet": partial(snippets.snippets, "tweet"),
    "20newsgroups": newsgroups.newsgroups,
    "cifar10": pictures.cifar10,
    "mnist": pictures.mnist,
    "fashion-mnist": pictures.fashion_mnist,
    **{f"uci-{name}": partial(tables.uci, name) for name in tables.LAYOUTS},
}


def load(name: str) -> Splits:
    """A data set by its short name: its official splits, or `all` where there are none.

    It is fetched the first time.

    >>> load("imbd")
    Traceback (most recent call last):
        ...
    regvar.errors.ArgumentError: name must be one of ... Did you mean 'imdb'?
    """
    return choose(name, LOADERS)()
