"""Lists as they are written on a command line."""

from __future__ import annotations

import re

from regvar.errors import ArgumentError


def names(text: str | None) -> list[str] | None:
    """Names between commas; `None` stays `None`.

    >>> from regvar.cli.arguments import names
    >>> names("ggn, sampled")
    ['ggn', 'sampled']
    """
    if text is None:
        return None
    return [part.strip() for part in text.split(",") if part.strip()]


def whole_numbers(text: str) -> list[int]:
    """Seeds and ranges of seeds between commas, both ends of a range included.

    >>> from regvar.cli.arguments import whole_numbers
    >>> whole_numbers("0-2,7")
    [0, 1, 2, 7]
    """
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:\s*-\s*(\d+))?\s*", part)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if low > high:
            raise ArgumentError(
                f"seeds must be whole numbers and ranges such as 0-9 or 0,3,5-7, but are {text!r}."
            )
        found.extend(range(low, high + 1))
    return found
