"""Records as a table for a terminal."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from regvar.records import Record

Columns = Mapping[str, tuple[str, str]]  # heading → split, metric


def summary(found: Sequence[Record], columns: Columns) -> str:
    """Each method's scores, cell by cell, as means over seeds; with them the audit's, if any."""
    blocks: list[str] = []
    for cell in dict.fromkeys(r.cell for r in found):
        held = [r for r in found if r.cell == cell and r.metrics]
        audited = any("audit" in r.extra for r in held)
        rows = [["", *columns, *(["rank with truth"] if audited else [])]]
        for method in dict.fromkeys(r.method for r in held):
            ours = [r for r in held if r.method == method]
            scores = [_mean(ours, *place) for place in columns.values()]
            rows.append([method, *scores, *([_rank(ours)] if audited else [])])
        blocks.append(f"\n{cell}\n{_aligned(rows)}")
    return "\n".join(blocks)


def _mean(held: Sequence[Record], split: str, metric: str) -> str:
    return f"{statistics.fmean(r.metrics[split][metric]['value'] for r in held):.3f}"


def _rank(held: Sequence[Record]) -> str:
    ranks = [r.extra["audit"]["rank_correlation"] for r in held]
    known = [rank for rank in ranks if rank is not None]
    return f"{statistics.fmean(known):+.2f}" if known else "-"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines: list[str] = []
    for row in rows:
        numbers = [text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([f"  {row[0].ljust(widths[0])}", *numbers]))
    return "\n".join(lines)
