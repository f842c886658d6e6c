"""Write docs/measured.md from the records, or with --check fail when the page is out of date."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "measured.md"
HEAD = """# Measured

Every figure on this page comes from a record in `records/`, written by the command named beside
it; `python tools/measured.py` writes the page. Machines differ: read times as ratios.
"""


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def origin(record: dict[str, Any], command: str) -> str:
    """Where a table comes from."""
    versions = record["versions"]
    return (
        f"`{command}`, record `{record['name']}` ({record['config_hash']}), torch "
        f"{versions['torch']}, {record['threads']} threads, {record['seconds']:.0f} s."
    )


def memory(record: dict[str, Any]) -> str:
    """Peaks beside the limit."""
    settings, found = record["settings"], record["results"]
    limit = found["limit_mib"]
    rows = [
        [phase, f"{row['peak_mib']:.0f}", f"{row['peak_mib'] / limit:.2f}"]
        for phase, row in found.items()
        if isinstance(row, dict)
    ]
    return f"""## Memory on a 135 M network

SmolLM2-135M, every parameter uncertain, two-class head, {settings["batch"]} × \
{settings["tokens"]} tokens, sampled with K = {settings["samples"]}; resident memory above what
the imports take, each phase in a process of its own. The limit is four times the float32 weights
({found["load"]["weights_mib"]:.0f} MiB) plus one training step with Adam.

{table(["phase", "peak MiB", "of the limit"], rows)}

{origin(record, "make bench-memory")}
"""


def conditioning(record: dict[str, Any]) -> str:
    """Residuals after a fixed budget."""
    settings, found = record["settings"], record["results"]
    rows = [
        [
            name,
            f"{row['residual']:.3g}",
            row["status"].lower(),
            str(row["preconditioner_products"]),
            f"{row['seconds']:.0f}",
        ]
        for name, row in found.items()
        if isinstance(row, dict)
    ]
    head = ["conjugate gradients", "relative residual", "status", "extra products", "seconds"]
    return f"""## Ill-conditioning on a real network

MiniLM, {found["trainable"] / 1e6:.1f} M trainable parameters, {settings["texts"]} rated film
snippets, prior precision {settings["precision"]}, after {settings["epochs"]} epochs of AdamW: one
posterior draw, {settings["iterations"]} iterations. The residual is ‖P δ − ∇t‖ / ‖∇t‖; conjugate
gradients do not decrease it step by step (they decrease the error in the norm of P), so a value
above one early on is normal, and says that the answer is not to be trusted yet.

{table(head, rows)}

{origin(record, "make bench-conditioning")}
"""


SECTIONS = {"memory-smollm2-135m": memory, "conditioning-minilm": conditioning}


def main() -> int:
    """Write or check."""
    parts = [HEAD]
    for name, section in SECTIONS.items():
        path = ROOT / "records" / f"{name}.json"
        if path.exists():
            parts.append(section(json.loads(path.read_text(encoding="utf-8"))))
    page = "\n".join(parts)
    if "--check" in sys.argv:
        fresh = PAGE.exists() and PAGE.read_text(encoding="utf-8") == page
        if not fresh:
            print("docs/measured.md is out of date: run python tools/measured.py")
        return 0 if fresh else 1
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
