"""Write the pages of docs/ that are made of records; with --check fail when one is out of date.

docs/measured.md holds the benchmarks, docs/studies/ a page for each experiment of `regvar list`
that has records, and docs/studies/table1.md those of the paper's Table 1 together. --check compares
the words alone: figures are drawn again by every run without it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regvar import experiments, records
from regvar.plots import files
from regvar.records import Record
from regvar.report import Page, markdown

ROOT = Path(__file__).resolve().parent.parent
HEAD = """# Measured

Every figure on this page comes from a record in `records/`, written by the command named beside
it; `python tools/pages.py` writes the page. Machines differ: read times as ratios.
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


def measured(root: Path) -> str:
    """The benchmarks' page."""
    parts = [HEAD]
    for name, section in SECTIONS.items():
        path = root / "records" / f"{name}.json"
        if path.exists():
            parts.append(section(json.loads(path.read_text(encoding="utf-8"))))
    return "\n".join(parts)


def studies(root: Path) -> Iterator[tuple[str, Page]]:
    """One page for each experiment with records, and one over all, under its file's name."""
    everything: list[Record] = []
    for name, experiment in experiments.EXPERIMENTS.items():
        folder = root / "records" / name
        found = records.read(folder) if folder.is_dir() else []
        if found:
            yield name, experiment.page(found)
        everything += found
    together = experiments.overview(everything)
    if together is not None:
        yield "table1", together


def pages(root: Path, draw: bool) -> dict[str, str]:
    """What each page should say, by its path below docs/; with `draw` the figures are written."""
    wanted = {"measured.md": measured(root)}
    for name, page in studies(root):
        wanted[f"studies/{name}.md"] = markdown(page, f"figures/{name}") + "\n"
        for figure in page.figures if draw else ():
            path = root / "docs" / "studies" / "figures" / name / f"{figure.name}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(files.png(figure.drawing))
    return wanted


def main(root: Path, arguments: list[str]) -> int:
    """Write or check."""
    check = "--check" in arguments
    stale: list[str] = []
    for name, text in pages(root, draw=not check).items():
        path = root / "docs" / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        if check:
            stale.append(f"docs/{name} is out of date: run python tools/pages.py")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    print("\n".join(stale) or "pages: as their records say")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(ROOT, sys.argv[1:]))
