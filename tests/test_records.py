"""Records: what is written comes back, whole or not at all, with what stands behind it."""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from regvar import records
from regvar.errors import ArgumentError, StorageError
from regvar.records import Record

RECORD = Record(
    experiment="study",
    cell="sin-inbetween",
    method="ggn",
    seed=3,
    config={"hidden": 50, "sigma2": [0.005, 0.01]},
    config_hash="0123456789ab",
    metrics={"id": {"NLL": {"value": -0.8414709848078965, "standard_error": 0.1, "count": 160}}},
    extra={
        "bands": {"x": [-1.5, 0.1, 1e-300], "std": [0.1, 2.5e-7, 3.0]},
        "lam": None,
        "warnings": ["two [1,  2]\nlines", "σ²"],
    },
    seconds={"map": 1.5, "fit": 0.25, "inference": 0.0},
    peak_mib=384.5,
    versions={"regvar": "1", "torch": "2", "python": "3"},
    commit="abcdef0",
    threads=1,
)


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    path = records.write(RECORD, tmp_path)
    assert path == tmp_path / "study" / "sin-inbetween" / "ggn" / "seed-3.json"
    assert records.find(tmp_path, "study", "sin-inbetween", "ggn", 3) == RECORD
    assert records.find(tmp_path, "study", "sin-inbetween", "ggn", 4) is None
    assert json.loads(path.read_text(encoding="utf-8")) == asdict(RECORD)


def test_a_list_of_numbers_takes_one_line(tmp_path: Path) -> None:
    text = records.write(RECORD, tmp_path).read_text(encoding="utf-8")
    assert '"x": [-1.5, 0.1, 1e-300],\n' in text


def test_numbers_that_are_not_finite_are_null_on_disk(tmp_path: Path) -> None:
    estimate = {"value": math.inf, "standard_error": math.nan, "count": 1}
    odd = replace(
        RECORD,
        metrics={"id": {"NLL": estimate}},
        extra={"lam_sweep": {"nll": [1.0, math.inf]}},
        seconds={"map": math.nan},
        peak_mib=math.nan,
    )
    path = records.write(odd, tmp_path)

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    held = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    assert held["metrics"]["id"]["NLL"] == {"value": None, "standard_error": None, "count": 1}
    (back,) = records.read(tmp_path)
    assert math.isnan(back.metrics["id"]["NLL"]["value"])
    assert math.isnan(back.seconds["map"]) and math.isnan(back.peak_mib)
    assert back.extra == {"lam_sweep": {"nll": [1.0, None]}}


def test_all_records_below_a_directory_in_order(tmp_path: Path) -> None:
    for seed in (10, 2):
        for method in ("sampled", "ggn"):
            records.write(replace(RECORD, method=method, seed=seed), tmp_path)
    (tmp_path / "memory.json").write_text("{}", encoding="utf-8")  # other records live beside
    found = [(r.method, r.seed) for r in records.read(tmp_path)]
    assert found == [("ggn", 2), ("ggn", 10), ("sampled", 2), ("sampled", 10)]


def test_a_failed_write_leaves_the_old_record_and_nothing_else(tmp_path: Path) -> None:
    path = records.write(RECORD, tmp_path)
    with pytest.raises(TypeError):
        records.write(replace(RECORD, extra={"tensor": object()}), tmp_path)
    assert records.read(tmp_path) == [RECORD]
    assert list(path.parent.iterdir()) == [path]


def test_an_interrupted_write_leaves_the_old_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = records.write(RECORD, tmp_path)

    def interrupted(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        records.write(replace(RECORD, threads=9), tmp_path)
    assert records.read(tmp_path) == [RECORD]
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda text: text[: len(text) // 2], "is not JSON"),
        (lambda text: "[1, 2]", "does not hold a record's fields"),
        (lambda text: text.replace('"seed"', '"sead"'), "does not hold a record's fields"),
        (lambda text: text.replace('"metrics": {', '"metrics": [],"x": {'), "fields"),
        (lambda text: text.replace('"seconds": {', '"seconds": 1, "versions": {'), "another form"),
    ],
)
def test_a_damaged_file_is_named_with_the_remedy(tmp_path: Path, damage, said: str) -> None:
    path = records.write(RECORD, tmp_path)
    path.write_text(damage(path.read_text(encoding="utf-8")), encoding="utf-8")
    for reading in (
        lambda: records.read(tmp_path),
        lambda: records.find(tmp_path, "study", "sin-inbetween", "ggn", 3),
    ):
        with pytest.raises(StorageError, match=said) as caught:
            reading()
        assert str(path) in str(caught.value)
        assert "Delete it and run the experiment again" in str(caught.value)


def test_no_directory_is_an_error_that_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"is not a directory\. Run `regvar run NAME"):
        records.read(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["../ggn", "a/b", "", ".hidden"])
def test_names_cannot_leave_the_directory(tmp_path: Path, name: str) -> None:
    with pytest.raises(ArgumentError, match="it names a folder"):
        records.write(replace(RECORD, method=name), tmp_path)


def test_the_hash_is_of_the_settings_not_of_their_order() -> None:
    first = {"lam": (0.1, 1.0), "hidden": 50}
    text = '{"hidden":50,"lam":[0.1,1.0]}'
    assert records.config_hash(first) == hashlib.sha256(text.encode()).hexdigest()[:12]
    assert records.config_hash({"hidden": 50, "lam": [0.1, 1.0]}) == records.config_hash(first)
    assert records.config_hash({"hidden": 51, "lam": [0.1, 1.0]}) != records.config_hash(first)


def test_provenance_names_versions_and_commit() -> None:
    import torch

    import regvar

    found = records.provenance()
    assert found.versions["torch"] == torch.__version__
    assert found.versions["regvar"] == regvar.__version__
    assert found.versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found.threads == torch.get_num_threads()


def test_the_commit_is_of_regvars_own_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the package within somebody else's repository must not borrow its commit."""
    folder = tmp_path / "site" / "regvar"
    folder.mkdir(parents=True)
    (folder / "version.py").write_text('__version__ = "1"\n', encoding="utf-8")
    monkeypatch.setattr(records, "__file__", str(folder / "records.py"))

    def commit() -> str:
        records._commit.cache_clear()
        return records.provenance().commit

    def git(*arguments: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        done = subprocess.run(
            ["git", "-C", str(tmp_path), *who, *arguments],
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    try:
        assert commit() == "unknown"
        git("init", "-q")
        (tmp_path / "notes.txt").write_text("theirs", encoding="utf-8")
        git("add", "notes.txt")
        git("commit", "-q", "-m", "theirs")
        assert commit() == "unknown"
        git("add", "site")
        git("commit", "-q", "-m", "ours")
        git("tag", "a-tag-is-not-a-commit")
        assert len(commit()) >= 7 and git("rev-parse", "HEAD").startswith(commit())
        (folder / "version.py").write_text('__version__ = "9"\n', encoding="utf-8")
        assert commit() == git("rev-parse", "--short", "HEAD") + "-dirty"
    finally:
        records._commit.cache_clear()
