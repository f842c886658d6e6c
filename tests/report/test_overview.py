"""The page over several studies, on made-up records whose numbers are known."""

from __future__ import annotations

from scipy.stats import rankdata

from regvar import experiments
from regvar.experiments.finetuned.cells import METHODS
from regvar.records import Record
from regvar.report import Mark, Page, Table
from tests.report import finetuned_study as study

CELLS = ("minilm-film", "smollm2-wikitext", "vit-cifar10")


def made(found: list[Record]) -> Page:
    page = experiments.overview(found)
    assert page is not None
    return page


def table(page: Page, name: str) -> Table:
    return next(t for t in page.tables if t.name == name)


def test_one_study_alone_has_no_overview() -> None:
    assert experiments.overview([]) is None
    assert experiments.overview(study.records(("minilm-film",))) is None


def test_each_cell_is_a_column_with_the_means_of_its_records() -> None:
    found = study.records(CELLS)
    for metric in ("NLL", "ECE"):
        held = table(made(found), f"overview-{metric.lower()}")
        assert len(held.columns) == len(CELLS)
        assert len(held.rows) == len(METHODS)
        for cell, label in (
            ("minilm-film", "MiniLM on film snippets"),
            ("smollm2-wikitext", "SmolLM2-135M on WikiText-2, next token"),
        ):
            place = [column.label for column in held.columns].index(label)
            values = [
                r.metrics["test"][metric]["value"]
                for r in found
                if (r.cell, r.method) == (cell, "drift")
            ]
            row = next(row for row in held.rows if row.label == "drift")
            assert float(row.cells[place].text) == round(sum(values) / 3, 3)


def test_ranks_are_those_of_scipy_averaged_over_cells() -> None:
    found = study.records(CELLS)
    expected = dict.fromkeys(METHODS, 0.0)
    for cell in CELLS:
        means = [
            sum(
                r.metrics["test"]["NLL"]["value"]
                for r in found
                if (r.cell, r.method) == (cell, method)
            )
            for method in METHODS
        ]
        for method, rank in zip(METHODS, rankdata(means), strict=True):
            expected[method] += rank / len(CELLS)
    held = table(made(found), "overview-ranks")
    for method, row in zip(METHODS, held.rows, strict=True):
        assert float(row.cells[0].text) == round(expected[method], 1)
    best = next(row for row in held.rows if row.label == "sampled")
    assert best.cells[1].text == "3 of 3"


def test_a_method_that_a_cell_does_without_is_judged_by_the_others() -> None:
    found = [
        r
        for r in study.records(CELLS)
        if (r.cell, r.method) != ("smollm2-wikitext", "gradient_norm")
    ]
    held = table(made(found), "overview-ranks")
    row = next(row for row in held.rows if row.label == "gradient norm")
    assert row.cells[1].text.endswith("of 2")
    likelihoods = table(made(found), "overview-nll")
    absent = next(row for row in likelihoods.rows if row.label == "gradient norm")
    assert [cell.mark for cell in absent.cells if cell.text == "–"] == [Mark.NONE]
