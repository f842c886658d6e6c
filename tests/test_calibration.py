"""Calibration where the best scale is known, and against a search done by other means."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor, nn
from torch.distributions import Normal
from torch.utils.data import DataLoader, TensorDataset

import regvar
from regvar.calibration import Calibrated, calibrate
from regvar.errors import CalibrationWarning
from regvar.network import Network
from regvar.predictives import (
    Classification,
    GaussianPredictive,
    MonteCarlo,
    Predictive,
    Probit,
    Regression,
)

Batches = list[tuple[Tensor, Tensor]]

CLASSES = Probit(regvar.Categorical())


def numbers(sigma: float) -> GaussianPredictive:
    return GaussianPredictive(regvar.Gaussian(sigma=sigma))


class FirstHalf(nn.Module):
    """Inputs carry the moments themselves: mean, then variance."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x.chunk(2, dim=-1)[0]


@dataclass(frozen=True)
class Simulated:
    """An estimator whose moments are read from its inputs."""

    network: Network
    solution: None = None

    def moments(self, x: Any) -> regvar.Moments:
        inputs = x[0] if isinstance(x, tuple | list) else x["x"] if isinstance(x, dict) else x
        mean, variance = cast("Tensor", inputs).chunk(2, dim=-1)
        return regvar.Moments(mean, variance)


def simulated(forward: Any = None) -> Simulated:
    return Simulated(Network(FirstHalf(), forward))


def real_numbers(scale: float, sigma: float, rows: int = 4000) -> tuple[Tensor, Tensor]:
    """Residuals whose variance is sigma² + scale · s2."""
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(rows, 2, generator=generator, dtype=torch.float64)
    s2 = 0.1 + 4 * torch.rand(rows, 2, generator=generator, dtype=torch.float64)
    eps = torch.randn(rows, 2, generator=generator, dtype=torch.float64)
    return torch.cat([mean, s2], 1), mean + (sigma**2 + scale * s2).sqrt() * eps


def labels(scale: float, rows: int = 4000, classes: int = 3) -> tuple[Tensor, Tensor]:
    """Labels drawn from Eq. 20 at the scale."""
    generator = torch.Generator().manual_seed(1)
    mean = 3 * torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    s2 = 4 * torch.rand(rows, classes, generator=generator, dtype=torch.float64)
    p = (mean / (1 + math.pi * scale * s2 / 8).sqrt()).softmax(-1)
    y = torch.multinomial(p, 1, generator=generator)[:, 0]
    return torch.cat([mean, s2], 1), y


def cut(data: tuple[Tensor, Tensor], size: int) -> Batches:
    return list(zip(data[0].split(size), data[1].split(size), strict=True))


def search(value: Callable[[float], float], low: float, high: float) -> float:
    """A dense search in log s, independent of the library: each round narrows it by a hundred."""
    a, b = math.log(low), math.log(high)
    for _ in range(4):
        places = [a + (b - a) * k / 400 for k in range(401)]
        best = max(places, key=lambda t: value(math.exp(t)))
        width = (b - a) / 200
        a, b = best - width, best + width
    return math.exp(0.5 * (a + b))


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


class Passes:
    """Counts the passes over its batches; `drift` makes each one different."""

    def __init__(self, data: Batches, drift: float = 0.0) -> None:
        self.data, self.drift, self.count = data, drift, 0

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        self.count += 1
        yield from ((x, y + self.count * self.drift) for x, y in self.data)


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


MISTAKES: dict[str, tuple[str, Callable[[Batches], Any]]] = {
    "empty": (
        "loader must hold at least one scored example",
        lambda data: calibrate(simulated(), [], predictive=numbers(1.0)),
    ),
    "all ignored": (
        "loader must hold at least one scored example",
        lambda data: calibrate(
            simulated(),
            [(data[0][0], torch.full((20,), -100))],
            predictive=CLASSES,
        ),
    ),
    "no likelihood": (
        "predictive must be given for an estimator that does not know its likelihood",
        lambda data: calibrate(simulated(), data),
    ),
    "no targets": (
        "data must carry targets",
        lambda data: calibrate(
            simulated(),
            cast("Any", [data[0][0]]),
            predictive=numbers(1.0),
        ),
    ),
    "a batch for a loader": (
        "loader must be an iterable of batches",
        lambda data: calibrate(
            simulated(),
            cast("Any", data[0]),
            predictive=numbers(1.0),
        ),
    ),
    "one pass only": (
        "loader must be re-iterable",
        lambda data: calibrate(simulated(), iter(data), predictive=numbers(1.0)),
    ),
    "other data in the second pass": (
        "loader must hold the same examples on every pass",
        lambda data: calibrate(
            simulated(),
            Passes(data, drift=0.5),
            memory=0,
            predictive=numbers(0.3),
        ),
    ),
    "a negative scale": (
        "grid must be one or more scales, finite and 0 or larger",
        lambda data: calibrate(
            simulated(),
            data,
            grid=(-1.0, 1.0),
            predictive=numbers(1.0),
        ),
    ),
    "a class for a predictive": (
        "predictive must be an object like",
        lambda data: calibrate(simulated(), data, predictive=cast("Any", Probit)),
    ),
    "no estimator": (
        "uq must be an estimator with moments",
        lambda data: calibrate(cast("Any", nn.Linear(1, 1)), data),
    ),
    "a negative variance": (
        "moments of uq must be finite",
        lambda data: calibrate(
            simulated(),
            [(-x, y) for x, y in data],
            predictive=numbers(1.0),
        ),
    ),
}


