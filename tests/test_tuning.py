"""Tuning against a search by hand, and what happens when settings fail."""

from __future__ import annotations

import copy
import functools
import gc
import math
import random
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal
from torch.utils.data import DataLoader, TensorDataset

import regvar
from regvar.calibration import calibrate
from regvar.errors import ArgumentError, CalibrationWarning
from regvar.network import Network
from regvar.predictives import GaussianPredictive
from regvar.tuning import Tuned, tune

NOISE = 0.3
PREDICTIVE = GaussianPredictive(regvar.Gaussian(sigma=NOISE))


@dataclass(frozen=True)
class Simulated:
    """N(x₀ + shift, x₁^power): right for the shift 0 and the power 1."""

    shift: float = 0.0
    power: float = 1.0
    network: Network = field(default_factory=lambda: Network(nn.Linear(1, 1)))
    solution: None = None

    def moments(self, x: Any) -> regvar.Moments:
        mean, spread = x[0].chunk(2, dim=-1)
        return regvar.Moments(mean + self.shift, spread**self.power)


def data(rows: int = 2000, scale: float = 4.0) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(rows, 1, generator=generator, dtype=torch.float64)
    spread = 0.1 + 4 * torch.rand(rows, 1, generator=generator, dtype=torch.float64)
    eps = torch.randn(rows, 1, generator=generator, dtype=torch.float64)
    x, y = torch.cat([mean, spread], 1), mean + (NOISE**2 + scale * spread).sqrt() * eps
    return list(zip(x.split(300), y.split(300), strict=True))


def likelihood(shift: float, power: float, scale: float) -> float:
    """The mean log density of all data, without the library."""
    x, y = (torch.cat(parts) for parts in zip(*data(), strict=True))
    std = (NOISE**2 + scale * x[:, 1:] ** power).sqrt()
    return float(Normal(x[:, :1] + shift, std).log_prob(y).mean())


@pytest.fixture(autouse=True)
def strict_warnings() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error", CalibrationWarning)
        yield


def test_every_setting_at_its_own_best_scale() -> None:
    grid = {"shift": [-0.5, 0.0, 0.5], "power": [0.5, 1.0, 2.0]}
    tuned = tune(Simulated, data(), grid, predictive=PREDICTIVE)
    scales = [10 ** (k / 200) for k in range(-200, 401)]
    places = [(t.settings["shift"], t.settings["power"]) for t in tuned.trials]
    assert places == [(a, b) for a in grid["shift"] for b in grid["power"]]
    for (shift, power), trial in zip(places, tuned.trials, strict=True):
        values = {s: likelihood(shift, power, s) for s in scales}
        assert trial.scale == pytest.approx(max(values, key=values.__getitem__), rel=0.012)
        assert trial.log_likelihood == pytest.approx(max(values.values()), abs=2e-5)
        assert trial.curve is not None
        assert trial.curve.log_likelihood[40] == pytest.approx(
            likelihood(shift, power, trial.curve.scales[40])
        )
    assert tuned.settings == {"shift": 0.0, "power": 1.0}
    assert tuned.calibrated.scale == pytest.approx(4.0, rel=0.1)
    best = max(tuned.trials, key=lambda trial: trial.log_likelihood)
    assert (best.settings, best.scale) == (tuned.settings, tuned.calibrated.scale)
    assert str(tuned).splitlines()[4].startswith("* shift = 0.0, power = 1.0: log likelihood")


def test_uncalibrated_settings_are_judged_at_scale_one() -> None:
    with pytest.warns(CalibrationWarning, match=r"largest power of the grid, 2\b.*beyond it"):
        tuned = tune(
            lambda power: Simulated(power=power),
            data(),
            {"power": [0.5, 1, 2]},
            calibrated=False,
            predictive=PREDICTIVE,
        )
    for trial in tuned.trials:
        expected = likelihood(0.0, trial.settings["power"], 1.0)
        assert trial.log_likelihood == pytest.approx(expected)
        assert trial.scale == 1
    assert tuned.calibrated.scale == 1


