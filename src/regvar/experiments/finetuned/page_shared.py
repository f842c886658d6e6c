"""Eq. 20 beside its form with one variance for all outputs of an input."""

from __future__ import annotations

from collections.abc import Callable

from regvar.experiments.finetuned.page_tables import HIGHER, LOWER, name_of
from regvar.experiments.finetuned.page_values import Study, mean_metric
from regvar.records import Record
from regvar.report import Column, Score, Table, compare

KINDS: tuple[tuple[str, str, tuple[str, ...], Score], ...] = (
    ("shared", "NLL and ECE (smaller is better).", ("NLL", "ECE"), LOWER),
    ("shared-accuracy", "Accuracy (larger is better).", ("accuracy",), HIGHER),
)


def tables(study: Study) -> tuple[Table, ...]:
    """Both readings of each cell that has both, of the seeds that have both."""
    return tuple(
        compare(
            name_of(name, cell),
            f"{study.cells[cell]}. {caption}",
            columns,
            study.methods_of(cell),
            score,
        )
        for cell in study.cells
        for name, caption, metrics, score in KINDS
        if (columns := _columns(study, cell, metrics))
    )


def _columns(
    study: Study, cell: str, metrics: tuple[str, ...]
) -> dict[Column, dict[str, dict[int, float]]]:
    found: dict[Column, dict[str, dict[int, float]]] = {}
    for metric in metrics:
        alike = study.values(cell, _shared(metric))
        each = study.values(cell, mean_metric(("test",), metric))
        if alike:
            found[Column("Eq. 20", metric)] = {
                method: {seed: each[method][seed] for seed in by} for method, by in alike.items()
            }
            found[Column("one variance", metric)] = {m: dict(by) for m, by in alike.items()}
    return found


def _shared(metric: str) -> Callable[[Record], float | None]:
    def read(record: Record) -> float | None:
        held = (record.extra.get("shared") or {}).get("test", {}).get(metric)
        return None if held is None else float(held["value"])

    return read
