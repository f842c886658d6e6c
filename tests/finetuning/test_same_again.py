"""A seed decides everything that is written; a run can be moved and needs nothing but itself."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from regvar.errors import ModelError
from regvar.finetuning import Settings, predict
from tests.finetuning import tiny
from tests.finetuning.fits import Fit, fit, tree


def settings(networks: Path, table: Path, **other: Any) -> Settings:
    short = {"epochs": 2, "lr": 1e-2, "samples": 1, "limit": 60, **other}
    return Settings(str(table), model=str(networks / "bert"), **short)


def content(one: Fit) -> dict[str, Any]:
    """Every file of a run without the times in it."""
    found: dict[str, Any] = {}
    for name in tree(one.directory):
        path = one.directory / name
        if path.is_file():
            found[name] = path.read_bytes()
    found["report.html"] = re.sub(rb"; \d+ s\.", b"", found["report.html"])
    found["run.json"] = json.loads(found["run.json"])
    del found["run.json"]["seconds"]
    return found


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, networks: Path, table: Path) -> Fit:
    return fit(settings(networks, table), tmp_path_factory.mktemp("first") / "run")


def test_the_same_seed_gives_the_same_files(
    first: Fit, networks: Path, table: Path, tmp_path: Path
) -> None:
    torch.rand(3)  # what happened before plays no part
    again = fit(settings(networks, table), tmp_path / "run")
    assert again.test and content(again) == content(first)


def test_another_seed_gives_another_split_another_fit_and_other_refits(
    first: Fit, networks: Path, table: Path, tmp_path: Path
) -> None:
    other = content(fit(settings(networks, table, seed=1), tmp_path / "run"))
    before = content(first)
    assert other.keys() == before.keys()
    for name in ("test.csv", "metrics.json", "model/model.safetensors", "report.html"):
        assert other[name] != before[name]
    assert other["uq/displacement-0000.safetensors"] != before["uq/displacement-0000.safetensors"]
    data, data_before = other["run.json"]["data"], before["run.json"]["data"]
    for part in ("train", "validation", "test"):
        assert data[part]["manifest"] != data_before[part]["manifest"]


def test_the_order_of_a_tables_rows_plays_no_part(
    first: Fit, networks: Path, rows: list[tuple[str, str]], tmp_path: Path
) -> None:
    other = tiny.table(tmp_path / "backwards.csv", sorted(rows))
    again = fit(settings(networks, other), tmp_path / "run")
    assert again.card["data"] == first.card["data"]
    assert again.metrics == first.metrics


def test_a_limit_takes_so_many_rows(first: Fit) -> None:
    assert sum(first.metrics["rows"].values()) == 60
    assert len(first.test) == first.metrics["rows"]["test"]


def test_a_run_can_be_moved_and_needs_neither_its_data_nor_its_base(
    rows: list[tuple[str, str]], tmp_path: Path
) -> None:
    begin = tmp_path / "begin"
    begin.mkdir()
    chosen = Settings(
        str(tiny.table(begin / "rows.csv", rows[:40])),
        model=str(tiny.bert(begin / "bert")),
        epochs=1,
        samples=1,
    )
    made = fit(chosen, begin / "run")
    moved = made.directory.rename(tmp_path / "moved")
    shutil.rmtree(begin)
    found = tiny.written(predict(moved, moved / "test.csv").path)
    assert found == tiny.written(moved / "test.csv")


def test_an_adapters_run_says_which_base_it_lacks(
    rows: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    base = tiny.bert(tmp_path / "bert")
    chosen = Settings(
        str(tiny.table(tmp_path / "rows.csv", rows[:40])),
        model="bert",
        lora=True,
        frozen=("bert", "classifier"),  # all of the base: the adapter trains all the same
        epochs=1,
        samples=1,
    )
    made = fit(chosen, Path("run"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    run, data = tmp_path / "run", tmp_path / "rows.csv"
    assert made.card["settings"]["model"] == str(base.resolve())
    monkeypatch.chdir(elsewhere)  # the base was named as seen from another directory
    assert predict(run, data, "p.csv").rows == 40
    base.rename(tmp_path / "away")
    with pytest.raises(ModelError, match=f"there is no {str(base)!r}"):
        predict(run, data, "q.csv")
    assert tree(elsewhere) == {"p.csv"}
