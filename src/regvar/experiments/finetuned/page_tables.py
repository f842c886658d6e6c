"""Tables of the fine-tuned studies: scores, the paper's beside them, tuning, cost."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from regvar.experiments.finetuned import paper_values
from regvar.experiments.finetuned.page_values import (
    SETTINGS,
    Study,
    mean_metric,
)
from regvar.experiments.synthetic.page_values import extra, median
from regvar.metrics.estimate import Z_95
from regvar.records import Record
from regvar.report import Cell, Column, Row, RowGroup, Score, Table, compare, number, plain, spread
from regvar.report.comparison import ONE_SEED
from regvar.report.tables import MISSING

LOWER = Score(3, lambda value: value)
HIGHER = Score(3, lambda value: -value)
SHIFT = {
    "AUROC of shift": "total",
    "AUROC of shift, epistemic": "epistemic",
    "AUROC of shift, variance": "variance",
}


@dataclass(frozen=True)
class Kind:
    """Metrics that are better in the same direction and share a table."""

    name: str
    caption: str
    metrics: Mapping[str, str]  # as records name them, with the columns' group
    score: Score


KINDS = (
    Kind(
        "likelihood",
        "Mean negative log likelihood and expected calibration error (smaller is better).",
        {"NLL": "NLL", "ECE": "ECE"},
        LOWER,
    ),
    Kind(
        "brier",
        "Brier score, and calibration error in ten bins of equal counts (smaller is better).",
        {"Brier": "Brier", "adaptive ECE": "adaptive ECE"},
        LOWER,
    ),
    Kind(
        "accuracy",
        "Accuracy, and how well total uncertainty tells errors: AUROC (larger is better).",
        {"accuracy": "accuracy", "AUROC of errors": "AUROC of errors"},
        HIGHER,
    ),
    Kind(
        "selective",
        "Area under the risk–coverage curve, the most certain kept first (smaller is better).",
        {"AURC": "AURC"},
        LOWER,
    ),
    Kind(
        "shift",
        "How well uncertainty tells a shifted input from one of the test set: AUROC (larger is "
        "better; 0.5 is chance), by total uncertainty, by its epistemic part, and by the variance "
        "of the outputs.",
        SHIFT,
        HIGHER,
    ),
)


def name_of(kind: str, cell: str) -> str:
    """A name for files."""
    return f"{kind}-" + re.sub(r"[^a-z0-9]+", "-", cell.lower()).strip("-")


def scores(study: Study, cell: str) -> tuple[Table, ...]:
    """All tables of a cell; those that nothing was recorded for are left out."""
    return tuple(table for kind in KINDS if (table := _scored(study, cell, kind)) is not None)


def _scored(study: Study, cell: str, kind: Kind) -> Table | None:
    columns = {
        Column(label, group): held
        for metric, group in kind.metrics.items()
        for label, splits in study.sets(cell).items()
        if (held := study.values(cell, mean_metric(splits, metric)))
    }
    if not columns:
        return None
    several = [label for label, splits in study.sets(cell).items() if len(splits) > 1]
    notes = [f"Means over all strengths: {', '.join(several)}."] if several else []
    return compare(
        name_of(kind.name, cell),
        f"{study.cells[cell]}. {kind.caption}",
        columns,
        study.methods_of(cell),
        kind.score,
        notes=notes,
    )


def beside_paper(study: Study, cell: str) -> Table | None:
    """Our NLL and ECE in domain beside the paper's, method by method."""
    counterpart = paper_values.COUNTERPARTS.get(cell)
    if counterpart is None:
        return None
    ours, theirs = study.cells[cell], paper_values.COLUMNS[counterpart.column]
    columns = {
        Column("ours", metric): study.values(cell, mean_metric(("test",), metric))
        for metric in paper_values.PRINTED
    }
    made = compare(
        name_of("paper", cell),
        f"Ours: {ours}, a stand-in. Paper: {theirs}, as printed.",
        columns,
        study.methods_of(cell),
        LOWER,
        notes=(
            counterpart.differs,
            "The paper's ± is Wald's 95 % interval over the data of one run"
            + ("." if len(study.seeds) > 1 else ", and so is ours, which has one seed.")
            + " Marks compare our values with each other alone.",
        ),
    )
    rows = tuple(
        Row(row.label, tuple(_paired(study, cell, method, row, counterpart.column)))
        for method, row in zip(study.methods_of(cell), made.rows, strict=True)
    )
    heads = tuple(
        Column(label, metric) for metric in paper_values.PRINTED for label in ("ours", "paper")
    )
    notes = tuple(note for note in made.notes if note != ONE_SEED)  # it has intervals of its own
    return replace(made, columns=heads, groups=(RowGroup(rows),), notes=notes)


