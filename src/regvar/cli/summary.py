"""Records as a table for a terminal."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from regvar.records import Record

_COLUMNS = (("id", "NLL"), ("id", "PICP"), ("ood", "NLL"), ("ood", "PICP"))


def summary(found: Sequence[Record]) -> str:
    """Each method's scores, cell by cell: means over seeds, and the audit's rank correlation."""
    blocks: list[str] = []
    for cell in dict.fromkeys(r.cell for r in found):
        rows = [["", *(f"{metric} {split}" for split, metric in _COLUMNS), "rank with truth"]]
        held = [r for r in found if r.cell == cell and r.metrics]
        for method in dict.fromkeys(r.method for r in held):
            rows.append(_row(method, [r for r in held if r.method == method]))
        blocks.append(f"\n{cell}\n{_aligned(rows)}")
    return "\n".join(blocks)


def _row(method: str, held: Sequence[Record]) -> list[str]:
    scores = [
        statistics.fmean(r.metrics[split][metric]["value"] for r in held)
        for split, metric in _COLUMNS
    ]
    ranks = [r.extra["audit"]["rank_correlation"] for r in held]
    known = [rank for rank in ranks if rank is not None]
    rank = f"{statistics.fmean(known):+.2f}" if known else "-"
    return [method, *(f"{score:.3f}" for score in scores), rank]


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines: list[str] = []
    for row in rows:
        numbers = [text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([f"  {row[0].ljust(widths[0])}", *numbers]))
    return "\n".join(lines)
