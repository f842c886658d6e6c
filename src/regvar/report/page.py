"""A page: sections of text, tables and figures, written as one HTML file that needs no other.

Beside it lie its tables in Markdown and LaTeX and its figures in PNG and SVG. The same page gives
the same bytes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import matplotlib.figure
from jinja2 import Environment, PackageLoader, StrictUndefined

from regvar.errors import require
from regvar.plots import files, style
from regvar.report import inline
from regvar.report.excerpts import Beside, Excerpts, Gallery
from regvar.report.tables import Mark, Table

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Text:
    """Paragraphs of plain words."""

    paragraphs: tuple[str, ...]


@dataclass(frozen=True)
class Items:
    """A list of short statements."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Code:
    """Lines set as they are: commands, settings."""

    text: str


@dataclass(frozen=True)
class Figure:
    """A drawing, what it says for those who cannot see it, and how to read it."""

    name: str  # of its files: letters, digits and hyphens
    drawing: matplotlib.figure.Figure
    alt: str
    caption: str


Part: TypeAlias = Text | Items | Code | Figure | Table | Excerpts | Gallery | Beside
# The template asks what a part is, not what it has.
_KINDS = {
    kind.__name__: kind for kind in (Text, Items, Code, Figure, Table, Excerpts, Gallery, Beside)
}


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it."""

    title: str
    parts: tuple[Part, ...]

    @property
    def anchor(self) -> str:
        """The title as the target of a link."""
        letters = unicodedata.normalize("NFKD", self.title).encode("ascii", "ignore").decode()
        return re.sub(r"[^a-z0-9]+", "-", letters.lower()).strip("-") or "section"


@dataclass(frozen=True)
class Page:
    """What is written: a lead, then sections.

    >>> from regvar import report
    >>> page = report.Page("Study", ("What was run.",),
    ...                    (report.Section("Results", (report.Text(("None yet.",)),)),))
    >>> '<h2 id="results">Results</h2>' in report.render(page)
    True
    """

    title: str
    lead: tuple[str, ...]
    sections: tuple[Section, ...]

    def __post_init__(self) -> None:
        anchors = [section.anchor for section in self.sections]
        names = [f"{type(p).__name__.lower()} {p.name}" for p in (*self.tables, *self.figures)]
        for argument, held in (("sections", anchors), ("tables and figures", names)):
            twice = sorted({name for name in held if held.count(name) > 1})
            require(not twice, argument, "named once each", twice)
        for part in (*self.tables, *self.figures):
            plain = _NAME.fullmatch(part.name) is not None
            require(plain, "name", "lower-case letters, digits and hyphens", part.name)
        for figure in self.figures:
            require(bool(figure.alt.strip()), f"alt of {figure.name}", "words", figure.alt)

    @property
    def parts(self) -> Iterator[Part]:
        """Of all sections, in order."""
        return (part for section in self.sections for part in section.parts)

    @property
    def tables(self) -> list[Table]:
        """Of all sections, in order."""
        return [part for part in self.parts if isinstance(part, Table)]

    @property
    def figures(self) -> list[Figure]:
        """Of all sections, in order."""
        return [part for part in self.parts if isinstance(part, Figure)]


def render(page: Page) -> str:
    """The page as HTML."""
    return _html(page, {f.name: files.svg(f.drawing) for f in page.figures})


def write(page: Page, directory: Path | str) -> Path:
    """Write report.html, tables/*.md, tables/*.tex, figures/*.png and figures/*.svg.

    Files of the same names are replaced, others left alone. Returns the page's path.
    """
    root = Path(directory)
    drawings = {figure.name: files.svg(figure.drawing) for figure in page.figures}
    for table in page.tables:
        _put(root / "tables" / f"{table.name}.md", table.markdown() + "\n")
        _put(root / "tables" / f"{table.name}.tex", table.latex() + "\n")
    for figure in page.figures:
        _put(root / "figures" / f"{figure.name}.svg", drawings[figure.name])
        (root / "figures" / f"{figure.name}.png").write_bytes(files.png(figure.drawing))
    target = root / "report.html"
    _put(target, _html(page, drawings))
    return target


def _html(page: Page, drawings: dict[str, str]) -> str:
    environment = Environment(
        loader=PackageLoader("regvar.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    pictures = {f.name: inline.svg(drawings[f.name], f.name, f.alt) for f in page.figures}
    return environment.get_template("page.html.j2").render(
        page=page,
        pictures=pictures,
        Mark=Mark,
        is_a=_is_a,
        light=_variables({color: color for color in style.DARK}),
        dark=_variables(style.DARK),
    )


def _is_a(part: object, kind: str) -> bool:
    return isinstance(part, _KINDS[kind])


def _variables(shown: Mapping[str, str]) -> str:
    return " ".join(f"{inline.variable(light)}: {color};" for light, color in shown.items())


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
