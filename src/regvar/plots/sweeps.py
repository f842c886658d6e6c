"""A score along the values of a hyperparameter, over seeds, the chosen values marked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from regvar.plots import style
from regvar.plots.style import Look


@dataclass(frozen=True)
class Curve:
    """One series."""

    label: str
    x: Sequence[float]  # [values tried]
    scores: Sequence[Sequence[float]]  # [seeds, values tried]
    chosen: Sequence[float]  # [seeds]


@dataclass(frozen=True)
class SweepPanel:
    """Curves that share axes."""

    title: str
    curves: Sequence[Curve]


def sweeps(
    panels: Sequence[SweepPanel],
    looks: dict[str, Look],
    labels: tuple[str, str],
    columns: int = 2,
) -> Figure:
    """Mean over seeds as a line, least to most as a band, a ring around what was chosen.

    A ring lies on the value that most seeds chose and says how many did.

    Args:
        panels: side by side.
        looks: by the curves' labels.
        labels: of the x and the y axis.
        columns: panels a row.
    """
    with style.quiet():
        drawn = style.panels(len(panels), columns, (4.4, 2.9))
        for axis, panel in zip(drawn.axes, panels, strict=True):
            for number, curve in enumerate(panel.curves):
                _draw_curve(axis, curve, looks[curve.label], above=number % 2 == 0)
            axis.set_xscale("log")
            axis.xaxis.set_minor_formatter(NullFormatter())  # within a decade they would overlap
            axis.set_title(panel.title)
            axis.set_xlabel(labels[0])
            axis.set_ylabel(labels[1])
            axis.margins(y=0.12 if len(panel.curves) == 1 else 0.22)  # room for a ring below
        style.legend(drawn.figure, drawn.axes)
    return drawn.figure


def _draw_curve(axis: Axes, curve: Curve, look: Look, above: bool) -> None:
    columns = [
        [score for score in column if math.isfinite(score)]
        for column in zip(*curve.scores, strict=True)
    ]
    x = [value for value, column in zip(curve.x, columns, strict=True) if column]
    held = [column for column in columns if column]
    means = [math.fsum(column) / len(column) for column in held]
    axis.fill_between(
        x, [min(c) for c in held], [max(c) for c in held], color=look.color, alpha=0.13, lw=0
    )
    axis.plot(
        x, means, color=look.color, marker=look.marker, ls=look.dashes, label=curve.label, ms=4
    )
    if not curve.chosen:
        return
    most, votes = Counter(curve.chosen).most_common(1)[0]
    place = min(range(len(x)), key=lambda i: abs(math.log(x[i] / most)))
    at = (x[place], means[place])
    axis.plot(*at, marker="o", ms=11, mfc="none", mec=look.color, mew=1.5, ls="none")
    axis.annotate(
        f"{votes}/{len(curve.chosen)}",
        at,
        xytext=(0, 9 if above else -15),
        textcoords="offset points",
        ha="center",
        fontsize=7.5,
        color=look.color,
    )
