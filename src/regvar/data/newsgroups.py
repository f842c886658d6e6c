"""20 Newsgroups, the version split by date: far from anything a sentiment model was trained on."""

from __future__ import annotations

import io
import pickle
import re
import zlib
from typing import Any

import torch
from torch import Tensor

from regvar.data.catalogue import SOURCES
from regvar.data.datasets import Texts
from regvar.errors import DataError

_QUOTED = re.compile(
    r"writes in|writes:|wrote:|says:|said:|^In article|^Quoted from|^\||^>"
)  # what scikit-learn takes for a quotation, so that figures can be compared


def newsgroups(
    *, headers: bool = False, quotes: bool = False, footers: bool = False
) -> dict[str, Texts]:
    """The posts of `train` and `test` with their group.

    Args:
        headers: keep the lines up to the first blank one, which give the group away.
        quotes: keep the lines that quote another post.
        footers: keep the last paragraph, where signatures stand.

    A post with nothing left is left out.
    """
    (path,) = SOURCES["20newsgroups"].fetch()
    stored = loads(zlib.decompress(path.read_bytes()))
    found: dict[str, Texts] = {}
    for name in ("train", "test"):
        posts = [strip(p, headers, quotes, footers) for p in stored[name]["data"]]
        kept = [i for i, post in enumerate(posts) if post]
        found[name] = Texts(
            tuple(posts[i] for i in kept),
            stored[name]["target"].tensor()[kept],
            tuple(stored[name]["target_names"]),
        )
    return found


def strip(post: str, headers: bool = False, quotes: bool = False, footers: bool = False) -> str:
    r"""A post without what is not asked for, nor blank lines before and after.

    >>> strip("Subject: x\n\nA writes:\n> so it is\nIt is not.\n\n-- \nB, at home")
    'It is not.'
    """
    text = post if headers else post.partition("\n\n")[2]
    if not quotes:
        text = "\n".join(line for line in text.split("\n") if not _QUOTED.search(line))
    return (text if footers else _without_footer(text)).strip()


def _without_footer(text: str) -> str:
    """All but what follows the last line that is blank or dashes, unless that is everything."""
    lines = text.strip().split("\n")
    for place in range(len(lines) - 1, 0, -1):
        if not lines[place].strip().strip("-"):
            return "\n".join(lines[:place])
    return text


# --- a pickle, of which nothing is trusted -------------------------------------------------------


class _Array:
    """Stands in for a numpy array: keeps the bytes, runs nothing."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, self.shape, self.dtype, _, self.data = state

    def tensor(self) -> Tensor:
        """The numbers of an int64 array."""
        if self.dtype.kind != "i8" or not isinstance(self.data, bytes):
            raise DataError(f"labels must be stored as int64, but are {self.dtype.kind!r}.")
        return torch.frombuffer(bytearray(self.data), dtype=torch.int64).view(self.shape)


class _Kind:
    """Stands in for a numpy dtype."""

    def __init__(self, kind: str, *flags: bool) -> None:
        self.kind = kind

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """The byte order and such, which the sha256 has fixed."""


class _Bunch(dict[str, Any]):
    """Stands in for scikit-learn's dictionary."""


def _new_array(*_: object) -> _Array:
    return _Array()


_ALLOWED: dict[tuple[str, str], Any] = {
    ("sklearn.utils", "Bunch"): _Bunch,
    ("numpy.core.multiarray", "_reconstruct"): _new_array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Kind,
}


class _Restricted(pickle.Unpickler):
    """Builds lists, dictionaries, texts and the stand-ins above, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise DataError(
                f"a pickle must hold nothing but texts and arrays, but asks for {module}.{name}. "
                "Do not load it."
            )
        return _ALLOWED[module, name]


def loads(data: bytes) -> Any:
    """What a pickle holds, without running anything of its choosing.

    Arrays come as their bytes. Raises `DataError` for a pickle that asks for anything else.
    """
    try:
        return _Restricted(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, EOFError, TypeError, AttributeError, IndexError) as error:
        raise DataError(f"a pickle must be readable, but {error}.") from error
