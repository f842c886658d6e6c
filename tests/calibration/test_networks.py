"""From a fitted network to its predictions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.distributions import Normal
from torch.utils.data import DataLoader, TensorDataset

import regvar
from regvar.calibration import Calibrated, calibrate
from regvar.predictives import (
    Classification,
    MonteCarlo,
    Predictive,
    Regression,
)


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
