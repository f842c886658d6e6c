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


def home(thing: object) -> str | None:
    """Where a class or function is defined; `None` for anything else."""
    if inspect.isclass(thing) or inspect.isroutine(thing):
        return f"{thing.__module__}.{thing.__qualname__}"
    return None


def explained(thing: object) -> bool:
    """Whether somebody wrote a docstring for it."""
    text = inspect.cleandoc(thing.__doc__ or "")
    generated = inspect.isclass(thing) and text.startswith(f"{thing.__name__}(")
    return bool(text) and not generated


def gaps(package: ModuleType, documented: set[str]) -> Iterator[str]:
    """One line for each public class or function that is not explained.

    An entry names the place of definition: where a function and its module share a name, as
    `sampled` does, the shorter path would be read as the module.
    """
    for name in package.__all__:
        thing = getattr(package, name)
        path = home(thing)
        if path is None:
            continue
        if not explained(thing):
            yield f"{package.__name__}.{name}: no docstring"
        if path not in documented:
            yield f"{package.__name__}.{name}: no `::: {path}` in docs/reference"


def main(root: Path) -> int:
    """Print the gaps; 1 when there are any."""
    import regvar

    found = list(gaps(regvar, entries(root / "docs" / "reference")))
    print("\n".join(found) or f"documented: all {len(regvar.__all__)} public names")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).parents[1]))
