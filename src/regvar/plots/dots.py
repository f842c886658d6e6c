"""One row per method: every seed a faint dot, their mean and interval a strong one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from regvar.plots import style
from regvar.plots.style import Look


@dataclass(frozen=True)
class DotRow:
    """One method's values."""

    label: str
    values: Sequence[float]  # [seeds]
    mean: float
    half_width: float  # of the interval around the mean; NaN draws none


@dataclass(frozen=True)
class DotPanel:
    """Rows that are compared with each other."""

    title: str
    rows: Sequence[DotRow]
    reference: float | None = None  # drawn as a dashed line


def dots(
    panels: Sequence[DotPanel],
    looks: dict[str, Look],
    xlabel: str,
    reference: str,
    columns: int = 4,
    limits: tuple[float, float] | None = None,
    log: bool = False,
) -> Figure:
    """Panels of rows; each panel has all labels, so that rows line up.

    Args:
        panels: side by side.
        looks: by the rows' labels.
        xlabel: what the values are.
        reference: what the dashed line is.
        columns: panels a row.
        limits: of x in every panel; each panel's own where there are none.
        log: x by powers of ten.
    """
    labels = list(dict.fromkeys(row.label for panel in panels for row in panel.rows))
    size = (2.6, 0.85 + 0.24 * len(labels))
    with style.quiet():
        shared = limits is not None
        drawn = style.panels(len(panels), columns, size, sharex=shared, sharey=True)
        for axis in drawn.axes[-columns:]:
            axis.set_xlabel(xlabel)
        for axis, panel in zip(drawn.axes, panels, strict=True):
            for row in panel.rows:
                _draw_row(axis, row, labels.index(row.label), looks[row.label])
            if panel.reference is not None:
                axis.axvline(
                    panel.reference, color=style.TRUTH, lw=0.9, ls=(0, (4, 2)), label=reference
                )
            if log:
                _by_powers(axis)
            axis.set_title(panel.title)
            axis.grid(visible=True, axis="x")
            axis.set_axisbelow(True)
            axis.tick_params(axis="y", length=0, labelcolor=style.INK)
            axis.spines["left"].set_visible(False)
        first = drawn.axes[0]
        first.set_yticks(range(len(labels)), labels)
        first.set_ylim(len(labels) - 0.4, -0.6)
        if limits is not None:
            first.set_xlim(limits)
        style.legend(drawn.figure, drawn.axes)
    return drawn.figure


def _by_powers(axis: Axes) -> None:
    axis.set_xscale("log", nonpositive="clip")
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())


def _draw_row(axis: Axes, row: DotRow, place: int, look: Look) -> None:
    places = [place] * len(row.values)
    axis.scatter(row.values, places, s=12, marker=look.marker, color=look.color, alpha=0.3, lw=0)
    axis.errorbar(
        row.mean,
        place,
        xerr=None if row.half_width != row.half_width else row.half_width,
        color=look.color,
        marker=look.marker,
        ms=5.5,
        lw=1.4,
        capsize=2.5,
    )
