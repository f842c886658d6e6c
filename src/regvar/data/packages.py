"""Releases in public registries and the clients that download them: pip, npm, apt-get.

The user's own client is run, so that mirrors, proxies, certificates and credentials are those the
machine is set up with. Nothing is installed, and every release is pinned by the sha256 of its
archive.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tqdm import tqdm

from regvar.errors import RegvarError

_POLL_SECONDS = 0.1


class FetchError(RegvarError):
    """A package could not be downloaded, or is not what it was."""


class Registry(Protocol):
    """Where releases are downloaded from."""

    def download(self, release: Release, folder: Path) -> Path:
        """Put the release's archive somewhere in `folder`, an empty one, and return its path.

        Raises `FetchError` when that fails; whoever calls checks the sha256.
        """
        ...


@dataclass(frozen=True)
class Release:
    """One archive of one release of a package."""

    registry: Registry
    package: str
    version: str
    sha256: str  # of the archive
    size: int  # of the archive in bytes, for the progress bar alone

    @property
    def label(self) -> str:
        """Package and version, also the folder of the cache that holds its files."""
        return f"{self.package}-{self.version}"


@dataclass(frozen=True)
class PyPI:
    """Python packages, wheels or source archives, by `pip download`.

    pip is told the pinned sha256: it takes that very file of the release and runs no line of a
    source archive's `setup.py` before the archive is known to be the right one.
    """

    client: tuple[str, ...] = (sys.executable, "-m", "pip")

    def download(self, release: Release, folder: Path) -> Path:
        """Download with pip."""
        pinned = folder / "requirements.txt"
        pinned.write_text(f"{release.package}=={release.version} --hash=sha256:{release.sha256}\n")
        command = [*self.client, "download", "--quiet", "--no-input", "--no-deps", "--no-cache-dir"]
        command += ["--dest", "archive", "--requirement", str(pinned)]
        return _run(command, release, folder, "pip comes with `python -m ensurepip`.")


@dataclass(frozen=True)
class Npm:
    """JavaScript packages by `npm pack`; no script of the package is run."""

    client: tuple[str, ...] = ("npm",)

    def download(self, release: Release, folder: Path) -> Path:
        """Download with npm."""
        command = [*self.client, "pack", "--silent", "--ignore-scripts", "--cache", "cache"]
        command += ["--pack-destination", "archive", f"{release.package}@{release.version}"]
        return _run(command, release, folder, "npm comes with Node.js.")


@dataclass(frozen=True)
class Debian:
    """Debian packages by `apt-get download`, which needs no privileges."""

    client: tuple[str, ...] = ("apt-get",)

    def download(self, release: Release, folder: Path) -> Path:
        """Download with apt-get."""
        command = [*self.client, "download", f"{release.package}={release.version}"]
        remedy = "apt-get is there on Debian and its relatives only."
        return _run(command, release, folder, remedy, inside="archive")


def _run(
    command: Sequence[str], release: Release, folder: Path, remedy: str, inside: str = ""
) -> Path:
    """Run a client that leaves one file in `folder/archive`, with a bar of the bytes arriving."""
    client = shutil.which(command[0])
    if client is None:
        raise FetchError(
            f"{release.label} must be downloaded with {command[0]}, but there is none on the PATH. "
            + remedy
        )
    for name in ("archive", "temporary"):
        (folder / name).mkdir()
    temporary = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder / "temporary"))
    with (folder / "client.log").open("wb") as log:
        process = subprocess.Popen(
            [client, *command[1:]],
            cwd=folder / inside,
            env={**os.environ, **temporary},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        _watch(process, release, folder)
    found = sorted((folder / "archive").iterdir())
    if process.returncode or len(found) != 1:
        said = (folder / "client.log").read_text(encoding="utf-8", errors="replace")
        raise FetchError(_explained(said, release, remedy))
    return found[0]


def _watch(process: subprocess.Popen[bytes], release: Release, folder: Path) -> None:
    with tqdm(
        total=release.size,
        unit="B",
        unit_scale=True,
        desc=release.label,
        leave=False,
        disable=None,
    ) as bar:
        try:
            while process.poll() is None:
                time.sleep(_POLL_SECONDS)
                bar.update(min(_bytes_in(folder), release.size) - bar.n)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def _bytes_in(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(parent, name)).st_size
            except FileNotFoundError:  # the client has moved it meanwhile
                continue
    return total


def _explained(said: str, release: Release, remedy: str) -> str:
    """One line out of all that a client had to say."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if "DO NOT MATCH THE HASHES" in said:
        return (
            f"sha256 of {release.label} must be {release.sha256}, but the registry has another "
            "file. The release has changed: do not use it."
        )
    if any("No module named pip" in line for line in lines):
        return f"{release.label} must be downloaded with pip, but this Python has none. {remedy}"
    telling = [line for line in lines if line.lower().startswith(("error", "e:", "npm err"))]
    reason = (telling or lines or ["no reason given"])[-1].rstrip(".")
    return f"{release.label} must be downloadable, but: {reason}. Check the connection."
