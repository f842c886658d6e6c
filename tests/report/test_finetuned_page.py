"""The pages of fine-tuned studies: their numbers are those of the records, recomputed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from regvar import report
from regvar.errors import DataError
from regvar.experiments.finetuned.cells import METHODS
from regvar.experiments.finetuned.page import page
from regvar.records import Record
from regvar.report import Mark, Table
from tests.report import finetuned_study as study
from tests.report.html_reader import Found, read

CELLS = {
    "texts": ("minilm-imdb", "smollm2-imdb"),
    "language": ("smollm2-wikitext", "smollm2-imdb-text"),
    "images": ("vit-cifar10",),
}


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return study.records()


@pytest.fixture(scope="module")
def made(records: list[Record]) -> report.Page:
    return page(records)


def table(made: report.Page, name: str) -> Table:
    return next(t for t in made.tables if t.name == name)


def values(records: list[Record], method: str, split: str, metric: str) -> np.ndarray:
    return np.array([r.metrics[split][metric]["value"] for r in records if r.method == method])


def said(made: report.Page) -> str:
    texts = list(made.lead)
    for part in made.parts:
        texts += getattr(part, "paragraphs", ()) or getattr(part, "items", ())
    return " ".join(texts)


@pytest.mark.parametrize("metric", ["NLL", "ECE"])
def test_scores_and_marks_are_recomputed(
    records: list[Record], made: report.Page, metric: str
) -> None:
    shown = table(made, "likelihood-minilm-film")
    places = ("test", "snippets-product", "snippets-tweet", "snippets-editorial")
    columns = [k for k, column in enumerate(shown.columns) if column.group == metric]
    for column, split in zip(columns, places, strict=True):
        held = {m: values(records, m, split, metric) for m in METHODS}
        best = min(held, key=lambda m: held[m].mean())
        for method, row in zip(METHODS, shown.groups[0].rows, strict=True):
            cell, v = row.cells[column], held[method]
            half = stats.sem(v) * stats.t.ppf(0.975, len(v) - 1)
            assert float(cell.text) == pytest.approx(v.mean(), abs=0.00051)
            assert float(cell.aside.removeprefix("± ")) == pytest.approx(half, abs=0.00051)
            tied = method != best and stats.ttest_rel(v, held[best]).pvalue >= 0.05
            assert cell.mark is (Mark.BEST if method == best else Mark.TIED if tied else Mark.NONE)


def test_the_two_effects_are_told_apart(records: list[Record], made: report.Page) -> None:
    means = {m: f"{values(records, m, 'test', 'NLL').mean():.3f}" for m in METHODS}
    text = said(made)
    assert (
        f"takes NLL from {means['map_only']} (MAP) to {means['amortized_control']} by "
        f"regularization alone; drift alone takes it to {means['drift']}."
    ) in text
    assert f"from {means['map_only']} (MAP) to {means['drift']} (drift)" in text
    assert f"0.559 at K = 1, 0.521 at K = 4 and {means['sampled']} at K = 6" in text


def test_the_best_calibrated_is_named_with_its_likelihood(records: list[Record]) -> None:
    """What guesses at random is calibrated too, and must not pass for good."""

    def uniform(record: Record) -> Record:
        if record.method != "pretrained":
            return record
        test = dict(record.metrics["test"])
        test["NLL"], test["ECE"] = ({**test[m], "value": v} for m, v in (("NLL", 9.5), ("ECE", 0)))
        return replace(record, metrics={**record.metrics, "test": test})

    text = said(page([uniform(r) for r in records]))
    assert "the smallest ECE is of pretrained (0.000), at an NLL of 9.500" in text


def test_regvars_standing_counts_columns(records: list[Record], made: report.Page) -> None:
    """Sampled is best everywhere in the made-up records."""
    assert "in 4 of 4 for NLL, in 4 of 4 for ECE" in said(made)
    assert "in 4 for ECE among the methods whose NLL is no worse than MAP's" in said(made)
    without = page([r for r in records if r.method not in ("sampled", "amortized")])
    assert "in 0 of 4 for NLL" in said(without)
    assert "3 seeds tell only large differences: ties mean little" in said(made)
    assert "ties mean little" not in said(page(study.records(seeds=range(4))))


def test_one_variance_for_all_outputs_stands_beside_equation_20(records: list[Record]) -> None:
    table = next(t for t in page(records).tables if t.name == "shared-minilm-film")
    assert [(c.group, c.label) for c in table.columns] == [
        (metric, reading) for metric in ("NLL", "ECE") for reading in ("Eq. 20", "one variance")
    ]
    row = next(row for row in table.rows if row.label == "drift")
    means = [
        sum(r.metrics["test"][m]["value"] for r in records if r.method == "drift") / 3
        for m in ("NLL", "ECE")
    ]
    found = [float(cell.text) for cell in row.cells]
    assert found == [round(means[0], 3), 0.293, round(means[1], 3), 0.01]
    old = [replace(r, extra={**r.extra, "shared": None}) for r in records]
    assert not any(t.name.startswith("shared") for t in page(old).tables)


def test_an_ece_that_uniform_predictions_win_is_counted_without_them_too() -> None:
    """ECE falls from seed to seed alike in all methods, so that every difference is significant."""

    def scored(record: Record) -> Record:
        nll, ece = (9.5, 0.0) if record.method == "pretrained" else (1.0, 0.2)
        if record.method in ("sampled", "map_only"):
            nll, ece = (0.5, 0.1) if record.method == "sampled" else (1.0, 0.3)
        values = {"NLL": nll, "ECE": ece + 0.01 * record.seed}
        metrics = {
            split: {m: {**e, "value": values.get(m, e["value"])} for m, e in held.items()}
            for split, held in record.metrics.items()
        }
        return replace(record, metrics=metrics)

    text = said(page([scored(record) for record in study.records()]))
    assert "in 4 of 4 for NLL, in 0 of 4 for ECE" in text
    assert "in 4 for ECE among the methods whose NLL is no worse than MAP's" in text
    assert "for both in 0 of 1 cell, and among those methods in 1." in text


@pytest.mark.parametrize("kind", list(CELLS))
def test_a_page_is_one_file_that_fetches_nothing(kind: str, tmp_path: Path) -> None:
    found = study.records(CELLS[kind], seeds=(0, 1))
    html = report.write(page(found), tmp_path).read_text(encoding="utf-8")
    seen: Found = read(html)
    assert not seen.unclosed
    fetched = [
        a.get("src", a.get("href", "")) for t in ("img", "script", "link") for a in seen.all(t)
    ]
    assert all(source.startswith("data:") for source in fetched)
    if kind == "texts":
        assert "one <b>very</b> fine" not in html and "&lt;b&gt;very&lt;/b&gt;" in html
    if kind == "images":
        pictures = [s for s in fetched if s.startswith("data:image/png;base64,")]
        assert len(pictures) >= 8
    if kind == "language":
        assert len(re.findall(r"<span[^>]*>\s?winter</span>", html)) > 0


def test_the_papers_table_is_printed_beside_its_stand_in() -> None:
    made = page(study.records(("smollm2-wikitext",)))
    text = " ".join(
        c.whole for t in made.tables for g in t.groups for row in g.rows for c in row.cells
    )
    for printed in ("1.143 ± 0.021", "1.383 ± 0.027", "0.019 ± 0.000"):  # RegVar, MAP; ECE
        assert printed in text
    assert "None of these networks is the paper's" in said(made)


def test_records_of_several_studies_are_refused() -> None:
    mixed = study.records(("minilm-film", "vit-cifar10"), seeds=(0,))
    with pytest.raises(DataError, match="one fine-tuned study, but they are of 2"):
        page(mixed)
