"""Reliability diagrams: accuracy against confidence, bin by bin, and how much each bin holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regvar.plots import style
from regvar.plots.style import Look

Z_95 = 1.96
FEWEST = 5  # data of a bin whose accuracy is drawn: of fewer the Wald interval says nothing
_WIDTH = 0.012  # by which the series of a panel stand beside each other, in confidence


@dataclass(frozen=True)
class Bins:
    """One series: everything is [bins]; a bin without data is left out."""

    label: str
    confidence: Sequence[float]  # mean of the bin
    accuracy: Sequence[float]
    count: Sequence[float]

    @property
    def held(self) -> list[tuple[float, float, float]]:
        """Confidence, accuracy and count of the bins that hold data."""
        rows = zip(self.confidence, self.accuracy, self.count, strict=True)
        return [(c, a, n) for c, a, n in rows if n > 0]

    @property
    def told(self) -> list[tuple[float, float, float]]:
        """The same of the bins that hold enough."""
        return [row for row in self.held if row[2] >= FEWEST]


@dataclass(frozen=True)
class ReliabilityPanel:
    """Series that share axes."""

    title: str
    series: Sequence[Bins]


def wald(accuracy: float, count: float) -> float:
    """Half the width of a proportion's 95 % interval, 1.96 √(p (1 − p)/n).

    >>> from regvar.plots import reliability
    >>> round(reliability.wald(0.5, 100), 3)
    0.098
    """
    return Z_95 * math.sqrt(accuracy * (1 - accuracy) / count)


def reliability(
    panels: Sequence[ReliabilityPanel], looks: Mapping[str, Look], columns: int = 3
) -> Figure:
    """Accuracy with 95 % Wald bars over confidence, and each bin's share of the data below.

    Bins of fewer than five have their share drawn alone.

    Args:
        panels: side by side.
        looks: by the series' labels.
        columns: panels a row.
    """
    columns = max(1, min(columns, len(panels)))
    low = _lowest(panels)
    with style.quiet():
        drawn = style.panels(len(panels), columns, (2.9, 3.5))
        for place, (axis, panel) in enumerate(zip(drawn.axes, panels, strict=True)):
            shares = axis.inset_axes((0.0, -0.38, 1.0, 0.2))
            _draw_ideal(axis, low)
            for number, bins in enumerate(panel.series):
                aside = (number - (len(panel.series) - 1) / 2) * _WIDTH * (1 - low)
                _draw_series(axis, bins, looks[bins.label], aside)
                _draw_shares(shares, bins, looks[bins.label], aside)
            axis.set_title(panel.title)
            axis.set_xticklabels([])
            shares.set_xlim(axis.get_xlim())
            shares.set_ylim(0, None)
            shares.set_xlabel("confidence")
            if place % columns == 0:
                axis.set_ylabel("accuracy")
                shares.set_ylabel("share")
        style.legend(drawn.figure, drawn.axes)
    return drawn.figure


def _lowest(panels: Sequence[ReliabilityPanel]) -> float:
    """A round number below all that is drawn: classifiers of two classes start at one half."""
    held = [
        min(confidence, accuracy - wald(accuracy, count))
        for panel in panels
        for bins in panel.series
        for confidence, accuracy, count in bins.told
    ]
    return max(0.0, math.floor(min(held, default=0.0) * 10) / 10)


def _draw_ideal(axis: Axes, low: float) -> None:
    ideal = (0, (4, 2))
    axis.plot([low, 1], [low, 1], color=style.TRUTH, lw=0.9, ls=ideal, label="ideal", zorder=1)
    room = 0.04 * (1 - low)
    axis.set_xlim(low - room, 1 + room)
    axis.set_ylim(low - room, 1 + room)
    axis.grid(visible=True)
    axis.set_axisbelow(True)


def _draw_series(axis: Axes, bins: Bins, look: Look, aside: float) -> None:
    axis.errorbar(
        [confidence + aside for confidence, _, _ in bins.told],
        [accuracy for _, accuracy, _ in bins.told],
        yerr=[wald(accuracy, count) for _, accuracy, count in bins.told],
        color=look.color,
        marker=look.marker,
        ls=look.dashes,
        lw=1.1,
        ms=4,
        elinewidth=0.9,
        capsize=1.8,
        label=bins.label,
    )


def _draw_shares(axis: Axes, bins: Bins, look: Look, aside: float) -> None:
    total = sum(count for _, _, count in bins.held)
    for confidence, _, count in bins.held:
        axis.plot([confidence + aside] * 2, [0, count / total], color=look.color, lw=2.2)
