"""One quiet style for every figure: readable in greyscale, few lines, no boxes.

Series differ in color, marker and dashes alike, and the colors in lightness too, so that none is
needed alone. The colors are of Okabe and Ito's palette for color-blind readers, darkened until
they stand out on white; `DARK` has each one's twin for a dark page.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.style import context

INK = "#22272e"
BAND = "#9db8d9"
LINE = "#1f5a99"
FAINT = "#6b7480"
GRID = "#d9dde2"
TRUTH = "#c2551b"
PAPER = "#ffffff"

DARK: dict[str, str] = {
    INK: "#e6e9ed",
    BAND: "#3a5a80",
    LINE: "#7fb2e8",
    FAINT: "#9aa4af",
    GRID: "#353b43",
    TRUTH: "#f0935c",
    PAPER: "#16191d",
    "#0a3f73": "#6da7e0",
    "#b8450a": "#f28e4b",
    "#00795a": "#46c79e",
    "#9a4d7e": "#dd9cc2",
    "#8a6a00": "#e0bd4a",
    "#3a87b7": "#9fd4f5",
    "#555b63": "#b4bbc4",
    "#7a2e2e": "#d98a8a",
    "#4d4a9c": "#a9a6ee",
}


@dataclass(frozen=True)
class Look:
    """How one series is told from the others."""

    color: str
    marker: str
    dashes: Any  # matplotlib's line style


LOOKS: tuple[Look, ...] = (
    Look("#0a3f73", "o", "-"),
    Look("#b8450a", "s", (0, (5, 1.5))),
    Look("#00795a", "^", (0, (1.2, 1.2))),
    Look("#9a4d7e", "D", (0, (6, 1.5, 1.2, 1.5))),
    Look("#8a6a00", "v", (0, (3, 2))),
    Look("#3a87b7", "P", (0, (8, 2))),
    Look("#555b63", "X", (0, (4, 1, 1, 1, 1, 1))),
    Look("#7a2e2e", "<", (0, (2, 1))),
    Look("#4d4a9c", ">", (0, (7, 1, 2, 1))),
)

NARROWEST = 4.0  # inches: room for a legend
LEGEND = 0.3  # inches of height for it
ENTRY = 2.0  # inches of width for each of its entries

STYLE: dict[str, Any] = {
    "figure.dpi": 110,
    "savefig.dpi": 160,
    "svg.fonttype": "path",  # the same on every machine, whatever fonts it has
    "svg.hashsalt": "regvar",
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.edgecolor": FAINT,
    "axes.facecolor": "none",
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": True,
    "figure.facecolor": PAPER,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "text.color": INK,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "axes.grid": False,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
}


def look(index: int) -> Look:
    """Of the series at this place; after the last, from the first again."""
    return LOOKS[index % len(LOOKS)]


def quiet() -> AbstractContextManager[None]:
    """The style alone, whatever the user's own settings, while a figure is drawn or written.

    Both need it: matplotlib reads some settings when an artist is made, others when it is drawn.
    """
    return context(["default", STYLE])


@dataclass(frozen=True)
class Panels:
    """A figure and its axes, from the left and then down."""

    figure: Figure
    axes: tuple[Axes, ...]


def panels(
    count: int,
    columns: int,
    size: tuple[float, float],
    *,
    sharex: bool = False,
    sharey: bool = False,
) -> Panels:
    """A figure with so many empty panels; it belongs to the caller, not to pyplot.

    Args:
        count: panels wanted.
        columns: at most so many side by side.
        size: width and height of one, in inches.
        sharex: the same x limits in all.
        sharey: the same y limits in all.
    """
    columns = max(1, min(columns, count))
    rows = max(1, -(-count // columns))
    engine = ConstrainedLayoutEngine(h_pad=0.08)
    area = (max(size[0] * columns, NARROWEST), size[1] * rows + LEGEND)
    figure = Figure(figsize=area, layout=engine)
    grid = figure.subplots(rows, columns, sharex=sharex, sharey=sharey, squeeze=False)
    axes = tuple(grid.reshape(-1))
    for axis in axes[count:]:
        axis.set_axis_off()
    return Panels(figure, axes[:count])


def legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """One legend below all panels; a label that several have is listed once."""
    entries: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if entries:
        figure.legend(
            list(entries.values()),
            list(entries),
            loc="outside lower center",
            ncols=min(len(entries), 6, int(figure.get_figwidth() / ENTRY)),
            frameon=False,
        )
