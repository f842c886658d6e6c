"""The Gaussian predictive against torch.distributions."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Normal

import regvar
from regvar.predictives import GaussianPredictive, default_predictive, scaled

from .integrals import logits

SIGMAS = torch.tensor([0.5, 1.0, 2.0, 0.1], dtype=torch.float64)


@pytest.mark.parametrize("sigma", [0.7, SIGMAS], ids=["one sigma", "a sigma per output"])
def test_log_density_at_every_scale(sigma: float | torch.Tensor) -> None:
    moments, scales = logits(), (0.0, 0.5, 3.0)
    targets = logits(seed=1).mean
    found = GaussianPredictive(regvar.Gaussian(sigma=sigma)).log_prob(moments, targets, scales)
    noise = torch.as_tensor(sigma, dtype=torch.float64).square()
    expected = torch.stack(
        [
            Normal(moments.mean, (s * moments.variance + noise).sqrt()).log_prob(targets).sum(1)
            for s in scales
        ]
    )
    torch.testing.assert_close(found, expected)


def test_scale_zero_is_the_likelihood_itself() -> None:
    moments, targets = logits(), logits(seed=1).mean
    likelihood = regvar.Gaussian(sigma=0.3)
    found = GaussianPredictive(likelihood).log_prob(moments, targets, (0.0,))
    torch.testing.assert_close(found.sum(), likelihood.log_prob(moments.mean, targets))


def test_one_number_an_example_and_an_empty_batch() -> None:
    predictive = GaussianPredictive(regvar.Gaussian(sigma=0.3))
    flat = regvar.Moments(torch.zeros(3), torch.ones(3))
    expected = Normal(0.0, 1.09**0.5).log_prob(torch.ones(3))
    torch.testing.assert_close(predictive.log_prob(flat, torch.ones(3))[0], expected)
    nothing = regvar.Moments(torch.zeros(0, 2), torch.zeros(0, 2))
    assert predictive.log_prob(nothing, torch.zeros(0, 2), (0.0, 1.0)).shape == (2, 0)


def test_prediction_adds_the_noise() -> None:
    moments = logits()
    found = GaussianPredictive(regvar.Gaussian(sigma=SIGMAS)).predict(scaled(moments, 3.0))
    torch.testing.assert_close(found.mean, moments.mean)
    torch.testing.assert_close(found.variance, 3 * moments.variance + SIGMAS.square())
    torch.testing.assert_close(found.total, found.aleatoric + found.epistemic)
    torch.testing.assert_close(found.epistemic, 3 * moments.variance)


def test_half_precision_outputs_are_widened() -> None:
    half = regvar.Moments(torch.zeros(2, 1, dtype=torch.float16), torch.ones(2, 1))
    predictive = GaussianPredictive(regvar.Gaussian(sigma=1.0))
    assert predictive.log_prob(half, torch.zeros(2, 1)).dtype is torch.float32
    assert predictive.predict(half).variance.dtype is torch.float32


def test_mistakes() -> None:
    with pytest.raises(regvar.RegvarError, match=r"likelihood must be regvar\.Gaussian"):
        GaussianPredictive(regvar.Categorical())  # pyright: ignore[reportArgumentType]
    with pytest.raises(regvar.RegvarError, match="scale must be 0 or larger"):
        scaled(logits(), -1.0)
    with pytest.raises(regvar.RegvarError, match="Pass predictive="):
        default_predictive(regvar.Custom(lambda f, y: -(f - y).abs()))
