"""All fine-tuned studies at a glance: the paper's Table 1, with the stand-ins as its columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from regvar.experiments.finetuned import paper_values
from regvar.experiments.finetuned.page_tables import LOWER
from regvar.experiments.finetuned.page_values import Study, mean_metric
from regvar.experiments.finetuned.page_words import SCORED, effects_of, standing
from regvar.records import Record
from regvar.report import (
    Cell,
    Column,
    Items,
    Mark,
    Page,
    Row,
    RowGroup,
    Section,
    Table,
    Text,
    compare,
    marks,
    number,
    spread,
)
from regvar.report.comparison import ByMethod

MEANING = {
    "NLL": "Mean negative log likelihood of the held-out data, in domain (smaller is better).",
    "ECE": "Expected calibration error in ten bins, in domain (smaller is better). A nearly "
    "uniform prediction has a small one: read it beside the likelihood.",
}


def overview(records: Sequence[Record]) -> Page:
    """What the studies say together; each has a page of its own."""
    study = Study(records)
    tables = tuple(_table(study, metric) for metric in SCORED)
    return Page(
        "Table 1 at a glance",
        (
            "The paper's Table 1 on networks and data that ship inside package registries: one "
            f"column for each of {len(study.cells)} stand-ins, {len(study.records)} records. "
            "Nothing here is the paper's own network; the studies' pages have shifts, figures, "
            "the paper's numbers beside ours, and every setting.",
            standing(study),
        ),
        (
            Section("In domain", (*tables, _ranks(study))),
            Section(
                "Training that goes on, and regularization",
                (
                    Text(
                        (
                            "A refit moves a network for two reasons. Drift is a refit without "
                            "any regularizer; the control subtracts it.",
                        )
                    ),
                    Items(tuple(text for cell in study.cells for text in effects_of(study, cell))),
                ),
            ),
            Section("What stands in for what", (_stand_ins(study),)),
        ),
    )


def _table(study: Study, metric: str) -> Table:
    columns = {
        Column(label): held
        for cell, label in study.cells.items()
        if (held := study.values(cell, mean_metric(("test",), metric)))
    }
    return compare(f"overview-{metric.lower()}", MEANING[metric], columns, study.methods, LOWER)


def _ranks(study: Study) -> Table:
    """Where a method stands among those of a cell, over all cells."""
    heads: list[Column] = []
    texts: dict[str, list[Cell]] = {method: [] for method in study.methods}
    for metric in SCORED:
        heads += [Column("mean rank", metric), Column("best or tied", metric)]
        held = [study.values(cell, mean_metric(("test",), metric)) for cell in study.cells]
        for method, cells in texts.items():
            with_it = [values for values in held if method in values]
            ranks = [_rank(values, method) for values in with_it]
            good = sum(marks(values).get(method, Mark.NONE) is not Mark.NONE for values in with_it)
            cells += [
                Cell(number(spread(ranks).mean, 1)),
                Cell(f"{good} of {len(with_it)}"),
            ]
    rows = tuple(Row(study.methods[method], tuple(cells)) for method, cells in texts.items())
    return Table(
        "overview-ranks",
        "Rank of each method's mean among the methods of a column (1 is best), averaged over the "
        "columns that have it; and in how many it is best or statistically tied.",
        "method",
        tuple(heads),
        (RowGroup(rows),),
    )


def _rank(values: ByMethod, method: str) -> float:
    means = {name: spread(list(by.values())).mean for name, by in values.items()}
    finite: Mapping[str, float] = {k: v for k, v in means.items() if math.isfinite(v)}
    if method not in finite:
        return math.nan
    below = sum(value < finite[method] for value in finite.values())
    equal = sum(value == finite[method] for value in finite.values())
    return below + (equal + 1) / 2


def _stand_ins(study: Study) -> Items:
    return Items(
        tuple(
            f"{label}: stands in for {paper_values.COLUMNS[found.column]}. {found.differs}"
            if (found := paper_values.COUNTERPARTS.get(cell))
            else f"{label}: the paper has nothing like it."
            for cell, label in study.cells.items()
        )
    )
