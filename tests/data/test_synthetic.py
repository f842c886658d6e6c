"""The synthetic tasks against the paper's words, and the test sets' sizes and places."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from regvar.data import synthetic
from regvar.errors import ArgumentError

SIZES = {
    "quadratic-uniform": (32, 45),
    "quadratic-inbetween": (32, 45),
    "sin-uniform": (160, 80),
    "sin-inbetween": (160, 80),
}
INSIDE = {
    "quadratic-inbetween": [(-2.0, -0.5), (0.8, 2.5)],
    "sin-uniform": [(-1.5, 1.15)],
    "sin-inbetween": [(-1.5, -0.7), (0.35, 1.15)],
}
OUTSIDE = {
    "quadratic-uniform": [(-2.5, -2.0), (2.0, 2.5)],
    "quadratic-inbetween": [(-0.5, 0.8)],
    "sin-uniform": [(-1.75, -1.5), (1.15, 1.4)],
    "sin-inbetween": [(-0.7, 0.35)],
}


def response(name: str, x: np.ndarray) -> np.ndarray:
    if name.startswith("quadratic"):
        return 0.1 * x**2 - 0.5 * x + 5
    return -np.sin(3 * x - 0.3)


def drawn(name: str, seed: int, split: str) -> tuple[np.ndarray, np.ndarray]:
    x, y = synthetic.task(name).draw(seed, split)
    assert x.shape == y.shape == (len(x), 1)
    assert x.dtype == y.dtype == torch.float64
    return x[:, 0].numpy(), y[:, 0].numpy()


def drawn_noise(seed: int, split: str, name: str = "sin-inbetween") -> np.ndarray:
    x, y = drawn(name, seed, split)
    return y - response(name, x)


def within(x: np.ndarray, intervals: list[tuple[float, float]]) -> np.ndarray:
    return np.any([(low <= x) & (x <= high) for low, high in intervals], axis=0)


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_those_of_the_papers_fractions(name: str) -> None:
    inside, outside = SIZES[name]
    for split in ("train", "validation", "id"):
        assert len(drawn(name, 0, split)[0]) == inside
    assert len(drawn(name, 0, "ood")[0]) == outside


def test_every_coverage_the_paper_prints_is_a_fraction_of_these_sizes() -> None:
    printed = {
        32: [0.9375, 0.9688, 0.8750],
        45: [0.9556, 0.9333, 0.8667, 0.8444],
        80: [0.8625, 0.8250, 0.8375, 0.9250, 0.8875],
        160: [1.0],
    }
    for size, values in printed.items():
        for value in values:
            assert any(round(k / size, 4) == value for k in range(size + 1)), (value, size)


@pytest.mark.parametrize("name", INSIDE)
def test_training_inputs_lie_where_the_paper_says(name: str) -> None:
    for split in ("train", "validation", "id"):
        x, _ = drawn(name, 1, split)
        assert within(x, INSIDE[name]).all()
        parts = [int(within(x, [part]).sum()) for part in INSIDE[name]]
        assert len(set(parts)) == 1  # half of them in each part


@pytest.mark.parametrize("name", OUTSIDE)
def test_inputs_out_of_distribution_are_spread_evenly_over_their_places(name: str) -> None:
    x, _ = drawn(name, 0, "ood")
    assert within(x, OUTSIDE[name]).all()
    for low, high in OUTSIDE[name]:
        part = np.sort(x[(low <= x) & (x <= high)])
        gaps = np.diff(part)
        assert np.allclose(gaps, (high - low) / len(part))
        assert part[0] - low == pytest.approx(high - part[-1])
    assert np.array_equal(x, drawn(name, 5, "ood")[0])
    if name in INSIDE:
        assert not within(x, INSIDE[name]).any()


def test_the_quadratic_inputs_are_standard_normal() -> None:
    x = np.concatenate([drawn("quadratic-uniform", seed, "train")[0] for seed in range(60)])
    assert stats.kstest(x, "norm").pvalue > 1e-3


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("split", synthetic.SPLITS)
def test_the_noise_is_normal_with_standard_deviation_a_tenth(name: str, split: str) -> None:
    noise = np.concatenate([drawn_noise(seed, split, name) for seed in range(60)])
    assert stats.kstest(noise / 0.1, "norm").pvalue > 1e-3


def test_splits_and_seeds_are_independent_draws_that_repeat() -> None:
    keys = [(seed, split) for seed in range(3) for split in synthetic.SPLITS]
    noises = {key: drawn_noise(*key) for key in keys}
    for i, first in enumerate(keys):
        assert np.array_equal(noises[first], drawn_noise(*first))
        for second in keys[:i]:
            assert (
                abs(np.corrcoef(noises[first][:80], noises[second][:80])[0, 1]) < 0.45
            )  # 4 σ of r


def test_a_picture_shows_all_data() -> None:
    for name, task in synthetic.TASKS.items():
        for split in ("train", "ood"):
            x, _ = drawn(name, 0, split)
            assert task.span[0] < x.min() and x.max() < task.span[1]


def test_the_global_generator_is_left_alone() -> None:
    before = torch.random.get_rng_state()
    synthetic.task("sin-uniform").draw(0, "id")
    assert torch.equal(before, torch.random.get_rng_state())


def test_wrong_names_are_refused() -> None:
    with pytest.raises(ArgumentError, match="name must be one of"):
        synthetic.task("sine")
    with pytest.raises(ArgumentError, match="split must be one of"):
        synthetic.task("sin-uniform").draw(0, "test")
