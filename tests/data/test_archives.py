"""Only wanted members come out of an archive, and only plain files."""

from __future__ import annotations

import lzma
import shutil
import stat
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from regvar.data.archives import extract
from regvar.data.packages import FetchError

from .packed import deb, link, tar_bytes, tarball, wheel

MEMBERS = {"a/wanted.txt": b"wanted\n" * 999, "a/other.txt": b"other", "../evil": b"evil"}


def as_wheel(folder: Path, members: Mapping[str, bytes]) -> Path:
    return wheel(folder / "p.whl", members)


def as_tarball(folder: Path, members: Mapping[str, bytes]) -> Path:
    return tarball(folder / "p.tar.gz", members)


def as_deb(folder: Path, members: Mapping[str, bytes]) -> Path:
    return deb(folder / "p.deb", "data.tar.xz", lzma.compress(tar_bytes(members)))


@pytest.mark.parametrize("build", [as_wheel, as_tarball, as_deb])
class TestEveryKind:
    def test_copies_the_wanted_member_alone(
        self, tmp_path: Path, build: Callable[[Path, Mapping[str, bytes]], Path]
    ) -> None:
        inner = tmp_path / "inner"
        inner.mkdir()
        archive = build(inner, MEMBERS)
        extract(archive, {"a/wanted.txt": inner / "mine"})
        assert (inner / "mine").read_bytes() == MEMBERS["a/wanted.txt"]
        assert {p.name for p in tmp_path.rglob("*")} == {"inner", archive.name, "mine"}

    def test_a_name_that_climbs_out_is_a_name_only(
        self, tmp_path: Path, build: Callable[[Path, Mapping[str, bytes]], Path]
    ) -> None:
        inner = tmp_path / "inner"
        inner.mkdir()
        extract(build(inner, MEMBERS), {"../evil": inner / "tame"})
        assert (inner / "tame").read_bytes() == b"evil"
        assert not (tmp_path / "evil").exists()

    def test_names_match_exactly(
        self, tmp_path: Path, build: Callable[[Path, Mapping[str, bytes]], Path]
    ) -> None:
        with pytest.raises(FetchError, match=r"must hold 'wanted\.txt', but does not"):
            extract(build(tmp_path, MEMBERS), {"wanted.txt": tmp_path / "mine"})


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_pipes_in_a_tarball_are_refused(tmp_path: Path, kind: bytes) -> None:
    archive = tarball(tmp_path / "p.tgz", {"secret": b"s"}, link("wanted", "secret", kind))
    with pytest.raises(FetchError, match="'wanted' must be a plain file, but is a link"):
        extract(archive, {"wanted": tmp_path / "mine"})
    assert not (tmp_path / "mine").exists()


def test_links_in_a_wheel_are_refused(tmp_path: Path) -> None:
    entry = zipfile.ZipInfo("wanted")
    entry.create_system, entry.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "p.whl", "w") as bundle:
        bundle.writestr(entry, "/etc/passwd")
    with pytest.raises(FetchError, match="'wanted' must be a plain file"):
        extract(tmp_path / "p.whl", {"wanted": tmp_path / "mine"})


@pytest.mark.parametrize("name", ["p.whl", "p.tgz", "p.deb"])
def test_what_is_no_archive_is_said_to_be_none(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"<html>not here</html>")
    with pytest.raises(FetchError, match=rf"^{name} must be a .*, but "):
        extract(tmp_path / name, {"wanted": tmp_path / "mine"})


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")
def test_reads_what_debian_itself_packs(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "usr").mkdir()
    (root / "usr" / "data").write_bytes(b"from debian" * 1000)
    (root / "DEBIAN" / "control").write_text(
        "Package: p\nVersion: 1\nArchitecture: all\nMaintainer: x <x@y.z>\nDescription: d\n"
    )
    packed = tmp_path / "p.deb"
    subprocess.run(["dpkg-deb", "-Zxz", "-b", root, packed], check=True, capture_output=True)
    extract(packed, {"./usr/data": tmp_path / "mine"})
    assert (tmp_path / "mine").read_bytes() == b"from debian" * 1000
