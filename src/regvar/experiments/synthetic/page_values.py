"""What the page of the synthetic study reads from its records."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regvar.records import Record
from regvar.report.comparison import ByMethod

TASKS = {
    "quadratic-uniform": "Quadratic",
    "quadratic-inbetween": "Quadratic-Inbetween",
    "sin-uniform": "Sin",
    "sin-inbetween": "Sin-Inbetween",
}
METHODS = {
    "exact_hessian": "exact Hessian",
    "ggn": "GGN",
    "eigenvectors": "eigenvectors",
    "pointwise": "pointwise",
    "sampled": "sampled",
    "amortized_eval": "amortized (evaluation)",
    "amortized_in_sample": "amortized (in-sample)",
    "temperature": "temperature",
    "map_only": "MAP only",
    "parameter": "RegVar (Alg. 3)",
}
MEANINGS = {
    "exact_hessian": "dense inverse of the precision, both terms of Eq. 5",
    "ggn": "the same with the second term of Eq. 5 alone",
    "eigenvectors": "the GGN's top k eigenvectors, k = round(ln dim θ)",
    "pointwise": "RegVar, Algorithm 2: one solve for each input",
    "sampled": "RegVar with random regularizers, this library's recommendation",
    "amortized_eval": "RegVar, Algorithm 1, its regularizer on the evaluation inputs",
    "amortized_in_sample": "RegVar, Algorithm 1, its regularizer on the training inputs (Eq. 16)",
    "temperature": "the same variance everywhere, a control",
    "map_only": "no variance but the observations', a control",
    "parameter": "RegVar for parameters, Algorithm 3 (no predictions)",
}
SPLITS = {"id": "ID", "ood": "OOD"}


@dataclass(frozen=True)
class Study:
    """The records, looked up by what the page asks for."""

    records: Sequence[Record]

    @property
    def seeds(self) -> list[int]:
        """Of all records."""
        return sorted({record.seed for record in self.records})

    @property
    def tasks(self) -> dict[str, str]:
        """Those that were run, with their labels: the paper's first, in its order."""
        return _known(TASKS, {record.cell for record in self.records})

    @property
    def methods(self) -> dict[str, str]:
        """Those that were run and predict, with their labels."""
        return _known(METHODS, {record.method for record in self.records if record.metrics})

    def of(self, task: str, method: str) -> list[Record]:
        """All seeds of one method on one task, in order."""
        found = [r for r in self.records if r.cell == task and r.method == method]
        return sorted(found, key=lambda record: record.seed)

    def values(self, task: str, read: Callable[[Record], float | None]) -> ByMethod:
        """Method → seed → what `read` finds; methods without it are left out."""
        found: dict[str, dict[int, float]] = {}
        for record in self.records:
            if record.cell == task and (value := read(record)) is not None:
                found.setdefault(record.method, {})[record.seed] = value
        return found

    def holders(self, key: str) -> dict[str, str]:
        """The methods some of whose records have this in `extra`, with their labels."""
        return _known(METHODS, {r.method for r in self.records if r.extra.get(key) is not None})


def metric(split: str, name: str) -> Callable[[Record], float | None]:
    """Reads a metric's value."""

    def read(record: Record) -> float | None:
        estimate = record.metrics.get(split, {}).get(name)
        return None if estimate is None else estimate["value"]

    return read


def total(split: str, name: str) -> Callable[[Record], float | None]:
    """Reads a metric's sum over the data, as the paper prints it: value × count."""

    def read(record: Record) -> float | None:
        estimate = record.metrics.get(split, {}).get(name)
        return None if estimate is None else estimate["value"] * estimate["count"]

    return read


def extra(*keys: str) -> Callable[[Record], float | None]:
    """Reads a number of `extra`, or of a mapping in it; a stored null is NaN."""

    def read(record: Record) -> float | None:
        held: Any = record.extra
        for key in keys:
            if not isinstance(held, Mapping) or key not in held:
                return None
            held = held[key]
        return math.nan if held is None else float(held)

    return read


def median(values: Mapping[int, float]) -> float:
    """Of the finite values; NaN when there are none."""
    finite = [value for value in values.values() if math.isfinite(value)]
    return statistics.median(finite) if finite else math.nan


def _known(labels: Mapping[str, str], present: set[str]) -> dict[str, str]:
    first = {name: label for name, label in labels.items() if name in present}
    return first | {name: name for name in sorted(present - first.keys())}
