"""What a fit has left behind, read as a stranger would: from its files alone."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regvar.finetuning import Finetuned, Settings, finetune
from tests.finetuning import tiny


@dataclass(frozen=True)
class Fit:
    """A finished run."""

    settings: Settings
    made: Finetuned
    said: tuple[str, ...]

    @property
    def directory(self) -> Path:
        return self.made.directory

    @property
    def metrics(self) -> dict[str, Any]:
        return json.loads((self.directory / "metrics.json").read_text(encoding="utf-8"))

    @property
    def card(self) -> dict[str, Any]:
        return json.loads((self.directory / "run.json").read_text(encoding="utf-8"))

    @property
    def test(self) -> list[dict[str, str]]:
        return tiny.written(self.directory / "test.csv")

    @property
    def html(self) -> str:
        return (self.directory / "report.html").read_text(encoding="utf-8")


def fit(settings: Settings, out: Path) -> Fit:
    """Run it."""
    said: list[str] = []
    return Fit(settings, finetune(settings, out, said.append), tuple(said))


def nll(rows: list[dict[str, str]]) -> float:
    """Minus the mean log probability of the labels, in plain Python."""
    return -math.fsum(math.log(float(row[f"probability_{row['label']}"])) for row in rows) / len(
        rows
    )


def tree(root: Path) -> set[str]:
    """Everything below a folder."""
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def numbers(row: dict[str, str]) -> dict[str, float]:
    """The columns of a row that hold numbers."""
    return {k: float(v) for k, v in row.items() if k not in ("text", "file", "label", "predicted")}
