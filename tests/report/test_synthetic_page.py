"""The synthetic study's page: its numbers are those of the records, recomputed another way."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from regvar import report
from regvar.cli.arguments import whole_numbers
from regvar.errors import DataError
from regvar.experiments.synthetic import Config, paper_values
from regvar.experiments.synthetic.page import page
from regvar.records import Record, config_hash
from regvar.report import Mark, Table
from tests.report import study
from tests.report.html_reader import read

LOSSES = {"picp": lambda v: np.abs(v - 0.95).round(12), "crps": np.asarray, "nll": np.asarray}


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return study.records()


@pytest.fixture(scope="module")
def made(records: list[Record]) -> report.Page:
    return page(records)


def table(made: report.Page, name: str) -> Table:
    return next(t for t in made.tables if t.name == name)


def minus(text: str) -> str:
    return text.replace("-", "−")


def values(
    records: Sequence[Record], task: str, method: str, split: str, metric: str
) -> np.ndarray:
    held = [r for r in records if r.cell == task and r.method == method]
    return np.array([r.metrics[split][metric]["value"] for r in held])


@pytest.mark.parametrize("suffix", ["", "/calibrated"])
@pytest.mark.parametrize(("metric", "decimals"), [("PICP", 3), ("CRPS", 4), ("NLL", 3)])
def test_scores_and_marks_are_recomputed(
    records: list[Record], made: report.Page, metric: str, decimals: int, suffix: str
) -> None:
    name = metric.lower()
    shown = table(made, name + suffix.replace("/", "-"))
    places = [(task, split + suffix) for task in study.TASKS for split in ("id", "ood")]
    rows = dict(zip(study.PREDICT, shown.groups[0].rows, strict=False))
    assert len(shown.groups[0].rows) == len(study.PREDICT)
    for column, (task, split) in enumerate(places):
        held = {m: values(records, task, m, split, metric) for m in study.PREDICT}
        losses = {m: LOSSES[name](v) for m, v in held.items()}
        least = min(v.mean() for v in losses.values())
        best = next(m for m in study.PREDICT if math.isclose(losses[m].mean(), least))
        for method in study.PREDICT:
            cell, v = rows[method].cells[column], held[method]
            half = stats.sem(v) * stats.t.ppf(0.975, len(v) - 1)
            # A mean such as 0.9475 may round either way.
            step = 0.5 * 10**-decimals + 1e-12
            assert abs(float(cell.text.replace("−", "-")) - v.mean()) <= step
            assert abs(float(cell.aside.removeprefix("± ")) - half) <= step
            assert len(cell.text.partition(".")[2]) == decimals
            if method == best:
                assert cell.mark is Mark.BEST
            else:
                tied = stats.ttest_rel(losses[method], losses[best]).pvalue >= 0.05
                assert cell.mark is (Mark.TIED if tied else Mark.NONE)


def test_sums_are_values_times_counts(records: list[Record], made: report.Page) -> None:
    shown = table(made, "nll-sum")
    row = next(r for r in shown.groups[0].rows if r.label == "sampled")
    v = values(records, "sin-inbetween", "sampled", "ood", "NLL") * 80
    half = stats.sem(v) * stats.t.ppf(0.975, 9)
    assert row.cells[-1].whole == minus(f"{v.mean():.1f} ± {half:.1f}")


def test_the_papers_values_stand_below_ours(made: report.Page) -> None:
    sums, coverage = table(made, "nll-sum"), table(made, "picp")
    assert sums.groups[1].label == "paper, as printed (one run)"
    by = {row.label: [c.text for c in row.cells] for row in sums.groups[1].rows}
    assert by["GGN"][:2] == ["−23.790", "−38.751"]
    assert by["RegVar (Algorithm 1)"][-1] == "22.915"
    assert coverage.groups[1].rows[0].cells[5].text == "0.8625"
    assert all(c.mark is Mark.NONE for row in sums.groups[1].rows for c in row.cells)
    assert len(table(made, "crps").groups) == 1  # not comparable: see the note


def test_papers_values_are_the_printed_ones() -> None:
    printed = paper_values.PRINTED
    assert printed["exact_hessian"]["sin-uniform", "ood"].nll == "26.004"
    assert printed["exact_hessian"]["quadratic-inbetween", "ood"].picp == "0.8667"
    assert printed["ggn"]["sin-uniform", "ood"].nll == "101.6"
    assert printed["ggn"]["quadratic-inbetween", "ood"].crps == "0.0008355"
    assert printed["eigenvectors"]["quadratic-uniform", "ood"].crps == "0.007705"
    assert printed["eigenvectors"]["sin-inbetween", "id"].nll == "-73.785"
    assert printed["regvar"]["quadratic-inbetween", "ood"].crps == "4.735e-05"
    assert printed["regvar"]["quadratic-inbetween", "id"].picp == "0.8750"
    assert printed["regvar"]["quadratic-uniform", "ood"].nll == "-38.440"
    assert printed["regvar"]["sin-inbetween", "ood"].scores["NLL"] == "22.915"
    assert all(len(by) == 8 for by in printed.values())


def test_the_least_crps_is_that_of_the_known_predictive() -> None:
    grid = np.linspace(-1, 1, 4001)
    density, cdf = stats.norm.pdf(grid, scale=0.1), stats.norm.cdf(grid, scale=0.1)
    # E CRPS of the truth about itself is ∫ F (1 − F).
    least = np.trapezoid(cdf * (1 - cdf), grid)
    assert math.isclose(paper_values.LEAST_CRPS, least, rel_tol=1e-6)
    assert math.isclose(np.trapezoid(density, grid), 1, rel_tol=1e-9)
    text = " ".join(page_text(page(study.records(seeds=[0]))))
    below = sum(float(p.crps) < least for by in paper_values.PRINTED.values() for p in by.values())
    assert f"{below} of the paper's 32 values do, down to 4.73e-05" in text


def page_text(made: report.Page) -> list[str]:
    texts = list(made.lead)
    for part in made.parts:
        if isinstance(part, report.Text):
            texts += part.paragraphs
        elif isinstance(part, report.Items):
            texts += part.items
    return texts


def test_headline_is_computed_from_the_records(records: list[Record], made: report.Page) -> None:
    text = " ".join(made.lead)
    assert "4 tasks, 9 methods that predict, 10 seeds: 400 records" in text
    own = sum(r.seconds["fit"] + r.seconds["inference"] for r in records)
    assert f"{(own + 1.5 * 40) / 60:.1f} minutes" in text  # one network for ten methods
    ranks = {
        task: np.median(
            [
                r.extra["audit"]["rank_correlation"]
                for r in records
                if (r.cell, r.method) == (task, "amortized_in_sample")
            ]
        )
        for task in study.TASKS
    }
    assert "amortized (in-sample) " + minus(f"{min(ranks.values()):.2f}.") in text
    marked = table(made, "nll-calibrated").groups[0].rows
    counts = {r.label: sum(c.mark is not Mark.NONE for c in r.cells) for r in marked}
    assert f"sampled in {counts['sampled']}, amortized" in text
    low = min(ranks, key=lambda task: ranks[task])
    labels = ("Quadratic", "Quadratic-Inbetween", "Sin", "Sin-Inbetween")
    where = dict(zip(study.TASKS, labels, strict=True))[low]
    lowest, highest = (minus(f"{rank:.2f}") for rank in (ranks[low], max(ranks.values())))
    assert f"runs from {lowest} ({where}) to {highest}" in " ".join(page_text(made))


def test_audit_says_in_words_what_its_numbers_say(made: report.Page) -> None:
    words = {row.label: [c.text for c in row.cells] for row in table(made, "audit-verdict").rows}
    assert "temperature" not in words
    assert all(text.startswith("Orders the inputs as the truth does") for text in words["sampled"])
    wrong = words["amortized (in-sample)"]
    assert all(text.startswith("Orders the inputs against the truth") for text in wrong)
    scales = {row.label: row.cells[0].text for row in table(made, "audit-scale").rows}
    middle = re.fullmatch(r"([\d.]+) \(([\d.]+) to ([\d.]+)\)", scales["sampled"])
    assert middle is not None
    median, low, high = map(float, middle.groups())
    assert low <= median <= high
    assert f"{median:.2g} times its size" in words["sampled"][0]


def test_figures_are_there_and_say_what_they_show(made: report.Page) -> None:
    alts = {figure.name: figure.alt for figure in made.figures}
    assert list(alts) == [
        "bands-paper",
        "bands-regvar",
        "sweep-sigma2",
        "sweep-lam",
        "parameters",
        "sparsity",
        "audit-rank",
    ]
    four = next(f for f in made.figures if f.name == "bands-paper").drawing
    titles = [axis.get_title(loc="left") for axis in four.axes]
    assert titles == ["exact Hessian", "GGN", "eigenvectors", "amortized (evaluation)"]
    assert "0.01 (10 of 10 seeds)" in alts["sweep-sigma2"]


def test_sparsity_is_recomputed(records: list[Record], made: report.Page) -> None:
    held = [r for r in records if (r.cell, r.method) == ("sin-uniform", "parameter")]
    v = np.array([r.extra["sparsity"]["ood"] for r in held])
    row = next(r for r in table(made, "sparsity").rows if r.label == "RegVar (Alg. 3)")
    half = stats.sem(v) * stats.t.ppf(0.975, 9)
    assert row.cells[5].whole == f"{v.mean():.3f} ± {half:.3f}"
    assert table(made, "sparsity").rows[-1].cells[5].whole == "0.200 ± 0.000"
    drawn = next(f for f in made.figures if f.name == "sparsity").drawing
    panel = next(a for a in drawn.axes if a.get_title(loc="left") == "Sin, OOD")
    assert any(
        np.allclose(np.asarray(c.get_offsets())[:, 0], v)
        for c in panel.collections
        if len(c.get_offsets()) == len(v)
    )


@pytest.mark.parametrize(
    ("tasks", "methods", "seeds"),
    [
        (["sin-inbetween"], ["sampled"], [3]),
        (["quadratic-uniform"], ["map_only", "ggn"], [0, 1]),
        (["sin-uniform"], ["parameter"], [0]),
        (["sin-inbetween"], ["amortized_eval", "exact_hessian"], range(3)),
    ],
)
def test_a_study_run_in_part_has_a_page(
    tasks: Sequence[str], methods: Sequence[str], seeds: Sequence[int], tmp_path: Path
) -> None:
    target = report.write(page(study.records(tasks, methods, seeds)), tmp_path)
    found = read(target.read_text(encoding="utf-8"))
    assert found.unclosed == []
    assert "nan" not in "".join(found.text).lower().split()


def test_stored_nulls_leave_gaps_and_dashes(records: list[Record]) -> None:
    def broken(r: Record) -> Record:
        if (r.cell, r.method, r.seed) != ("sin-inbetween", "exact_hessian", 0):
            return r
        nothing = {"value": math.nan, "standard_error": math.nan, "count": 80}
        std = [None, *r.extra["bands"]["std"][1:]]
        return replace(
            r,
            metrics={s: dict.fromkeys(held, nothing) for s, held in r.metrics.items()},
            extra={**r.extra, "bands": {**r.extra["bands"], "std": std}, "scale": None},
        )

    made = page([broken(r) for r in records])
    cell = table(made, "nll").rows[0].cells[-1]
    assert cell.whole.endswith("(9 of 10 seeds)")
    assert cell.mark is Mark.NONE
    shown = next(f for f in made.figures if f.name == "bands-paper")
    assert "Seed 1, the first with all bands defined everywhere" in shown.caption


def test_order_of_records_changes_nothing(records: list[Record], made: report.Page) -> None:
    again = page(records[::-1])
    assert [t.markdown() for t in again.tables] == [t.markdown() for t in made.tables]
    assert page_text(again) == page_text(made)


def test_the_command_makes_the_same_records_again(records: list[Record]) -> None:
    config = asdict(Config())
    held = [replace(r, config=config, config_hash=config_hash(config)) for r in records]
    held = [r for r in held if r.seed != 3 and r.cell != "sin-uniform"]
    code = next(part for part in page(held).parts if isinstance(part, report.Code)).text
    assert code.splitlines() == [
        "regvar run synthetic --seeds 0-2,4-9 --cells quadratic-uniform,quadratic-inbetween,"
        "sin-inbetween --out records",
        "regvar report records",
    ]
    assert whole_numbers("0-2,4-9") == sorted({r.seed for r in held})
    assert "Run under other settings" in " ".join(page_text(page(records)))


def test_no_records_of_the_study_are_refused(records: list[Record]) -> None:
    with pytest.raises(DataError, match="records must hold some of the synthetic study"):
        page([replace(records[0], experiment="other")])
