"""Figures draw the numbers that they were given."""

from __future__ import annotations

import math
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.container import ErrorbarContainer

from regvar.plots import files, style
from regvar.plots.bands import Panel, bands
from regvar.plots.contours import Surface, contours
from regvar.plots.dots import DotPanel, DotRow, dots
from regvar.plots.intervals import IntervalPanel, intervals
from regvar.plots.reliability import Bins, ReliabilityPanel, reliability
from regvar.plots.sweeps import Curve, SweepPanel, sweeps

X = [0.0, 0.5, 1.0]
DATA = ([0.1, 0.9], [1.0, 2.0])


def line(axis: Axes, label: str) -> Any:
    return next(drawn for drawn in axis.lines if drawn.get_label() == label)


def bar(container: ErrorbarContainer) -> tuple[float, float]:
    """The ends of an error bar."""
    (segment,) = container.lines[2][0].get_segments()
    return tuple(np.asarray(segment).max(0) - np.asarray(segment).min(0))


def test_bands_are_mean_and_two_standard_deviations() -> None:
    panels = [Panel("a", "note", [1.0, 2.0, 1.5], [0.1, 0.2, math.nan]), Panel("b", "", X, X)]
    figure = bands(X, panels, DATA, [0.3, 0.3, 0.3], "exact one")
    first = figure.axes[0]
    assert first.get_title(loc="left") == "a"
    assert [t.get_text() for t in first.texts] == ["note"]
    assert list(line(first, "network").get_ydata()) == [1.0, 2.0, 1.5]
    assert np.allclose(line(first, "± 2 sd of the exact one").get_ydata(), [1.6, 2.6, 2.1])
    filled, data = first.collections
    corners = filled.get_paths()[0].vertices
    assert {(0.0, 0.8), (0.0, 1.2), (0.5, 1.6), (0.5, 2.4)} <= {
        (round(float(a), 9), round(float(b), 9)) for a, b in corners
    }
    assert np.allclose(np.asarray(data.get_offsets()), np.transpose(DATA))


def test_tensors_and_lists_are_drawn_alike() -> None:
    grid, std = torch.tensor(X, dtype=torch.float64), torch.full((3,), 0.3, dtype=torch.float64)
    train = (torch.tensor(DATA[0]).double(), torch.tensor(DATA[1]).double())
    drawn = bands(grid, [Panel("a", "", grid, std)], train, std)
    listed = bands(X, [Panel("a", "", X, [0.3] * 3)], DATA, [0.3] * 3)
    data = [round(v, 6) for v in train[0].tolist()]
    assert data == DATA[0]
    assert files.png(drawn) == files.png(listed)


def test_sweeps_draw_the_mean_and_ring_the_choice() -> None:
    x = [0.01, 0.1, 1.0]
    scores = [[1.0, 0.0, 3.0], [3.0, 1.0, math.inf], [2.0, 0.5, 5.0]]
    curve = Curve("a", x, scores, [0.1, 0.1, 0.01])
    figure = sweeps([SweepPanel("task", [curve])], {"a": style.look(0)}, ("σ²", "NLL"))
    axis = figure.axes[0]
    assert axis.get_xscale() == "log"
    assert list(line(axis, "a").get_xdata()) == x
    assert np.allclose(line(axis, "a").get_ydata(), [2.0, 0.5, 4.0])  # infinity left out
    ring = next(drawn for drawn in axis.lines if drawn.get_markersize() == 11)
    assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (0.1, 0.5)
    assert [t.get_text() for t in axis.texts] == ["2/3"]


def test_intervals_are_in_order_and_hollow_over_zero() -> None:
    panels = [IntervalPanel("a", [2.0, -1.0, 0.5], [0.5, 0.25, 1.0])]
    figure = intervals(panels, ["7", "8", "9"], "index")
    axis = figure.axes[0]
    assert [t.get_text() for t in axis.get_xticklabels()] == ["8", "9", "7"]
    containers = [c for c in axis.containers if isinstance(c, ErrorbarContainer)]
    centers = [float(c.lines[0].get_ydata()[0]) for c in containers]
    assert centers == [-1.0, 0.5, 2.0]
    assert [bar(c)[1] for c in containers] == [0.5, 2.0, 1.0]
    faces = [to_hex(c.lines[0].get_markerfacecolor()) for c in containers]
    assert [face == style.PAPER for face in faces] == [False, True, False]


