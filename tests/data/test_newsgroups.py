"""Posts are stripped as scikit-learn strips them, and their pickle runs nothing."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import sklearn.utils
from sklearn.datasets import _twenty_newsgroups as theirs

from regvar.data.newsgroups import loads, strip
from regvar.errors import DataError

POSTS = [
    "From: a@b\nSubject: Re: it\n\nC writes:\n> old\n| older\nNew.\n\nMore.\n\n--\nName, place\n",
    "Subject: no footer\n\nOne paragraph only.\nTwo lines.",
    "Subject: x\n\nIn article <1@2> D wrote:\n\nBody.\n-----\nSignature\n\n",
    "Subject: dashes\n\n---\nAll below\n",
    "no blank line at all",
    "Subject: empty\n\n",
]


@pytest.mark.parametrize("post", POSTS)
def test_strips_as_scikit_learn_does(post: str) -> None:
    body = theirs.strip_newsgroup_header(post)
    unquoted = theirs.strip_newsgroup_quoting(body)
    assert strip(post) == theirs.strip_newsgroup_footer(unquoted).strip()
    assert strip(post, quotes=True, footers=True) == body.strip()
    assert strip(post, footers=True) == unquoted.strip()
    assert strip(post, headers=True, quotes=True) == theirs.strip_newsgroup_footer(post).strip()


def test_reads_a_bunch_with_its_arrays() -> None:
    labels = np.array([3, 1, 2], dtype=np.int64)
    names = np.array(["a", "bc"])
    bunch = sklearn.utils.Bunch(data=["x", "y"], target=labels, filenames=names)
    # As the file was written: before numpy moved its modules.
    old = pickle.dumps({"train": bunch}, protocol=3).replace(b"numpy._core", b"numpy.core")
    found = loads(old.replace(b"sklearn.utils._bunch", b"sklearn.utils"))
    assert found["train"]["data"] == ["x", "y"]
    assert found["train"]["target"].tensor().tolist() == labels.tolist()
    with pytest.raises(DataError, match="labels must be stored as int64"):
        found["train"]["filenames"].tensor()


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_wants_to_run_something_is_refused(tmp_path: Path, protocol: int) -> None:
    target = tmp_path / "made"
    with pytest.raises(DataError, match=r"asks for (posix|nt)\.mkdir\. Do not load it"):
        loads(pickle.dumps({"data": Evil(target)}, protocol=protocol))
    assert not target.exists()


def test_a_pickle_may_not_reach_through_an_allowed_module() -> None:
    nested = b"\x80\x04\x8c\x05numpy\x8c\x0cndarray.view\x93."
    with pytest.raises(DataError, match=r"asks for numpy\.ndarray\.view"):
        loads(nested)


@pytest.mark.parametrize("data", [b"", b"no pickle", pickle.dumps([1, 2])[:-1]])
def test_what_is_no_pickle_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(DataError, match="a pickle must be readable"):
        loads(data)
