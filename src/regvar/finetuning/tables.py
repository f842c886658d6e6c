"""Columns of answers as a CSV or JSON lines file, and as a short table for a terminal."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from pathlib import Path

from regvar.errors import ArgumentError
from regvar.finetuning.answers import Columns, Value

SUFFIXES = (".csv", ".jsonl")
_WIDEST = 48  # letters of a text in a terminal


def require_target(path: Path) -> None:
    """Refuse a file of a kind that is not written, and a directory."""
    if path.suffix.lower() not in SUFFIXES:
        raise ArgumentError(
            f"out must end in {' or '.join(SUFFIXES)}, but it is {path.name!r}. Rename it."
        )
    if path.is_dir():
        raise ArgumentError(f"out must be a file, but {str(path)!r} is a directory. Rename it.")


def write(columns: Columns, path: Path) -> None:
    """All rows, whole or not at all; numbers with all the digits that single precision has."""
    require_target(path)
    text = _csv(columns) if path.suffix.lower() == ".csv" else _json_lines(columns)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".partial-")
    fresh = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
        fresh.chmod(0o644)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def head(columns: Columns, count: int = 5) -> str:
    """The first rows, in columns that line up.

    >>> print(head({"text": ["fine", "bad"], "confidence": [0.97531, 0.5]}))
    text  confidence
    fine       0.975
    bad        0.500
    """
    cells = {name: [_short(v) for v in values[:count]] for name, values in columns.items()}
    widths = {name: max(map(len, [name, *held])) for name, held in cells.items()}
    texts = {name for name, values in columns.items() if all(isinstance(v, str) for v in values)}

    def line(row: dict[str, str]) -> str:
        placed = (
            cell.ljust(widths[name]) if name in texts else cell.rjust(widths[name])
            for name, cell in row.items()
        )
        return "  ".join(placed).rstrip()

    rows = [
        {n: held[i] for n, held in cells.items()} for i in range(len(next(iter(cells.values()))))
    ]
    return "\n".join(map(line, [{name: name for name in cells}, *rows]))


def _short(value: Value) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}"
    words = " ".join(str(value).split())
    return words if len(words) <= _WIDEST else words[: _WIDEST - 1] + "…"


def _csv(columns: Columns) -> str:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow([f"{v:.9g}" if isinstance(v, float) else v for v in row])
    return stream.getvalue()


def _json_lines(columns: Columns) -> str:
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
