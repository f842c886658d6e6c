"""Ends of the grid, ties, and how many passes the search takes."""

from __future__ import annotations

import warnings

import pytest
import torch

from regvar.calibration import calibrate
from regvar.errors import CalibrationWarning
from tests.calibration.cases import CLASSES, Batches, Passes, cut, numbers, real_numbers, simulated


def overconfident() -> Batches:
    """Labels that contradict every confident logit, where the variance is next to nothing."""
    mean = torch.tensor([[9.0, -9.0]] * 50, dtype=torch.float64)
    return [(torch.cat([mean, torch.full_like(mean, 1e-3)], 1), torch.ones(50).long())]


def exact() -> Batches:
    """Targets on the mean itself: any variance makes it worse."""
    x, _ = real_numbers(1.0, 1.0, rows=50)
    return [(x, x.chunk(2, 1)[0])]


def test_an_optimum_at_an_end_is_announced() -> None:
    with pytest.warns(CalibrationWarning, match="scale 0: adding this variance does not help"):
        found = calibrate(simulated(), exact(), predictive=numbers(1.0))
    assert found.scale == 0
    assert "does not help" in found.note
    with pytest.warns(CalibrationWarning, match="largest scale of the grid, 10: .*ends higher"):
        found = calibrate(simulated(), overconfident(), predictive=CLASSES, grid=(0.0, 1.0, 10.0))
    assert found.scale == 10
    with pytest.warns(CalibrationWarning, match=r"smallest scale of the grid, 0\.5"):
        assert (
            calibrate(simulated(), exact(), predictive=numbers(1.0), grid=(0.5, 5.0)).scale == 0.5
        )


def test_no_warning_inside_the_grid_and_for_one_scale() -> None:
    data = cut(real_numbers(1.0, 0.3, rows=500), 100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for grid in (None, (7.0,)):
            found = calibrate(simulated(), data, predictive=numbers(0.3), grid=grid)
            assert found.note == ""
    assert found.scale == 7.0
    assert found.curve.scales == (7.0,)


def test_an_optimum_below_the_first_positive_scale_is_found() -> None:
    data = real_numbers(0.2, 0.3)
    expected = calibrate(simulated(), [data], predictive=numbers(0.3)).scale
    found = calibrate(simulated(), [data], predictive=numbers(0.3), grid=(0.0, 1.0, 2.0))
    assert found.scale == pytest.approx(expected, rel=0.05)


def test_of_tied_scales_the_smallest_wins() -> None:
    x, y = real_numbers(1.0, 0.3, rows=50)
    x[:, 2:] = 0  # no variance at all: the curve is flat
    passes = Passes([(x, y)])
    with pytest.warns(CalibrationWarning, match="scale 0"):
        found = calibrate(simulated(), passes, predictive=numbers(0.3))
    assert found.scale == 0
    assert passes.count == 1


def test_one_pass_where_its_moments_fit_and_two_where_they_do_not() -> None:
    data = cut(real_numbers(1.0, 0.3, rows=100), 10)
    pairs = sum(t.element_size() * t.numel() for pair in data for t in pair)
    scales: list[float] = []
    for memory, count in ((2**20, 1), (pairs, 1), (pairs - 1, 2), (0, 2)):
        passes = Passes(data)
        found = calibrate(simulated(), passes, predictive=numbers(0.3), memory=memory)
        scales.append(found.scale)
        assert passes.count == count
    assert len(set(scales)) == 1
