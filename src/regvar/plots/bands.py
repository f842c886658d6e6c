"""Mean ± 2 standard deviations of one-dimensional regressions, panel beside panel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regvar.plots import style

Numbers: TypeAlias = Sequence[float] | Tensor  # [points]
ROOM = 2.2  # of y shown beyond the data: bands far outside them are cut


@dataclass(frozen=True)
class Panel:
    """One method's curve: everything is [points]."""

    title: str
    note: str
    mean: Numbers
    std: Numbers


def bands(
    grid: Numbers,
    panels: Sequence[Panel],
    data: tuple[Numbers, Numbers],
    reference: Numbers,
    exact: str = "exact GGN",
    columns: int = 3,
) -> Figure:
    """A figure of all panels.

    Args:
        grid: the x of the curves, [points].
        panels: one per method.
        data: training x and y.
        reference: the standard deviation drawn dashed in every panel (the exact one).
        exact: what to call it.
        columns: panels a row.
    """
    x, observed = _floats(grid), (_floats(data[0]), _floats(data[1]))
    truth = _floats(reference)
    with style.quiet():
        drawn = style.panels(len(panels), columns, (3.1, 2.4), sharex=True, sharey=True)
        for axis, panel in zip(drawn.axes, panels, strict=True):
            _draw_panel(axis, x, panel, observed, (truth, exact))
        drawn.axes[0].set_ylim(min(observed[1]) - ROOM, max(observed[1]) + ROOM)
        drawn.axes[0].set_xlim(min(x), max(x))
        style.legend(drawn.figure, drawn.axes)
    return drawn.figure


def _draw_panel(
    axis: Axes,
    x: list[float],
    panel: Panel,
    data: tuple[list[float], list[float]],
    reference: tuple[list[float], str],
) -> None:
    mean, std = _floats(panel.mean), _floats(panel.std)
    low = [m - 2 * s for m, s in zip(mean, std, strict=True)]
    high = [m + 2 * s for m, s in zip(mean, std, strict=True)]
    axis.fill_between(x, low, high, color=style.BAND, lw=0, label="mean ± 2 sd of the method")
    truth, name = reference
    for sign in (-2, 2):
        edge = [m + sign * s for m, s in zip(mean, truth, strict=True)]
        label = f"± 2 sd of the {name}" if sign > 0 else None
        axis.plot(x, edge, color=style.TRUTH, lw=0.9, ls=(0, (4, 2)), label=label)
    axis.plot(x, mean, color=style.LINE, lw=1.3, label="network")
    axis.scatter(*data, s=5, color=style.INK, zorder=3, label="data", lw=0)
    axis.set_title(panel.title)
    axis.text(0.02, 0.02, panel.note, transform=axis.transAxes, fontsize=7.5, va="bottom")


def _floats(values: Numbers) -> list[float]:
    return values.tolist() if isinstance(values, Tensor) else [float(v) for v in values]
