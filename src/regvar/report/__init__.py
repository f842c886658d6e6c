"""Records → tables, figures and one self-contained page; never touches a model."""

from regvar.report.comparison import Score, Spread, compare, marks, spread
from regvar.report.page import Code, Figure, Items, Page, Section, Text, render, write
from regvar.report.tables import Cell, Column, Mark, Row, RowGroup, Table, number, plain

__all__ = [
    "Cell",
    "Code",
    "Column",
    "Figure",
    "Items",
    "Mark",
    "Page",
    "Row",
    "RowGroup",
    "Score",
    "Section",
    "Spread",
    "Table",
    "Text",
    "compare",
    "marks",
    "number",
    "plain",
    "render",
    "spread",
    "write",
]