def test_an_optimum_at_an_end_is_announced() -> None:
    with pytest.warns(CalibrationWarning, match=r"smallest shift of the grid, 0\.1:"):
        tune(Simulated, data(), {"shift": [0.4, 0.1, 0.2]}, predictive=PREDICTIVE)
    exact = [(x, x[:, :1]) for x, _ in data()]
    with pytest.warns(CalibrationWarning, match="at the scale 0"):
        tuned = tune(Simulated, exact, {"shift": [-0.1, 0.0, 0.1]}, predictive=PREDICTIVE)
    assert tuned.calibrated.note.startswith("The validation likelihood is highest at the scale 0")


def test_a_setting_without_influence_has_no_optimum() -> None:
    tuned = tune(lambda unused: Simulated(), data(), {"unused": [1.0, 2.0]}, predictive=PREDICTIVE)
    assert tuned.settings == {"unused": 1.0}


@pytest.mark.parametrize("values", [[0.0, 0.5], [0.0], [False, True]])
def test_an_end_that_has_no_beyond_is_not(values: list[float]) -> None:
    found = tune(lambda a: Simulated(shift=a), data(), {"a": values}, predictive=PREDICTIVE)
    assert found.settings == {"a": 0}


def failing(error: Exception) -> Callable[..., Simulated]:
    def build(shift: float) -> Simulated:
        if shift > 0.2:
            raise error
        return Simulated(shift)

    return build


@pytest.mark.parametrize(
    "error", [regvar.RegvarError("too far"), regvar.SolverWarning("it says: too far")]
)
def test_one_failure_does_not_lose_the_others(error: Exception) -> None:
    grid = {"shift": [-0.5, 0.9, 0.0, 0.2]}
    with pytest.warns(CalibrationWarning, match=r"Setting shift = 0\.9: failed: .*too far"):
        tuned = tune(failing(error), data(), grid, predictive=PREDICTIVE)
    assert tuned.settings == {"shift": 0.0}
    assert [math.isnan(t.log_likelihood) for t in tuned.trials] == [False, True, False, False]
    assert tuned.trials[1].failure == str(error)
    assert tuned.trials[1].curve is None


def test_diverged_moments_are_a_failure_too() -> None:
    grid = {"power": [0.5, 1.0, 1e6, 2.0]}
    with pytest.warns(CalibrationWarning, match=r"1000000\.0: failed: moments of uq must be fini"):
        assert tune(Simulated, data(), grid, predictive=PREDICTIVE).settings == {"power": 1.0}


def test_other_exceptions_pass_through() -> None:
    with pytest.raises(KeyError):
        tune(failing(KeyError("bug")), data(), {"shift": [0.0, 0.5]}, predictive=PREDICTIVE)


def test_when_all_fail() -> None:
    warnings.simplefilter("ignore", CalibrationWarning)
    with pytest.raises(ArgumentError, match=r"all 2 failed\. The first, shift = 0\.3: .*too far"):
        tune(failing(regvar.RegvarError("too far")), data(), {"shift": [0.3, 0.5]})


MISTAKES: dict[str, tuple[str, Callable[[], Any]]] = {
    "no function": ("build must be a function", lambda: tune(3, data(), {"a": [1]})),  # type: ignore[arg-type]
    "no grid": ("grid must be a non-empty mapping", lambda: tune(Simulated, data(), {})),
    "a list": ("grid must be a non-empty mapping", lambda: tune(Simulated, data(), [1])),  # type: ignore[arg-type]
    "one value": (
        r"grid\['shift'\] must be a non-empty list of values, but it is 0\.1",
        lambda: tune(Simulated, data(), {"shift": 0.1}),  # type: ignore[dict-item]
    ),
    "no values": (
        r"grid\['shift'\] must be a non-empty list",
        lambda: tune(Simulated, data(), {"shift": []}),
    ),
    "an iterator": (
        "loader must be re-iterable",
        lambda: tune(Simulated, iter(data()), {"shift": [0.1]}),
    ),
}


@pytest.mark.parametrize(("text", "call"), MISTAKES.values(), ids=list(MISTAKES))
def test_mistakes(text: str, call: Callable[[], Any]) -> None:
    with pytest.raises(ArgumentError, match=text):
        call()


def test_the_best_and_the_present_estimator_alone_are_kept() -> None:
    alive: list[weakref.ref[Simulated]] = []
    most = 0

    def build(shift: float) -> Simulated:
        nonlocal most
        gc.collect()
        uq = Simulated(shift)
        alive.append(weakref.ref(uq))
        most = max(most, sum(ref() is not None for ref in alive))
        return uq

    grid = {"shift": [0.2, -0.4, 0.1, 0.0, 0.6, 0.7]}
    tune(build, data(), grid, predictive=PREDICTIVE)
    assert most == 2


