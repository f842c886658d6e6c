"""Mean ± 2 standard deviations of one-dimensional regressions, panel beside panel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from torch import Tensor

from regvar.plots import style


@dataclass(frozen=True)
class Panel:
    """One method's curve: everything is [points]."""

    title: str
    note: str
    mean: Tensor
    std: Tensor


def draw_bands(
    path: Path,
    grid: Tensor,
    panels: Sequence[Panel],
    data: tuple[Tensor, Tensor],
    reference: Tensor,
    columns: int = 3,
) -> None:
    """Write a figure of all panels to `path`.

    Args:
        path: a PNG or SVG file.
        grid: the x of the curves, [points].
        panels: one per method.
        data: training x and y.
        reference: the standard deviation drawn dashed in every panel (the exact one).
        columns: panels a row.
    """
    rows = -(-len(panels) // columns)
    with plt.style.context(style.STYLE):
        figure, axes = plt.subplots(
            rows,
            columns,
            figsize=(3.4 * columns, 2.5 * rows),
            sharex=True,
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        flat: list[Axes] = list(axes.reshape(-1))
        for axis, panel in zip(flat, panels, strict=False):
            _draw_panel(axis, grid, panel, data, reference)
        for axis in flat[len(panels) :]:
            axis.set_axis_off()
        low = float(data[1].min()) - 2.2
        high = float(data[1].max()) + 2.2
        flat[0].set_ylim(low, high)
        handles, labels = flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        figure.savefig(path)
        plt.close(figure)


def _draw_panel(
    axis: Axes, grid: Tensor, panel: Panel, data: tuple[Tensor, Tensor], reference: Tensor
) -> None:
    x = grid.tolist()
    low, high = panel.mean - 2 * panel.std, panel.mean + 2 * panel.std
    axis.fill_between(
        x, low.tolist(), high.tolist(), color=style.BAND, lw=0, label="mean ± 2 sd of the method"
    )
    for sign in (-2, 2):
        edge = (panel.mean + sign * reference).tolist()
        label = "± 2 sd of the exact GGN" if sign > 0 else None
        axis.plot(x, edge, color=style.TRUTH, lw=0.9, ls=(0, (4, 2)), label=label)
    axis.plot(x, panel.mean.tolist(), color=style.LINE, lw=1.3, label="network")
    axis.scatter(
        data[0].tolist(), data[1].tolist(), s=4, color=style.INK, zorder=3, label="data", lw=0
    )
    axis.set_title(panel.title)
    axis.text(0.02, 0.02, panel.note, transform=axis.transAxes, fontsize=7.5, va="bottom")
