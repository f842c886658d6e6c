"""Records → tables, figures and one self-contained page; never touches a model."""

from regvar.report.comparison import Score, Spread, compare, marks, spread
from regvar.report.excerpts import Beside, Excerpt, Excerpts, Gallery, Picture, Token
from regvar.report.markdown import markdown
from regvar.report.page import Code, Figure, Items, Page, Section, Text, render, write
from regvar.report.tables import Cell, Column, Mark, Row, RowGroup, Table, number, plain

__all__ = [
    "Beside",
    "Cell",
    "Code",
    "Column",
    "Excerpt",
    "Excerpts",
    "Figure",
    "Gallery",
    "Items",
    "Mark",
    "Page",
    "Picture",
    "Row",
    "RowGroup",
    "Score",
    "Section",
    "Spread",
    "Table",
    "Text",
    "Token",
    "compare",
    "markdown",
    "marks",
    "number",
    "plain",
    "render",
    "spread",
    "write",
]