def test_dots_draw_every_seed_the_mean_and_the_interval() -> None:
    rows = [DotRow("a", [1.0, 2.0, 3.0], 2.0, 0.7), DotRow("b", [5.0], 5.0, math.nan)]
    looks = {"a": style.look(0), "b": style.look(1)}
    figure = dots([DotPanel("t", rows, 4.0), DotPanel("u", rows[1:])], looks, "error", "before")
    first, second = figure.axes
    seeds = [c for c in first.collections if isinstance(c, PathCollection)]
    assert [np.asarray(c.get_offsets()).tolist() for c in seeds] == [
        [[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]],
        [[5.0, 1.0]],
    ]
    held = [c for c in first.containers if isinstance(c, ErrorbarContainer)]
    assert [float(c.lines[0].get_xdata()[0]) for c in held] == [2.0, 5.0]
    assert math.isclose(bar(held[0])[0], 1.4)
    assert not held[1].has_xerr
    assert list(line(first, "before").get_xdata()) == [4.0, 4.0]
    assert not [drawn for drawn in second.lines if drawn.get_label() == "before"]
    assert [t.get_text() for t in first.get_yticklabels()] == ["a", "b"]
    assert first.get_ylim()[0] > first.get_ylim()[1]  # the first row on top


def luminance(color: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def contrast(first: str, second: str) -> float:
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_inks_stand_out_on_their_page() -> None:
    inks = [style.INK, style.FAINT, style.LINE, style.TRUTH, *(k.color for k in style.LOOKS)]
    for ink in inks:
        least = 3.0 if ink not in (style.INK, style.FAINT) else 4.5
        assert contrast(ink, style.PAPER) >= least
        assert contrast(style.DARK[ink], style.DARK[style.PAPER]) >= least


def test_series_are_told_apart_without_color() -> None:
    assert len({k.marker for k in style.LOOKS}) == len(style.LOOKS)
    assert len({str(k.dashes) for k in style.LOOKS}) == len(style.LOOKS)
    assert {k.color for k in style.LOOKS} <= style.DARK.keys()


def test_drawing_leaves_the_users_settings_alone() -> None:
    before = dict(mpl.rcParams)
    files.svg(bands(X, [Panel("a", "", X, X)], DATA, X))
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("write", [files.svg, files.png])
def test_the_same_figure_gives_the_same_bytes(write: Any) -> None:
    made = [write(bands(X, [Panel("a", "n", X, X)], DATA, X)) for _ in range(2)]
    assert made[0] == made[1]


def test_reliability_draws_wald_bars_where_a_bin_holds_enough_and_every_bin_s_share() -> None:
    bins = Bins("a", [0.55, 0.75, 0.95], [1.0, 0.5, 0.9], [4, 16, 20])
    panel = ReliabilityPanel("test", [bins])
    figure = reliability([panel], {"a": style.look(0)})
    axis = figure.axes[0]
    (drawn,) = axis.containers
    assert isinstance(drawn, ErrorbarContainer)
    assert np.allclose(np.asarray(drawn.lines[0].get_xydata()), [[0.75, 0.5], [0.95, 0.9]])
    segments = [np.asarray(s) for s in drawn.lines[2][0].get_segments()]
    halves = [1.96 * math.sqrt(p * (1 - p) / n) for p, n in ((0.5, 16), (0.9, 20))]
    assert np.allclose([np.ptp(s[:, 1]) / 2 for s in segments], halves)
    shares = axis.child_axes[0].lines
    assert np.allclose([max(s.get_ydata()) for s in shares], [0.1, 0.4, 0.5])


def test_labels_of_contours_keep_clear_of_the_frame() -> None:
    lam, scales = [1.0, 10.0], [10 ** (k / 4) for k in range(-8, 9)]
    scores = [[math.log10(s / best) ** 2 for s in scales] for best in (0.5, 2.0)]
    figure = contours([Surface("a", lam, scales, scores)])
    places = [text.get_position()[0] for text in figure.axes[0].texts]
    assert places
    assert all(0.07 < math.log10(place) < 0.93 for place in places)