@pytest.mark.parametrize(("text", "call"), MISTAKES.values(), ids=list(MISTAKES))
def test_mistakes(text: str, call: Callable[[Batches], Any]) -> None:
    with pytest.raises(regvar.RegvarError, match=text):
        call(cut(real_numbers(1.0, 0.3, rows=20), 20))


def fitted(
    likelihood: regvar.Categorical | regvar.Gaussian | regvar.Bernoulli,
) -> tuple[regvar.LogJoint, DataLoader[Any]]:
    """A tiny network at its MAP, and validation data of the same kind."""
    torch.manual_seed(0)
    x = torch.randn(120, 2)
    noisy = x[:, :1] - x[:, 1:] + 0.8 * torch.randn(120, 1)
    if isinstance(likelihood, regvar.Categorical):
        y, outputs = (noisy[:, 0] > 0).long(), 2
    else:
        y, outputs = noisy if isinstance(likelihood, regvar.Gaussian) else (noisy > 0).float(), 1
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, outputs))
    prior = regvar.GaussianPrior(precision=0.1)
    joint = regvar.LogJoint(model, [(x[:40], y[:40])], likelihood=likelihood, prior=prior)
    regvar.fit_map(joint, epochs=300, lr=0.02)
    return joint, DataLoader(TensorDataset(x[40:], y[40:]), batch_size=16)


@pytest.mark.parametrize(
    "likelihood", [regvar.Categorical(), regvar.Bernoulli(), regvar.Gaussian(sigma=0.3)]
)
@pytest.mark.filterwarnings("ignore::regvar.SolverWarning")
def test_from_network_to_prediction(
    likelihood: regvar.Categorical | regvar.Gaussian | regvar.Bernoulli,
) -> None:
    joint, loader = fitted(likelihood)
    before = joint.network.fingerprint()
    uq = regvar.sampled(joint, samples=16)
    found = calibrate(uq, loader)
    assert found.scale > 0
    inputs = torch.randn(5, 2)
    torch.testing.assert_close(
        found.moments(inputs).variance, found.scale * uq.moments(inputs).variance
    )
    with torch.no_grad():
        plain = sum(float(likelihood.log_prob(joint.model(x), y)) for x, y in loader) / 80
    assert found.log_likelihood > plain  # the scale 0 is the network alone
    assert found.curve.log_likelihood[0] == pytest.approx(plain, rel=1e-4)
    assert found.log_likelihood == pytest.approx(scored(found, loader), rel=1e-4)
    prediction = found.predict(inputs)
    if isinstance(prediction, Regression):
        torch.testing.assert_close(prediction.variance, found.moments(inputs).variance + 0.09)
    else:
        assert prediction.probs.shape == joint.model(inputs).shape
        assert bool((prediction.epistemic > 0).all())
    torch.testing.assert_close(prediction.total, prediction.aleatoric + prediction.epistemic)
    assert joint.network.fingerprint().matches(before)


def scored(found: Calibrated, loader: DataLoader[Any]) -> float:
    """The mean log likelihood of what `predict` hands out."""
    total = 0.0
    for x, y in loader:
        prediction = found.predict(x)
        if isinstance(prediction, Regression):
            total += float(Normal(prediction.mean, prediction.variance.sqrt()).log_prob(y).sum())
        elif y.is_floating_point():
            total += float(torch.where(y > 0, prediction.probs, 1 - prediction.probs).log().sum())
        else:
            total += float(prediction.probs[range(len(y)), y].log().sum())
    return total / 80


@pytest.mark.filterwarnings("ignore::regvar.SolverWarning")
def test_a_user_s_own_predictive_and_estimator_without_joint() -> None:
    joint, loader = fitted(regvar.Categorical())
    uq = regvar.sampled(joint, samples=4)
    sampling = MonteCarlo(regvar.Categorical(), samples=10)
    assert isinstance(sampling, Predictive)
    found = calibrate(uq, loader, predictive=sampling, grid=(0.0, 0.1, 1.0, 10.0, 100.0))
    x = torch.randn(6, 2)
    whole, tail = found.predict(x), found.predict(x[4:])
    assert isinstance(whole, Classification) and isinstance(tail, Classification)
    torch.testing.assert_close(tail.probs, whole.probs[4:])
