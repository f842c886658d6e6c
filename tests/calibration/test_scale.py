"""The scale where it is known, and against a search done by other means."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor, nn
from torch.distributions import Normal
from torch.utils.data import DataLoader, TensorDataset

import regvar
from regvar.calibration import calibrate
from regvar.network import Network
from regvar.predictives import (
    MonteCarlo,
    Probit,
)
from tests.calibration.cases import (
    CLASSES,
    FirstHalf,
    Simulated,
    cut,
    labels,
    numbers,
    real_numbers,
    search,
    simulated,
)


@pytest.mark.parametrize("scale", [0.02, 1.0, 50.0])
def test_gaussian_residuals_of_known_variance(scale: float) -> None:
    sigma = 0.3 * scale**0.5
    x, y = real_numbers(scale, sigma)
    found = calibrate(simulated(), cut((x, y), 500), predictive=numbers(sigma))
    mean, s2 = x.chunk(2, 1)

    def value(s: float) -> float:
        return float(Normal(mean, (sigma**2 + s * s2).sqrt()).log_prob(y).sum(1).mean())

    assert found.scale == pytest.approx(search(value, scale / 10, scale * 10), rel=2e-4)
    assert found.scale == pytest.approx(scale, rel=0.1)  # √(2/8000) and what sigma takes: 2–4 %
    assert found.log_likelihood == pytest.approx(value(found.scale), abs=2e-6)
    assert found.size == 4000
    again = [value(s) for s in found.curve.scales]
    assert found.curve.log_likelihood == pytest.approx(again)
    assert list(found.curve.scales) == sorted(set(found.curve.scales))


def test_labels_drawn_at_a_known_scale() -> None:
    x, y = labels(scale=5.0)
    found = calibrate(simulated(), cut((x, y), 500), predictive=CLASSES)
    mean, s2 = x.chunk(2, 1)

    def value(s: float) -> float:
        p = (mean / (1 + math.pi * s * s2 / 8).sqrt()).softmax(-1)
        return float(p[range(len(y)), y].log().mean())

    assert found.scale == pytest.approx(search(value, 0.5, 50.0), rel=2e-4)
    assert found.scale == pytest.approx(5.0, rel=0.25)
    assert found.log_likelihood == pytest.approx(value(found.scale), abs=2e-6)


@settings(max_examples=8, derandomize=True, deadline=None)
@given(exponent=st.floats(-4, 4))
def test_units_of_the_variance_do_not_matter(exponent: float) -> None:
    """c times the variance has 1/c times the scale, and the same likelihood."""
    factor = 10**exponent
    for (x, y), predictive in (
        (labels(3.0, 300), CLASSES),
        (real_numbers(2.0, 0.3, 300), numbers(0.3)),
    ):
        mean, s2 = x.chunk(2, 1)
        first = calibrate(simulated(), [(x, y)], predictive=predictive)
        other = [(torch.cat([mean, factor * s2], 1), y)]
        found = calibrate(simulated(), other, predictive=predictive)
        assert found.scale * factor == pytest.approx(first.scale, rel=1e-3)
        assert found.log_likelihood == pytest.approx(first.log_likelihood, abs=2e-6)
        torch.testing.assert_close(
            found.moments(other[0][0]).variance, first.moments(x).variance, rtol=1e-3, atol=0
        )


@pytest.mark.parametrize("size", [1, 7, 300])
def test_same_scale_in_every_batch_size(size: int) -> None:
    data = labels(scale=3.0, rows=300)
    sampling = MonteCarlo(regvar.Categorical(), samples=3)
    for predictive in (Probit(regvar.Categorical()), sampling):
        grid = (0.0, 0.1, 1.0, 10.0, 100.0)
        whole = calibrate(simulated(), [data], predictive=predictive, grid=grid)
        found = calibrate(simulated(), cut(data, size), predictive=predictive, grid=grid)
        assert found.scale == pytest.approx(whole.scale, rel=1e-9)
        assert found.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-12)


def test_a_shuffling_loader_repeats() -> None:
    loader = DataLoader(TensorDataset(*labels(scale=3.0, rows=300)), batch_size=32, shuffle=True)
    first = calibrate(simulated(), loader, predictive=CLASSES)
    assert calibrate(simulated(), loader, predictive=CLASSES).scale == first.scale


def test_ignored_labels_are_no_data() -> None:
    x, y = labels(scale=3.0, rows=300)
    hidden = torch.where(torch.arange(300) < 200, y, -100)
    found = calibrate(simulated(), cut((x, hidden), 50), predictive=CLASSES)
    kept = calibrate(simulated(), [(x[:200], y[:200])], predictive=CLASSES)
    assert found.size == 200
    assert found.scale == pytest.approx(kept.scale, rel=1e-9)


def test_batches_of_any_form_without_a_second_run() -> None:
    x, y = labels(scale=3.0, rows=100)
    plain = calibrate(simulated(), [(x, y)], predictive=CLASSES)
    uq = simulated()
    fields = cast("Any", [{"x": x, "labels": y}])
    assert calibrate(uq, fields, predictive=CLASSES).scale == plain.scale
    assert cast("FirstHalf", uq.network.model).calls == 0

    def forward(model: nn.Module, batch: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return model(batch[0]), batch[2]

    own = cast("Any", [(x, torch.zeros(()), y)])
    found = calibrate(simulated(forward), own, predictive=CLASSES)
    assert found.scale == plain.scale


def test_a_causal_language_model_moves_its_labels() -> None:
    class Causal(nn.Module):
        def loss_function(self) -> None: ...

        def forward(self, x: Tensor) -> Tensor:
            return x.chunk(2, dim=-1)[0]

    Causal.loss_function.__name__ = "ForCausalLMLoss"
    x, y = labels(scale=3.0, rows=300)
    x, y = x.reshape(30, 10, 6), y.reshape(30, 10)
    moved = torch.nn.functional.pad(y[:, :-1], (1, 0), value=0)  # labels as the tokenizer gives
    uq = Simulated(Network(Causal()))
    found = calibrate(uq, [(x, moved)], predictive=CLASSES)
    assert found.size == 270
    ends = torch.arange(10).expand(30, 10) == 9
    plain = calibrate(simulated(), [(x, torch.where(ends, -100, y))], predictive=CLASSES)
    assert found.scale == plain.scale
