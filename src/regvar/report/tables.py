"""A table once, written as Markdown, LaTeX or HTML from the same cells."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from regvar.errors import require
from regvar.report import escape

MISSING = "–"  # a cell without a number


class Mark(Enum):
    """How a cell stands among those it is compared with."""

    NONE = ""
    BEST = "best"
    TIED = "tied"


@dataclass(frozen=True)
class Cell:
    """What is read in one place of a table."""

    text: str
    aside: str = ""  # set smaller, after the text: an interval, a count
    mark: Mark = Mark.NONE

    @property
    def whole(self) -> str:
        """Text and aside."""
        return f"{self.text} {self.aside}".strip()


@dataclass(frozen=True)
class Column:
    """One column; neighbors of the same group share a heading above theirs."""

    label: str
    group: str = ""


@dataclass(frozen=True)
class Row:
    """One row and its heading."""

    label: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class RowGroup:
    """Rows that belong together, under a heading of their own where there is one."""

    rows: tuple[Row, ...]
    label: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns, with the notes it takes to read them.

    >>> from regvar.report import Cell, Column, Mark, Row, RowGroup, Table
    >>> cells = (Cell("0.52", "± 0.02", Mark.BEST), Cell("0.56", "± 0.03", Mark.TIED))
    >>> print(Table("nll", "Two tasks.", "method", (Column("ID"), Column("OOD")),
    ...             (RowGroup((Row("sampled", cells),)),)).markdown())
    Two tasks.
    <BLANKLINE>
    | method | ID | OOD |
    | :-- | --: | --: |
    | sampled | **0.52 ± 0.02** | 0.56 ± 0.03 ≈ |
    """

    name: str  # of its files: letters, digits and hyphens
    caption: str
    corner: str  # the heading over the rows' headings
    columns: tuple[Column, ...]
    groups: tuple[RowGroup, ...]
    notes: tuple[str, ...] = ()
    wordy: bool = False  # cells hold words, which are set from the left and may break

    def __post_init__(self) -> None:
        width = len(self.columns)
        for row in self.rows:
            held = len(row.cells)
            require(held == width, f"row {row.label!r}", f"as wide as its table, {width}", held)

    @property
    def rows(self) -> tuple[Row, ...]:
        """Of all groups, from the top."""
        return tuple(row for group in self.groups for row in group.rows)

    @property
    def spans(self) -> list[tuple[str, int]]:
        """The headings over the columns' headings, each with the columns that it spans."""
        runs = itertools.groupby(self.columns, key=lambda column: column.group)
        return [(label, len(list(run))) for label, run in runs]

    @property
    def grouped(self) -> bool:
        """Whether there are headings over the columns' headings."""
        return any(column.group for column in self.columns)

    def markdown(self) -> str:
        """Best cells bold, tied ones followed by ≈; a group's heading is a row of its own."""
        heads = [" ".join(filter(None, (c.group, c.label))) for c in self.columns]
        align = [":--", *(":--" if self.wordy else "--:" for _ in self.columns)]
        lines = [[escape.markdown(text) for text in (self.corner, *heads)], align]
        for group in self.groups:
            if group.label:
                lines.append([f"*{escape.markdown(group.label)}*", *("" for _ in self.columns)])
            lines += [
                [escape.markdown(r.label), *(_markdown_cell(c) for c in r.cells)]
                for r in group.rows
            ]
        table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        notes = [escape.markdown(note) for note in self.notes]
        return "\n\n".join([escape.markdown(self.caption), table, *notes])

    def latex(self) -> str:
        """A `table` of the booktabs package; best cells bold, tied ones followed by ≈."""
        columns = "l" + ("l" if self.wordy else "r") * len(self.columns)
        notes = [rf"\par\smallskip\footnotesize {escape.latex(note)}" for note in self.notes]
        return "\n".join(
            [
                r"\begin{table}",
                r"\centering",
                rf"\caption{{{escape.latex(self.caption)}}}",
                rf"\label{{tab:{self.name}}}",
                rf"\begin{{tabular}}{{{columns}}}",
                r"\toprule",
                *self._latex_head(),
                *self._latex_body(),
                r"\bottomrule",
                r"\end{tabular}",
                *notes,
                r"\end{table}",
            ]
        )

    def _latex_head(self) -> Iterator[str]:
        if self.grouped:
            rules: list[str] = []
            heads: list[str] = []
            first = 2
            for label, width in self.spans:
                heads.append(rf"\multicolumn{{{width}}}{{c}}{{{escape.latex(label)}}}")
                if label:
                    rules.append(rf"\cmidrule(lr){{{first}-{first + width - 1}}}")
                first += width
            yield " & ".join(["", *heads]) + r" \\"
            yield " ".join(rules)
        labels = (self.corner, *(column.label for column in self.columns))
        yield " & ".join(escape.latex(label) for label in labels) + r" \\"

    def _latex_body(self) -> Iterator[str]:
        for group in self.groups:
            yield r"\midrule"
            if group.label:
                width = len(self.columns) + 1
                yield rf"\multicolumn{{{width}}}{{l}}{{\emph{{{escape.latex(group.label)}}}}} \\"
            for row in group.rows:
                cells = [escape.latex(row.label), *(_latex_cell(cell) for cell in row.cells)]
                yield " & ".join(cells) + r" \\"


def number(value: float, decimals: int = 3) -> str:
    """A number to read: a real minus sign, powers of ten where figures would be too many.

    >>> from regvar.report import tables
    >>> tables.number(-0.88415, 3), tables.number(1234567.0, 1), tables.number(float("nan"))
    ('−0.884', '1.2e+06', '–')
    """
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:.{decimals}f}" if abs(value) < 1e5 else f"{value:.1e}"
    if float(text) == 0:
        text = text.removeprefix("-")
    return text.replace("-", "−", 1) if text.startswith("-") else text


def plain(rows: Sequence[tuple[str, Sequence[str]]]) -> tuple[RowGroup, ...]:
    """One group of rows without marks, from their headings and texts."""
    return (RowGroup(tuple(Row(label, tuple(map(Cell, texts))) for label, texts in rows)),)


def _markdown_cell(cell: Cell) -> str:
    text = escape.markdown(cell.whole)
    if cell.mark is Mark.BEST:
        return f"**{text}**"
    return f"{text} ≈" if cell.mark is Mark.TIED else text


def _latex_cell(cell: Cell) -> str:
    text = escape.latex(cell.whole)
    if cell.mark is Mark.BEST:
        # \mathbf alone would leave the signs thin.
        return rf"\textbf{{\boldmath {text}}}"
    return rf"{text} $\approx$" if cell.mark is Mark.TIED else text
