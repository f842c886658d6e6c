"""Lines over a common axis, panel beside panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from regvar.plots import style
from regvar.plots.style import Look


@dataclass(frozen=True)
class Line:
    """One series: x and y are [points]."""

    label: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True)
class LinePanel:
    """Lines that share axes."""

    title: str
    lines: Sequence[Line]


def lines(
    panels: Sequence[LinePanel],
    looks: Mapping[str, Look],
    labels: tuple[str, str],
    columns: int = 3,
    marked: bool = True,
) -> Figure:
    """A figure of all panels, each with y limits of its own.

    Args:
        panels: side by side.
        looks: by the lines' labels.
        labels: of the x and the y axis.
        columns: panels a row.
        marked: a marker at every point; without, at a few only, to tell the lines apart.
    """
    columns = max(1, min(columns, len(panels)))
    with style.quiet():
        drawn = style.panels(len(panels), columns, (2.9, 2.5))
        for place, (axis, panel) in enumerate(zip(drawn.axes, panels, strict=True)):
            for line in panel.lines:
                look = looks[line.label]
                every = 1 if marked else max(1, len(line.x) // 6)
                axis.plot(
                    line.x,
                    line.y,
                    color=look.color,
                    marker=look.marker,
                    ls=look.dashes,
                    markevery=every,
                    label=line.label,
                    ms=4,
                )
            axis.set_title(panel.title)
            axis.set_xlabel(labels[0])
            if place % columns == 0:
                axis.set_ylabel(labels[1])
        style.legend(drawn.figure, drawn.axes)
    return drawn.figure
