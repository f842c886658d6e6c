"""Regression tables of the UCI repository."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import torch

from regvar.data.catalogue import SOURCES, choose
from regvar.data.datasets import Table

Lines = list[list[str]]  # a header, then the rows
_SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


@dataclass(frozen=True)
class _Layout:
    """How a table is written down."""

    read: Callable[[Path], Lines]
    target: str


def uci(name: str) -> dict[str, Table]:
    """A table as `all`: protein, power, concrete, wine-red, wine-white, yacht or airfoil."""
    layout = choose(name, LAYOUTS)
    header, *rows = layout.read(SOURCES[f"uci-{name}"].fetch()[0])
    numbers = torch.tensor([[float(v) for v in row] for row in rows], dtype=torch.float64)
    at = header.index(layout.target)
    others = [k for k in range(len(header)) if k != at]
    columns = tuple(header[k] for k in others)
    return {"all": Table(numbers[:, others], numbers[:, at], columns, layout.target)}


def _separated(path: Path, delimiter: str) -> Lines:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.reader(stream, delimiter=delimiter))


def _headless(path: Path, header: str) -> Lines:
    lines = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
    return [header.split(), *(line for line in lines if line)]


def _workbook(path: Path, header: str) -> Lines:
    """The first sheet of a spreadsheet, of which all cells below the header are numbers."""
    with zipfile.ZipFile(path) as book:
        sheet = ElementTree.fromstring(book.read("xl/worksheets/sheet1.xml"))
    rows: Lines = []
    for row in sheet.iter(_SHEET + "row"):
        cells = [cell.findtext(_SHEET + "v") for cell in row.iter(_SHEET + "c")]
        filled = [cell for cell in cells if cell is not None]
        if filled:
            rows.append(filled)
    return [header.split(), *rows[1:]]


LAYOUTS: dict[str, _Layout] = {
    "protein": _Layout(partial(_separated, delimiter=","), "RMSD"),
    "power": _Layout(partial(_workbook, header="AT V AP RH PE"), "PE"),
    "concrete": _Layout(
        partial(
            _workbook,
            header="cement slag fly_ash water superplasticizer coarse fine age strength",
        ),
        "strength",
    ),
    "wine-red": _Layout(partial(_separated, delimiter=";"), "quality"),
    "wine-white": _Layout(partial(_separated, delimiter=";"), "quality"),
    "yacht": _Layout(
        partial(
            _headless,
            header="buoyancy prismatic length_displacement beam_draught length_beam froude "
            "resistance",
        ),
        "resistance",
    ),
    "airfoil": _Layout(
        partial(_headless, header="frequency angle chord velocity thickness pressure"), "pressure"
    ),
}
