"""Results as they are kept: one JSON file per experiment, cell, method and seed.

    <directory>/<experiment>/<cell>/<method>/seed-<k>.json

A record carries what it takes to trust it: the settings and their hash, the seed, the versions
and commit, the threads, where the time went and how much memory it took. It is written whole or
not at all, so that a run which is interrupted leaves no half of one behind.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import platform
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, cast

import torch

from regvar.errors import StorageError, require
from regvar.version import __version__

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NUMBERS = re.compile(r"\[\n([-+.,\s\dEenul]*)\]")  # a list of numbers is written on one line


@dataclass(frozen=True)
class Record:
    """One result with everything behind it.

    JSON knows no NaN and no infinity: a number that is not finite is stored as null. It comes
    back as NaN in `metrics`, `seconds` and `peak_mib`, where a number is promised, and as `None`
    in `extra`.
    """

    experiment: str  # "synthetic"
    cell: str  # what is compared within: a task such as "sin-inbetween"
    method: str  # "ggn"
    seed: int
    config: Mapping[str, Any]  # the experiment's settings
    config_hash: str  # a record with another hash is not reused
    metrics: Mapping[str, Mapping[str, Mapping[str, float]]]
    # split → metric → {"value", "standard_error", "count"}
    extra: Mapping[str, Any]  # curves, audit, chosen hyperparameters: JSON types
    seconds: Mapping[str, float]  # {"map", "fit", "inference"}
    peak_mib: float  # most resident memory of the process so far
    versions: Mapping[str, str]
    commit: str
    threads: int


@dataclass(frozen=True)
class Provenance:
    """Which program on which machine: the same for all records of a run."""

    versions: Mapping[str, str]
    commit: str  # "-dirty" is appended when tracked files differ from it
    threads: int


def provenance() -> Provenance:
    """Of the running program.

    >>> from regvar import records
    >>> sorted(records.provenance().versions)
    ['python', 'regvar', 'torch']
    """
    versions = {
        "regvar": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
    }
    return Provenance(versions, _commit(), torch.get_num_threads())


def config_hash(config: Mapping[str, Any]) -> str:
    """Twelve hex digits that change when any setting does.

    >>> from regvar import records
    >>> records.config_hash({"b": 1, "a": (2, 3)}) == records.config_hash({"a": [2, 3], "b": 1})
    True
    """
    text = json.dumps(config, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def path(directory: Path | str, experiment: str, cell: str, method: str, seed: int) -> Path:
    """Where a record is kept."""
    for argument, name in (("experiment", experiment), ("cell", cell), ("method", method)):
        plain = _NAME.fullmatch(name) is not None
        require(plain, argument, "letters, digits, '.', '_' and '-' (it names a folder)", name)
    return Path(directory) / experiment / cell / method / f"seed-{seed}.json"


def write(record: Record, directory: Path | str) -> Path:
    """Write a record in place of any older one, whole or not at all."""
    target = path(directory, record.experiment, record.cell, record.method, record.seed)
    text = json.dumps(_finite(asdict(record)), indent=1, ensure_ascii=False, allow_nan=False)
    text = _NUMBERS.sub(lambda found: "[" + " ".join(found[1].split()) + "]", text)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".partial-")
    fresh = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text + "\n")
        fresh.chmod(0o644)
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)
    return target


def find(
    directory: Path | str, experiment: str, cell: str, method: str, seed: int
) -> Record | None:
    """The record of this cell, method and seed, or `None`."""
    where = path(directory, experiment, cell, method, seed)
    return _load(where) if where.is_file() else None


def read(directory: Path | str) -> list[Record]:
    """All records below a directory, by experiment, cell, method and seed.

    Raises `StorageError` when the directory is not there or a file in it is damaged.
    """
    root = Path(directory)
    if not root.is_dir():
        raise StorageError(
            f"directory must hold records, but {str(root)!r} is not a directory. "
            "Run `regvar run NAME --out DIR` first."
        )
    found = [_load(file) for file in root.rglob("seed-*.json")]
    return sorted(found, key=lambda r: (r.experiment, r.cell, r.method, r.seed))


def _load(file: Path) -> Record:
    wanted = {f.name for f in fields(Record)}
    try:
        held = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise _damaged(file, f"is not JSON ({error})") from error
    if not isinstance(held, dict) or cast("dict[str, Any]", held).keys() != wanted:
        raise _damaged(file, "does not hold a record's fields")
    values = cast("dict[str, Any]", held)
    try:
        values["metrics"] = {
            split: {
                metric: {k: _number(v) for k, v in estimate.items()}
                for metric, estimate in metrics.items()
            }
            for split, metrics in values["metrics"].items()
        }
        values["seconds"] = {k: _number(v) for k, v in values["seconds"].items()}
        values["peak_mib"] = _number(values["peak_mib"])
    except AttributeError as error:
        raise _damaged(file, "holds metrics or seconds of another form") from error
    return Record(**values)


def _damaged(file: Path, why: str) -> StorageError:
    return StorageError(
        f"record must be a JSON file written by regvar, but {str(file)!r} {why}. "
        "Delete it and run the experiment again: only what is missing is built."
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _finite(value: Any) -> Any:
    """The same with null for what JSON cannot hold."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {k: _finite(v) for k, v in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_finite(v) for v in cast("Sequence[Any]", value)]
    return value


@functools.cache
def _commit() -> str:
    """The commit this program was checked out from; "unknown" when it was not."""
    here = Path(__file__).resolve().parent
    tracked = _git(here, "ls-files", "--error-unmatch", "version.py")  # not some other checkout
    described = _git(here, "describe", "--always", "--dirty", "--exclude", "*")
    return described if tracked and described else "unknown"


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