def _paired(study: Study, cell: str, method: str, row: Row, column: str) -> list[Cell]:
    """Our cells of a row, each followed by the paper's."""
    cells: list[Cell] = []
    for ours, (metric, printed) in zip(row.cells, paper_values.PRINTED.items(), strict=True):
        found = printed.get(method, {}).get(column)
        theirs = Cell(MISSING) if found is None else Cell(found.value, f"± {found.half_width}")
        held = study.of(cell, method)
        cells += [_over_data(ours, held[0], metric) if len(study.seeds) == 1 else ours, theirs]
    return cells


def _over_data(cell: Cell, record: Record, metric: str) -> Cell:
    """With the interval over the data, for want of seeds."""
    error = record.metrics.get("test", {}).get(metric, {}).get("standard_error", math.nan)
    return cell if math.isnan(error) else replace(cell, aside=f"± {number(Z_95 * error, 3)}")


def settings(study: Study) -> Table:
    """What was chosen on validation data."""
    rows: list[tuple[str, list[str]]] = []
    for method, label in study.methods.items():
        texts: list[str] = []
        for cell in study.cells:
            held = study.of(cell, method)
            scales = study.values(cell, extra("scale")).get(method, {})
            texts += [_chosen(held), _range(scales)]
        rows.append((label, texts))
    heads = tuple(
        Column(label, group)
        for group in study.cells.values()
        for label in ("setting (seeds)", "variance scale")
    )
    return Table(
        "settings",
        "What validation likelihood chose: settings with the number of seeds that chose them, and "
        "the variance scale, median over seeds (least to most).",
        "method",
        heads,
        plain(rows),
        ("Scales are in each method's own units and are not compared between methods.",),
        wordy=True,
    )


def _chosen(held: Sequence[Record]) -> str:
    texts = [
        ", ".join(f"{SETTINGS.get(k, k)} = {_brief(v)}" for k, v in chosen.items())
        for record in held
        if (chosen := record.extra.get("settings"))
    ]
    counted = {text: texts.count(text) for text in sorted(set(texts))}
    return "; ".join(f"{text} ({count})" for text, count in counted.items()) or MISSING


def _brief(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _range(values: Mapping[int, float]) -> str:
    finite = [value for value in values.values() if math.isfinite(value)]
    if not finite:
        return MISSING
    if len(finite) == 1:
        return f"{finite[0]:.3g}"
    return f"{median(values):.3g} ({min(finite):.3g} to {max(finite):.3g})"


def cost(study: Study) -> Table:
    """Where the time went."""
    heads: list[Column] = []
    texts: dict[str, list[Cell]] = {method: [] for method in study.methods}
    for cell, label in study.cells.items():
        heads += [Column("fit", label), Column("a setting", label), Column("inference", label)]
        for method, cells in texts.items():
            held = study.of(cell, method)
            tried = [max(1, len(record.extra.get("trials") or ())) for record in held]
            fits = [record.seconds.get("fit", math.nan) for record in held]
            each = [fit / count for fit, count in zip(fits, tried, strict=True)]
            scored = [record.seconds.get("inference", math.nan) for record in held]
            cells += [spread(seconds).cell(1) for seconds in (fits, each, scored)]
    memory = {
        method: max((r.peak_mib for r in study.records if r.method == method), default=math.nan)
        for method in texts
    }
    rows = [
        Row(study.methods[method], (*cells, Cell(number(memory[method], 0))))
        for method, cells in texts.items()
    ]
    return Table(
        "cost",
        "Seconds a record: mean over seeds ± half the width of its 95 % interval.",
        "method",
        (*heads, Column("peak MiB")),
        (RowGroup(tuple(rows)),),
        (
            "Fit: all settings tried, and their calibration. Inference: all held-out sets. Peak "
            "MiB is the most resident memory that the process had reached by then.",
        ),
    )
