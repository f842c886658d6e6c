"""WikiText-2 (Merity et al., 2017), the raw version, as whole articles."""

from __future__ import annotations

import gzip

from regvar.data.catalogue import SOURCES
from regvar.data.datasets import Texts


def wikitext2() -> dict[str, Texts]:
    """The 600, 60 and 60 articles of `train`, `validation` and `test`, not labeled."""
    names = ("train", "validation", "test")
    found: dict[str, Texts] = {}
    for name, path in zip(names, SOURCES["wikitext-2"].fetch(), strict=True):
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as stream:
            found[name] = Texts(articles(stream.read()))
    return found


def articles(text: str) -> tuple[str, ...]:
    r"""The articles of a file, each from its title to the next one's, word for word.

    A title is ` = Title = ` between blank lines; two or more signs on either side are a section's,
    and the same sign inside a paragraph is part of a formula or a table.

    >>> articles(" \n = A = \n \n On A . \n = no title = \n \n = = Part = = \n \n = B = \n \n ")
    (' = A = \n \n On A . \n = no title = \n \n = = Part = = \n \n', ' = B = \n \n ')
    """
    lines = text.split("\n")
    starts = [
        i
        for i in range(1, len(lines) - 1)
        if _is_title(lines[i]) and not lines[i - 1].strip() and not lines[i + 1].strip()
    ]
    ends = [*starts[1:], None]
    bodies = ["\n".join(lines[a:b]) for a, b in zip(starts, ends, strict=True)]
    return tuple(body + "\n" for body in bodies[:-1]) + tuple(bodies[-1:])


def _is_title(line: str) -> bool:
    inside = line.strip()
    return (
        inside.startswith("= ")
        and inside.endswith(" =")
        and not inside.startswith("= =")
        and not inside.endswith("= =")
        and len(inside) > len("= =")
    )
