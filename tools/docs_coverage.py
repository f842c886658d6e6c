"""Fail when a public name is not explained: no docstring, or no entry in docs/reference.

Public names are those of `regvar.__all__`. A dataclass's generated signature is no docstring.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

ENTRY = re.compile(r"^::: *([\w.]+)", re.MULTILINE)


def entries(reference: Path) -> set[str]:
    """The names that the reference pages document, each as the whole dotted path."""
    pages = sorted(reference.glob("*.md"))
    return {name for page in pages for name in ENTRY.findall(page.read_text(encoding="utf-8"))}


def explained(thing: object) -> bool:
    """Whether somebody wrote a docstring for it."""
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return True  # a constant's type has the docstring, not the constant
    text = inspect.cleandoc(thing.__doc__ or "")
    return bool(text) and not text.startswith(f"{thing.__name__}(")


def gaps(package: ModuleType, documented: set[str]) -> Iterator[str]:
    """One line for each public name that is not explained, and for each entry of nothing."""
    names = [name for name in package.__all__ if not name.startswith("__")]
    for name in names:
        if not explained(getattr(package, name)):
            yield f"{package.__name__}.{name}: no docstring"
        if f"{package.__name__}.{name}" not in documented:
            yield f"{package.__name__}.{name}: no `::: {package.__name__}.{name}` in docs/reference"
    for name in sorted(documented - {f"{package.__name__}.{name}" for name in names}):
        if name.count(".") == 1:
            yield f"{name}: in docs/reference, but not public"


def main(root: Path) -> int:
    """Print the gaps; 1 when there are any."""
    import regvar

    found = list(gaps(regvar, entries(root / "docs" / "reference")))
    print("\n".join(found) or f"documented: all {len(regvar.__all__)} public names")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).parents[1]))
