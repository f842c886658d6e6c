"""Means, intervals and marks against numpy and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from regvar import report
from regvar.report import Column, Mark, Row, RowGroup, Score
from regvar.report.comparison import ByMethod

SEEDS = 10


def simulated(seed: int, methods: int = 5) -> NDArray[np.float64]:
    """[methods, seeds]: a shared difficulty of each seed, small differences between methods."""
    chance = np.random.default_rng(seed)
    shared = chance.normal(size=SEEDS)
    shifts = 0.02 * np.arange(methods)[:, None]
    return shared + shifts + 0.04 * chance.normal(size=(methods, SEEDS))


def by_method(values: NDArray[np.float64]) -> dict[str, dict[int, float]]:
    return {f"m{i}": dict(enumerate(row.tolist())) for i, row in enumerate(values)}


@pytest.mark.parametrize("count", [2, 3, 10])
def test_spread_is_scipys_interval(count: int) -> None:
    values = np.random.default_rng(count).normal(size=count)
    found = report.spread(values.tolist())
    low, high = stats.t.interval(0.95, count - 1, values.mean(), stats.sem(values))
    assert math.isclose(found.mean, values.mean(), rel_tol=1e-12)
    assert math.isclose(found.mean - found.half_width, low, rel_tol=1e-9)
    assert math.isclose(found.mean + found.half_width, high, rel_tol=1e-9)
    assert found.count == count


def test_spread_of_one_or_none() -> None:
    assert report.spread([2.0]).cell(1).whole == "2.0"
    assert report.spread([]).cell(1).whole == "–"
    assert report.spread([math.nan, math.inf]).count == 0
    assert report.spread([1.0, 3.0, math.inf]).mean == 2.0


@pytest.mark.parametrize("seed", range(20))
def test_marks_are_those_of_scipys_paired_test(seed: int) -> None:
    values = simulated(seed)
    found = report.marks(by_method(values))
    best = int(values.mean(1).argmin())
    for i, row in enumerate(values):
        if i == best:
            wanted = Mark.BEST
        else:
            tied = stats.ttest_rel(row, values[best]).pvalue >= 0.05
            wanted = Mark.TIED if tied else Mark.NONE
        assert found[f"m{i}"] is wanted


def test_simulated_marks_are_of_all_kinds() -> None:
    held = [
        mark for seed in range(20) for mark in report.marks(by_method(simulated(seed))).values()
    ]
    assert set(held) == set(Mark)


def test_pairing_matters_and_order_does_not() -> None:
    values = by_method(simulated(3))
    again = {m: dict(sorted(v.items(), reverse=True)) for m, v in reversed(values.items())}
    assert report.marks(again) == report.marks(values)
    # Far apart seeds, a constant small difference: only pairs can tell.
    close: ByMethod = {"a": {0: 1.0, 1: 5.0, 2: 9.0}, "b": {0: 1.11, 1: 5.1, 2: 9.09}}
    assert report.marks(close) == {"a": Mark.BEST, "b": Mark.NONE}


def test_incomplete_and_infinite_methods_take_no_part() -> None:
    values = by_method(simulated(0, 3))
    values["short"] = {0: -100.0}
    values["broken"] = dict.fromkeys(range(SEEDS), -100.0) | {4: math.nan}
    values["endless"] = dict.fromkeys(range(SEEDS), -100.0) | {4: math.inf}
    found = report.marks(values)
    assert {found[m] for m in ("short", "broken", "endless")} == {Mark.NONE}
    assert found["m0"] is Mark.BEST


def test_no_comparison_without_company_or_seeds() -> None:
    assert report.marks({"a": {0: 1.0, 1: 2.0}}) == {"a": Mark.NONE}
    assert report.marks({}) == {}
    assert report.marks({"a": {0: 1.0}, "b": {0: 2.0}}) == {"a": Mark.BEST, "b": Mark.NONE}
    same: ByMethod = {"a": {0: 1.0, 1: 2.0}, "b": {0: 1.0, 1: 2.0}}
    assert report.marks(same) == {"a": Mark.BEST, "b": Mark.TIED}


def test_what_only_rounding_tells_apart_is_tied() -> None:
    low, high = [0.94375, 0.9375, 0.95], [0.95625, 0.9625, 0.95]
    losses = {
        "low": {seed: abs(v - 0.95) for seed, v in enumerate(low)},
        "high": {seed: abs(v - 0.95) for seed, v in enumerate(high)},
    }
    assert losses["low"] != losses["high"]
    assert report.marks(losses) == {"low": Mark.BEST, "high": Mark.TIED}
    again = {"high": losses["high"], "low": losses["low"]}
    assert report.marks(again) == {"high": Mark.BEST, "low": Mark.TIED}


def test_compare_scores_by_the_loss_not_the_value() -> None:
    coverage: ByMethod = {
        "wide": {0: 1.0, 1: 1.0, 2: 1.0},
        "right": {0: 0.95, 1: 0.94, 2: 0.96},
        "swings": {0: 0.75, 1: 1.0, 2: 1.0},
    }
    labels = {"wide": "Wide", "right": "Right", "swings": "Swings", "absent": "Absent"}
    table = report.compare(
        "picp", "PICP.", {Column("ID"): coverage}, labels, Score(2, lambda v: abs(v - 0.95))
    )
    cells = {row.label: row.cells[0] for row in table.rows}
    assert cells["Right"].mark is Mark.BEST
    assert cells["Wide"].mark is Mark.NONE
    assert cells["Wide"].whole == "1.00 ± 0.00"
    half = stats.sem([0.95, 0.94, 0.96]) * stats.t.ppf(0.975, 2)
    assert cells["Right"].whole == f"0.95 ± {half:.2f}"
    # Its mean deviates less from 0.95 than Wide's, seed by seed it is worse: 0.1 against 0.05.
    p_value = stats.ttest_rel([0.2, 0.05, 0.05], [0.0, 0.01, 0.01]).pvalue
    assert (cells["Swings"].mark is Mark.TIED) == (p_value >= 0.05)
    assert cells["Absent"].whole == "–"


def test_one_seed_is_neither_an_interval_nor_a_test() -> None:
    held: ByMethod = {"a": {0: 1.0}, "b": {0: 2.0}}
    columns, labels = {Column("ID"): held}, {"a": "A", "b": "B"}
    table = report.compare("nll", "NLL.", columns, labels, Score(1, lambda v: v))
    assert [row.cells[0].whole for row in table.rows] == ["1.0", "2.0"]
    assert "one seed" in table.notes[0]
    assert not report.compare("nll", "NLL.", columns, labels, Score(1)).notes


def test_compare_says_when_seeds_are_missing_and_keeps_other_rows_apart() -> None:
    held: ByMethod = {"a": {0: 1.0, 1: 2.0, 2: 3.0}, "b": {0: 0.0, 1: 0.5}}
    paper = RowGroup((Row("theirs", (report.Cell("0.1"),)),), "paper")
    table = report.compare(
        "nll", "NLL.", {Column("ID"): held}, {"a": "A", "b": "B"}, Score(1, lambda v: v), (paper,)
    )
    assert [row.label for row in table.rows] == ["A", "B", "theirs"]
    assert table.rows[1].cells[0].whole.endswith("(2 of 3 seeds)")
    assert {row.cells[0].mark for row in table.rows} == {Mark.NONE}
    assert [group.label for group in table.groups] == ["regvar", "paper"]
