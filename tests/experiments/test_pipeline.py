"""The pipeline builds what is missing, nothing twice, and loses nothing that was written."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch

from regvar import records
from regvar.errors import ArgumentError, StorageError
from regvar.experiments import EXPERIMENTS, find, pipeline
from regvar.experiments.memory import peak_mib
from regvar.experiments.pipeline import Experiment, Outcome, Tally
from regvar.metrics import Estimate

CELLS, METHODS, SEEDS = ("a", "b"), ("first", "second", "third"), (0, 1)


@dataclass(frozen=True)
class Config:
    rate: float = 0.5
    grid: tuple[float, ...] = (1.0, 2.0)


@dataclass
class Counted:
    """An experiment that writes down what it was asked to do."""

    config: Config = field(default_factory=Config)
    threads: int | None = None
    configs: dict[str, Config] = field(default_factory=dict)
    without: dict[str, tuple[str, ...]] = field(default_factory=dict)
    prepared: list[tuple[str, int]] = field(default_factory=list)
    ran: list[tuple[str, int, str]] = field(default_factory=list)
    fail_at: tuple[str, int, str] | None = None

    @property
    def experiment(self) -> Experiment[tuple[str, int]]:
        return Experiment(
            "counted",
            "",
            METHODS,
            SEEDS,
            self.configs or dict.fromkeys(CELLS, self.config),
            self.prepare,
            self.run,
            self.page,
            self.threads,
            self.without,
        )

    def prepare(self, cell: str, seed: int) -> tuple[str, int]:
        self.prepared.append((cell, seed))
        warnings.warn("of the network", stacklevel=1)
        return cell, seed

    def run(self, context: tuple[str, int], method: str) -> Outcome:
        if (*context, method) == self.fail_at:
            raise KeyboardInterrupt
        self.ran.append((*context, method))
        for _ in range(2):
            warnings.warn(f"of {method}", stacklevel=1)
        value = len(method) + 10 * context[1]
        metrics = {"id": {"NLL": Estimate(value, math.nan, 1)}}
        extra = {"cell": context[0], "threads": torch.get_num_threads()}
        return Outcome(metrics, extra, {"fit": 1.0, "inference": 2.0})

    def page(self, found: object) -> object:
        raise NotImplementedError


def test_every_cell_method_and_seed_gets_its_record(tmp_path: Path) -> None:
    counted = Counted()
    assert pipeline.build(counted.experiment, tmp_path) == Tally(built=12, kept=0)
    assert counted.prepared == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]  # once for three methods
    found = records.read(tmp_path)
    assert {(r.cell, r.method, r.seed) for r in found} == {
        (cell, method, seed) for cell in CELLS for method in METHODS for seed in SEEDS
    }
    for record in found:
        assert record.metrics["id"]["NLL"]["value"] == len(record.method) + 10 * record.seed
        assert record.extra["cell"] == record.cell
        assert record.extra["warnings"] == ["of the network", f"of {record.method}"]
        assert record.config == {"rate": 0.5, "grid": [1.0, 2.0]}
        assert record.config_hash == records.config_hash(record.config)
        assert record.seconds["fit"] == 1.0 and record.seconds["inference"] == 2.0
        assert 0 <= record.seconds["map"] < 60
        assert 0.9 * peak_mib() < record.peak_mib <= peak_mib()


def test_a_second_run_builds_nothing(tmp_path: Path) -> None:
    pipeline.build(Counted().experiment, tmp_path)
    again = Counted()
    assert pipeline.build(again.experiment, tmp_path) == Tally(built=0, kept=12)
    assert again.prepared == [] and again.ran == []


def test_only_what_is_missing_is_built(tmp_path: Path) -> None:
    pipeline.build(Counted().experiment, tmp_path)
    records.path(tmp_path, "counted", "b", "second", 1).unlink()
    again = Counted()
    assert pipeline.build(again.experiment, tmp_path) == Tally(built=1, kept=11)
    assert again.prepared == [("b", 1)] and again.ran == [("b", 1, "second")]


def test_a_cells_other_configuration_rebuilds_that_cell_alone(tmp_path: Path) -> None:
    pipeline.build(Counted().experiment, tmp_path)
    changed = Counted(configs={"a": Config(), "b": Config(rate=0.6)})
    assert pipeline.build(changed.experiment, tmp_path) == Tally(built=6, kept=6)
    assert {cell for cell, _ in changed.prepared} == {"b"}
    rates = {(r.cell, r.config["rate"]) for r in records.read(tmp_path)}
    assert rates == {("a", 0.5), ("b", 0.6)}


def test_a_cell_may_do_without_a_method(tmp_path: Path) -> None:
    counted = Counted(without={"b": ("second",)})
    assert pipeline.build(counted.experiment, tmp_path) == Tally(built=10, kept=0)
    assert {r.method for r in records.read(tmp_path) if r.cell == "b"} == {"first", "third"}
    assert pipeline.build(counted.experiment, tmp_path, methods=["second"]) == Tally(0, 2)


def test_another_configuration_rebuilds(tmp_path: Path) -> None:
    pipeline.build(Counted().experiment, tmp_path, cells=["a"])
    changed = Counted(replace(Config(), rate=0.6))
    assert pipeline.build(changed.experiment, tmp_path, cells=["a"], seeds=[1]) == Tally(3, 0)
    rates = {(r.seed, r.config["rate"]) for r in records.read(tmp_path)}
    assert rates == {(0, 0.5), (1, 0.6)}


def test_an_interrupted_run_keeps_what_it_wrote_and_goes_on(tmp_path: Path) -> None:
    broken = Counted(fail_at=("b", 0, "second"))
    with pytest.raises(KeyboardInterrupt):
        pipeline.build(broken.experiment, tmp_path)
    assert len(records.read(tmp_path)) == len(broken.ran) == 4
    again = Counted()
    assert pipeline.build(again.experiment, tmp_path) == Tally(built=8, kept=4)
    assert again.ran[0] == ("b", 0, "second")
    assert not set(again.ran) & set(broken.ran)
    whole = tmp_path / "whole"
    pipeline.build(Counted().experiment, whole)
    resumed = records.read(tmp_path / "counted")
    assert [_essence(r) for r in resumed] == [_essence(r) for r in records.read(whole)]


def _essence(record: records.Record) -> tuple[object, ...]:
    value = record.metrics["id"]["NLL"]["value"]
    return record.cell, record.method, record.seed, value, record.extra["cell"]


def test_a_damaged_record_is_not_overwritten_in_silence(tmp_path: Path) -> None:
    pipeline.build(Counted().experiment, tmp_path)
    path = records.path(tmp_path, "counted", "a", "first", 0)
    path.write_text("{", encoding="utf-8")
    with pytest.raises(StorageError, match="is not JSON"):
        pipeline.build(Counted().experiment, tmp_path)


def test_cells_methods_and_seeds_can_be_chosen(tmp_path: Path) -> None:
    counted = Counted()
    tally = pipeline.build(
        counted.experiment, tmp_path, cells=["b"], methods=["third", "first"], seeds=[7, 7]
    )
    assert tally == Tally(2, 0)
    assert counted.ran == [("b", 7, "first"), ("b", 7, "third")]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"methods": ["frist"]}, r"'frist' is not\. Did you mean 'first'\?"),
        (
            {"methods": ["zzzz"]},
            r"methods must be among first, second, third, but 'zzzz' is not\.$",
        ),
        ({"cells": ["c"]}, "cells must be among a, b, but 'c' is not"),
        ({"cells": []}, "cells must be one or more names"),
        ({"seeds": []}, "seeds must be one or more whole numbers"),
    ],
)
def test_wrong_choices_are_refused_before_anything_runs(
    tmp_path: Path, wrong: dict[str, list[str]], said: str
) -> None:
    counted = Counted()
    with pytest.raises(ArgumentError, match=said):
        pipeline.build(counted.experiment, tmp_path, **wrong)
    assert counted.prepared == [] and list(tmp_path.iterdir()) == []


def test_threads_are_set_for_the_run_and_restored(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        failing = Counted(threads=1, fail_at=("a", 0, "second")).experiment
        with pytest.raises(KeyboardInterrupt):
            pipeline.build(failing, tmp_path)
        assert torch.get_num_threads() == 2
        (record,) = records.read(tmp_path)
        assert record.threads == record.extra["threads"] == 1
    finally:
        torch.set_num_threads(before)


def test_experiments_are_found_by_name() -> None:
    assert find("synthetic") is EXPERIMENTS["synthetic"]
    with pytest.raises(ArgumentError, match=r"'sinthetic' is not\. Did you mean 'synthetic'\?"):
        find("sinthetic")