@functools.cache
def fit(sigma: float, precision: float = 1.0) -> tuple[regvar.LogJoint, DataLoader[Any]]:
    """A tiny regression at its MAP, with observation noise 0.3, and validation data."""
    generator = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(240, 1, generator=generator) - 1
    y = torch.sin(3 * x) + NOISE * torch.randn(240, 1, generator=generator)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    joint = regvar.LogJoint(
        model,
        [(x[:40], y[:40])],
        likelihood=regvar.Gaussian(sigma=sigma),
        prior=regvar.GaussianPrior(precision=precision),
    )
    regvar.fit_map(joint, epochs=150, lr=0.05)
    return joint, DataLoader(TensorDataset(x[40:], y[40:]), batch_size=50, shuffle=True)


@pytest.mark.filterwarnings("ignore::regvar.SolverWarning")
def test_lam_of_the_paper_s_refit() -> None:
    joint, loader = fit(NOISE)
    warnings.simplefilter("ignore", CalibrationWarning)
    before, fingerprint = torch.get_rng_state(), joint.network.fingerprint()
    random_state = random.getstate()

    def build(lam: float) -> regvar.estimators.amortized.Amortized:
        return regvar.amortized(joint, solver=regvar.Finetune(lam=lam, epochs=20))

    tuned = tune(build, loader, {"lam": [0.1, 1.0, 10.0]})
    for trial in tuned.trials:
        alone = calibrate(build(**trial.settings), loader)
        assert (alone.scale, alone.log_likelihood) == (trial.scale, trial.log_likelihood)
    assert len({trial.log_likelihood for trial in tuned.trials}) == 3
    again = tune(build, loader, {"lam": [0.1, 1.0, 10.0]})
    assert (again.settings, again.trials) == (tuned.settings, tuned.trials)
    assert torch.equal(torch.get_rng_state(), before) and random.getstate() == random_state
    assert joint.network.fingerprint() == fingerprint


@pytest.mark.filterwarnings("ignore::regvar.SolverWarning")
def test_noise_and_prior_together() -> None:
    _, loader = fit(NOISE)

    def build(sigma: float, precision: float) -> regvar.estimators.pointwise.Pointwise:
        return regvar.pointwise(fit(sigma, precision)[0], regvar.Direct(regvar.GGN()))

    warnings.simplefilter("ignore", CalibrationWarning)
    grid = {"sigma": [0.03, 0.3, 3.0], "precision": [0.1, 1000.0]}
    tuned = tune(build, loader, grid, calibrated=False)
    assert tuned.settings == {"sigma": 0.3, "precision": 0.1}
    joint = tuned.calibrated.joint
    assert joint is not None and joint.likelihood == regvar.Gaussian(sigma=0.3)
    value = 0.0
    for x, y in loader:
        moments = tuned.calibrated.moments(x)
        value += float(Normal(moments.mean, (moments.variance + 0.09).sqrt()).log_prob(y).sum())
    assert value / 200 == pytest.approx(max(t.log_likelihood for t in tuned.trials), rel=1e-5)


def test_a_network_that_is_fitted_again_in_place_is_found_out() -> None:
    joint, loader = fit(NOISE)
    shared, built = copy.deepcopy(joint.model), list[float]()

    def in_place(sigma: float, model: nn.Module = shared) -> regvar.estimators.sampled.Sampled:
        built.append(sigma)
        again = regvar.LogJoint(
            model, joint.data, likelihood=regvar.Gaussian(sigma=sigma), prior=joint.prior
        )
        regvar.fit_map(again, epochs=10, lr=0.02)
        return regvar.sampled(again, samples=4, solver=regvar.Direct(regvar.GGN()))

    def apart(sigma: float) -> regvar.estimators.sampled.Sampled:
        return in_place(sigma, copy.deepcopy(shared))

    warnings.simplefilter("ignore", CalibrationWarning)
    with pytest.raises(ArgumentError, match=r"one of sigma = 0\.2 has changed since.*deepcopy"):
        tune(in_place, loader, {"sigma": [0.2, 0.5, 1.0]})
    assert built == [0.2, 0.5]
    assert isinstance(tune(apart, loader, {"sigma": [0.2, 0.5]}), Tuned)
