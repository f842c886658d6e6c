"""Wanted members copied out of wheels, tarballs and Debian packages; nothing else is unpacked.

A member is found by its exact name and written to a path that the caller chose, so that no name
inside an archive ever becomes a path. Links and other special entries are refused.
"""

from __future__ import annotations

import io
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from regvar.data.packages import FetchError

_AR_MAGIC = b"!<arch>\n"
_AR_HEADER = 60


def extract(archive: Path, wanted: Mapping[str, Path]) -> None:
    """Copy members out.

    Args:
        archive: a `.whl` or `.zip`, a `.deb`, or a tarball.
        wanted: for each member's exact name the file to write.

    Raises `FetchError` when a member is missing or is not a plain file.
    """
    try:
        if archive.suffix in {".whl", ".zip"}:
            found = _from_zip(archive, wanted)
        elif archive.suffix == ".deb":
            found = _from_tar(_data_of_deb(archive), wanted)
        else:
            with archive.open("rb") as stream:
                found = _from_tar(stream, wanted)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
        raise FetchError(f"{archive.name} must be a readable archive, but {error}.") from error
    missing = sorted(wanted.keys() - found)
    if missing:
        raise FetchError(f"{archive.name} must hold {missing[0]!r}, but does not.")


def _from_zip(archive: Path, wanted: Mapping[str, Path]) -> set[str]:
    found: set[str] = set()
    with zipfile.ZipFile(archive) as bundle:
        for name in wanted.keys() & set(bundle.namelist()):
            entry = bundle.getinfo(name)
            kind = stat.S_IFMT(entry.external_attr >> 16)
            _require_plain(name, not entry.is_dir() and kind in {0, stat.S_IFREG})
            with bundle.open(entry) as stream:
                _copy(stream, wanted[name])
            found.add(name)
    return found


def _from_tar(source: IO[bytes], wanted: Mapping[str, Path]) -> set[str]:
    found: set[str] = set()
    with tarfile.open(fileobj=source) as bundle:
        for entry in bundle:
            if entry.name not in wanted:
                continue
            _require_plain(entry.name, entry.isreg())
            stream = bundle.extractfile(entry)
            assert stream is not None  # a regular file always has one
            _copy(stream, wanted[entry.name])
            found.add(entry.name)
    return found


def _require_plain(name: str, plain: bool) -> None:
    if not plain:
        raise FetchError(f"member {name!r} must be a plain file, but is a link or a folder.")


def _copy(stream: IO[bytes], target: Path) -> None:
    with target.open("wb") as out:
        shutil.copyfileobj(stream, out, 1 << 20)


def _data_of_deb(archive: Path) -> IO[bytes]:
    """The `data.tar.*` of a Debian package, which is an `ar` archive of three members."""
    with archive.open("rb") as stream:
        if stream.read(len(_AR_MAGIC)) != _AR_MAGIC:
            raise FetchError(f"{archive.name} must be a Debian package, but is no ar archive.")
        while len(header := stream.read(_AR_HEADER)) == _AR_HEADER:
            name = header[:16].decode("ascii", "replace").strip().rstrip("/")
            size = int(header[48:58])
            if name.startswith("data.tar"):
                return io.BytesIO(stream.read(size))
            stream.seek(size + size % 2, io.SEEK_CUR)
    raise FetchError(f"{archive.name} must hold its data.tar, but does not.")
