"""Two effects told apart: training that goes on, and regularization."""

from __future__ import annotations

from collections.abc import Sequence

from regvar.experiments.finetuned.page_tables import LOWER, name_of
from regvar.experiments.finetuned.page_values import (
    METHODS,
    Study,
    draws,
    fewer_draws,
    fewer_metric,
    mean_metric,
)
from regvar.report import Column, Score, Table, compare
from regvar.report.comparison import ByMethod, BySeed

SINGLE = ("map_only", "drift", "amortized", "amortized_control")
DIFFERENCES = (
    ("drift", "map_only"),
    ("amortized", "map_only"),
    ("amortized", "drift"),
    ("amortized_control", "map_only"),
    ("sampled", "map_only"),
    ("sampled", "drift"),
    ("sampled", "amortized"),
)


def variants(study: Study, cell: str, splits: Sequence[str], metric: str) -> dict[str, BySeed]:
    """What is told apart: MAP, drift, amortized with and without its control, sampled by K."""
    held = study.values(cell, mean_metric(splits, metric))
    found = {method: held[method] for method in SINGLE if method in held}
    for count in fewer_draws(study, cell):
        by = study.values(cell, fewer_metric(count, splits, metric)).get("sampled")
        if by:
            found[f"sampled-{count}"] = by
    if "sampled" in held:
        found["sampled"] = held["sampled"]
    return found


def labels(study: Study, cell: str) -> dict[str, str]:
    """The rows of `effects_table`, in order."""
    present = study.methods_of(cell)
    found = {method: METHODS[method] for method in SINGLE if method in present}
    found |= {f"sampled-{k}": f"sampled, K = {k}" for k in fewer_draws(study, cell)}
    if "sampled" in present:
        count = draws(study, cell)
        found["sampled"] = METHODS["sampled"] + (f", K = {count}" if count else "")
    return found


def effects_table(study: Study, cell: str) -> Table:
    """Training that goes on and regularization, told apart."""
    columns = {
        Column(label, metric): held
        for metric in ("NLL", "ECE")
        for label, splits in study.sets(cell).items()
        if (held := variants(study, cell, splits, metric))
    }
    return compare(
        name_of("effects", cell),
        f"{study.cells[cell]}. What each step of RegVar does to NLL and ECE.",
        columns,
        labels(study, cell),
        LOWER,
    )


def differences(study: Study, cell: str) -> Table:
    """The same as differences of NLL, seed by seed."""
    named = labels(study, cell)
    pairs = {f"{a}-{b}": (a, b) for a, b in DIFFERENCES if a in named and b in named}
    columns: dict[Column, ByMethod] = {}
    for label, splits in study.sets(cell).items():
        held = variants(study, cell, splits, "NLL")
        found = {
            key: {seed: held[a][seed] - held[b][seed] for seed in held[a] if seed in held[b]}
            for key, (a, b) in pairs.items()
            if a in held and b in held
        }
        if found:
            columns[Column(label)] = found
    return compare(
        name_of("differences", cell),
        f"{study.cells[cell]}. Differences of NLL, seed by seed (below zero: the first is better).",
        columns,
        {key: f"{named[a]}, less {named[b]}" for key, (a, b) in pairs.items()},
        Score(3),
    )
