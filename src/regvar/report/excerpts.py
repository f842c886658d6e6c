"""Held-out examples for a person to look at: texts, shaded token by token, and pictures."""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass

from regvar.errors import require

_PNG = b"\x89PNG\r\n\x1a\n"
_HEADER = 24  # bytes up to the end of width and height


@dataclass(frozen=True)
class Token:
    """A piece of a text and how strongly it is shaded.

    >>> from regvar import report
    >>> report.Token(" sat", 0.7, "1.2 nats").shade
    0.7
    """

    text: str  # with its spaces
    shade: float  # 0, as the page, to 1
    title: str = ""  # its numbers, shown where a pointer rests on it

    def __post_init__(self) -> None:
        require(0.0 <= self.shade <= 1.0, "shade", "in [0, 1]", self.shade)

    @property
    def space(self) -> str:
        """What stands before its first letter, not shaded; nothing where all of it is blank."""
        return self.text[: len(self.text) - len(self.text.lstrip())] if self.text.strip() else ""

    @property
    def letters(self) -> str:
        """The rest of it."""
        return self.text[len(self.space) :]


@dataclass(frozen=True)
class Excerpt:
    """One text and what is to be said of it."""

    body: str | tuple[Token, ...]
    heading: str = ""  # such as its label
    aside: str = ""  # such as the confidence: set smaller, after the heading
    correct: bool | None = None  # None: nothing is right or wrong about it

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The pieces; none of a plain text."""
        return () if isinstance(self.body, str) else self.body


@dataclass(frozen=True)
class Excerpts:
    """A titled list of texts."""

    title: str
    excerpts: tuple[Excerpt, ...]
    note: str = ""
    ends: tuple[str, str] = ("", "")  # what shade 0 and shade 1 are; shown where there are tokens

    @property
    def shaded(self) -> bool:
        """Whether any of the texts has tokens."""
        return any(excerpt.tokens for excerpt in self.excerpts)


@dataclass(frozen=True)
class Picture:
    """One picture, what it shows for those who cannot see it, and what is to be said of it."""

    png: bytes
    alt: str
    caption: str = ""
    aside: str = ""
    correct: bool | None = None

    def __post_init__(self) -> None:
        found = self.png[: len(_PNG)]
        whole = found == _PNG and len(self.png) >= _HEADER
        require(whole, "png", "the bytes of a PNG file", found)
        require(bool(self.alt.strip()), "alt", "words", self.alt)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        width, height = struct.unpack(">II", self.png[16:_HEADER])
        return width, height

    @property
    def link(self) -> str:
        """The picture inside its own address."""
        return "data:image/png;base64," + base64.b64encode(self.png).decode("ascii")


@dataclass(frozen=True)
class Gallery:
    """Pictures in a grid, as many side by side as there is room for."""

    title: str
    pictures: tuple[Picture, ...]
    note: str = ""


@dataclass(frozen=True)
class Beside:
    """Examples that are compared: side by side where there is room, else below each other."""

    parts: tuple[Excerpts | Gallery, ...]
