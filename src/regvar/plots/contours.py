"""A score over λ and the variance scale: filled contours, and lines along which scale ∝ λ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regvar.plots import style

_STEPS = 8
_DECADES = 2.0  # of the scale shown above and below the best ones
_EDGE = 0.07  # of the width, on either side
_STRONGEST = 0.8  # opacity where the score is smallest


@dataclass(frozen=True)
class Surface:
    """One panel: a score at every λ and variance scale, smaller being better."""

    title: str
    lam: Sequence[float]  # [λ], two or more, positive, ascending
    scales: Sequence[float]  # [scales], two or more, positive, ascending
    scores: Sequence[Sequence[float]]  # [λ, scales]

    @property
    def best(self) -> list[float]:
        """The best scale of each λ."""
        return [self.scales[row.index(min(row))] for row in map(list, self.scores)]

    @property
    def chosen(self) -> tuple[float, float]:
        """The λ and the scale of the smallest score of all."""
        least = [min(row) for row in self.scores]
        place = least.index(min(least))
        return self.lam[place], self.best[place]

    @property
    def window(self) -> slice:
        """The scales that are shown: far from the best ones nothing changes any more."""
        low, high = min(self.best) / 10**_DECADES, max(self.best) * 10**_DECADES
        inside = [place for place, scale in enumerate(self.scales) if low <= scale <= high]
        return slice(inside[0], inside[-1] + 1)


def contours(
    panels: Sequence[Surface], labels: tuple[str, str] = ("λ", "variance scale"), columns: int = 3
) -> Figure:
    """Each panel's score, the stronger the smaller; a ring where it is smallest.

    Dots are the best scale of each λ. Dashed lines are parallel to the identity: where the score's
    lines follow them, the best scale grows as λ does.

    Args:
        panels: side by side.
        labels: of the x and the y axis.
        columns: panels a row.
    """
    with style.quiet():
        drawn = style.panels(len(panels), columns, (3.4, 3.1))
        for place, (axis, panel) in enumerate(zip(drawn.axes, panels, strict=True)):
            axis.set_xscale("log")
            axis.set_yscale("log")
            _draw_surface(axis, panel)
            _draw_identity(axis, panel)
            axis.set_title(panel.title)
            axis.set_xlabel(labels[0])
            if place % columns == 0:
                axis.set_ylabel(labels[1])
        style.legend(drawn.figure, drawn.axes)
    return drawn.figure


def levels(least: float, most: float) -> list[float]:
    """From the least to the most, closer to each other near the least.

    >>> from regvar.plots import contours
    >>> contours.levels(0.0, 64.0)
    [0.0, 1.0, 4.0, 9.0, 16.0, 25.0, 36.0, 49.0, 64.0]
    """
    return [least + (most - least) * (step / _STEPS) ** 2 for step in range(_STEPS + 1)]


def _draw_surface(axis: Axes, panel: Surface) -> None:
    scales = panel.scales[panel.window]
    rows = [row[panel.window] for row in panel.scores]
    score = [list(column) for column in zip(*rows, strict=True)]  # [scales, λ]
    least, most = min(map(min, score)), max(map(max, score))
    if most > least:
        steps = levels(least, most)
        fills = [
            (style.LINE, _STRONGEST * (1 - step / _STEPS) ** 2) for step in range(len(steps) - 1)
        ]
        axis.contourf(panel.lam, scales, score, levels=steps, colors=fills)
        lines = axis.contour(
            panel.lam, scales, score, levels=steps[1:-1], colors=style.FAINT, linewidths=0.6
        )
        named = axis.clabel(lines, steps[2:-1:2], fontsize=6.5, fmt="%.3g", colors=style.INK)
        for text in named:  # the frame would cut these
            across = math.log(text.get_position()[0] / panel.lam[0])
            if not _EDGE < across / math.log(panel.lam[-1] / panel.lam[0]) < 1 - _EDGE:
                text.remove()
    ink = style.INK
    for drawn in (
        *axis.plot(panel.lam, panel.best, "o", color=ink, ms=3.5, label="best scale of each λ"),
        *axis.plot(*panel.chosen, "o", mec=ink, mfc="none", mew=1.5, ms=10, label="smallest"),
    ):
        drawn.set(clip_on=False, zorder=4)  # the first and the last λ lie on the frame
    axis.set_xlim(panel.lam[0], panel.lam[-1])
    axis.set_ylim(scales[0], scales[-1])
    axis.margins(0.0)


def _draw_identity(axis: Axes, panel: Surface) -> None:
    scales = panel.scales[panel.window]
    low, high = scales[0] / panel.lam[-1], scales[-1] / panel.lam[0]  # of scale / λ
    for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        axis.plot(
            panel.lam,
            [lam * 10.0**power for lam in panel.lam],
            color=style.FAINT,
            lw=0.8,
            ls=(0, (4, 3)),
            label="scale ∝ λ",
            scalex=False,
            scaley=False,
        )
