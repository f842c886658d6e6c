"""Keep every file and function small enough to be read in one sitting.

At most 300 lines a file and 60 a function, tests included; no file whose name says nothing.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

FILE_LINES = 300
FUNCTION_LINES = 60
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "misc", "common"}


def functions(tree: ast.Module) -> Iterator[tuple[str, int, int]]:
    """Name, first line and length of every function, methods and inner ones included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1


def offenses(root: Path) -> Iterator[str]:
    """One line for each place in the project at `root` that is over budget."""
    for folder in ("src", "tests", "tools", "benchmarks"):
        for path in sorted((root / folder).rglob("*.py")):
            where = path.relative_to(root)
            if path.stem in VAGUE_NAMES:
                yield f"{where}: the name says nothing of what is inside"
            yield from _too_long(path, where)


def _too_long(path: Path, where: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    lines = len(text.splitlines())
    if lines > FILE_LINES:
        yield f"{where}: {lines} lines, {FILE_LINES} allowed"
    for name, first, length in functions(ast.parse(text)):
        if length > FUNCTION_LINES:
            yield f"{where}:{first}: {name} has {length} lines, {FUNCTION_LINES} allowed"


def main(root: Path) -> int:
    """Print the offenders; 1 when there are any."""
    found = list(offenses(root))
    print("\n".join(found) or "size budget: kept")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).parents[1]))
