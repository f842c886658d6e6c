"""Intervals of many quantities, one panel per method: which of them contain zero?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from regvar.plots import style


@dataclass(frozen=True)
class IntervalPanel:
    """One method's intervals, center ± half width: everything is [quantities]."""

    title: str
    centers: Sequence[float]
    half_widths: Sequence[float]


def intervals(panels: Sequence[IntervalPanel], names: Sequence[str], xlabel: str) -> Figure:
    """Panels below each other, in the order of the centers; those that contain zero are hollow.

    Args:
        panels: one per method, of the same quantities.
        names: of the quantities.
        xlabel: what they are.
    """
    order = sorted(range(len(names)), key=lambda i: panels[0].centers[i])
    places = list(range(len(order)))
    with style.quiet():
        drawn = style.panels(len(panels), 1, (8.6, 1.45), sharex=True, sharey=True)
        for number, (axis, panel) in enumerate(zip(drawn.axes, panels, strict=True)):
            look = style.look(number)
            axis.axhline(0.0, color=style.FAINT, lw=0.7)
            for place, index in zip(places, order, strict=True):
                center, half = panel.centers[index], panel.half_widths[index]
                hollow = abs(center) <= half
                axis.errorbar(
                    place,
                    center,
                    yerr=half,
                    color=look.color,
                    marker=look.marker,
                    mfc=style.PAPER if hollow else look.color,
                    ms=4,
                    lw=1.1,
                    capsize=1.5,
                )
            axis.set_title(panel.title)
            axis.margins(x=0.01)
        last = drawn.axes[-1]
        last.set_xticks(places, [names[i] for i in order], rotation=90, fontsize=7)
        last.set_xlabel(xlabel)
    return drawn.figure
