"""Priors against torch.distributions and autograd."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Laplace, Normal

import regvar

PRECISION = {"weight": torch.tensor([[0.5, 2.0], [1.0, 4.0]], dtype=torch.float64), "bias": 3.0}
MEAN = {
    "weight": torch.tensor([[0.1, 0.2], [0.3, 0.4]], dtype=torch.float64),
    "bias": torch.tensor([1.0, -1.0], dtype=torch.float64),
}
GAUSSIANS = {
    "one number": regvar.GaussianPrior(precision=0.3),
    "by name": regvar.GaussianPrior(precision=PRECISION),
    "around a mean": regvar.GaussianPrior(precision=PRECISION, mean=MEAN),
}
each_gaussian = pytest.mark.parametrize("prior", GAUSSIANS.values(), ids=list(GAUSSIANS))


@pytest.fixture
def theta() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = {"weight": (2, 2), "bias": (2,)}
    return {k: torch.randn(s, generator=generator, dtype=torch.float64) for k, s in shapes.items()}


def joint(prior: regvar.GaussianPrior | regvar.LaplacePrior) -> regvar.LogJoint:
    x = torch.ones((3, 2), dtype=torch.float64)
    model = nn.Linear(2, 2).double()
    return regvar.LogJoint(model, [(x, x)], likelihood=regvar.Gaussian(sigma=1.0), prior=prior)


def density(prior: regvar.GaussianPrior, name: str) -> Normal:
    """The same Gaussian over one parameter, as torch.distributions has it."""
    precision = prior.precision[name] if isinstance(prior.precision, dict) else prior.precision
    mean = prior.mean[name] if prior.mean else 0.0
    return Normal(mean, torch.as_tensor(precision, dtype=torch.float64) ** -0.5)


@each_gaussian
def test_gaussian_log_prob(prior: regvar.GaussianPrior, theta: dict[str, Tensor]) -> None:
    expected = sum(density(prior, name).log_prob(value).sum() for name, value in theta.items())
    torch.testing.assert_close(prior.log_prob(theta), expected)


@each_gaussian
def test_gaussian_curvature_is_the_hessian(
    prior: regvar.GaussianPrior, theta: dict[str, Tensor]
) -> None:
    v = {name: torch.full_like(value, 2.0) for name, value in theta.items()}
    product = prior.curvature(v)
    for name in theta:
        variance = density(prior, name).variance.expand_as(theta[name])
        torch.testing.assert_close(product[name], 2.0 / variance)


@each_gaussian
def test_gaussian_noise_and_draw(prior: regvar.GaussianPrior, theta: dict[str, Tensor]) -> None:
    """P₀^½ ξ and P₀^-½ ξ, entry by entry since P₀ is diagonal."""
    noise, draw = prior.noise(theta), prior.draw(theta)
    for name, xi in theta.items():
        deviation = density(prior, name).stddev.expand_as(xi)
        torch.testing.assert_close(noise[name], xi / deviation)
        torch.testing.assert_close(draw[name], xi * deviation)


def test_laplace_log_prob_and_curvature(theta: dict[str, Tensor]) -> None:
    prior = regvar.LaplacePrior(rate=1.7)
    expected = sum(Laplace(0.0, 1 / 1.7).log_prob(value).sum() for value in theta.values())
    torch.testing.assert_close(prior.log_prob(theta).double(), expected.double())
    assert all(float(c.abs().max()) == 0.0 for c in prior.curvature(theta).values())


def test_laplace_prior_moves_with_its_rate() -> None:
    """Eq. 18: with a Laplace prior, λ of the parameter regularizer only changes the rate.

    L + λ |θ|₁ is the log joint of the rate reduced by λ, up to terms without θ.
    """
    lam, strong, weak = 0.25, joint(regvar.LaplacePrior(rate=1.0)), regvar.LaplacePrior(rate=0.75)
    weights = {name: weight.detach() for name, weight in strong.model.named_parameters()}
    shift = weak.log_prob(weights) - strong.prior.log_prob(weights)
    flat = torch.cat([weight.flatten() for weight in weights.values()])
    expected = lam * flat.abs().sum() + len(flat) * math.log(0.75)
    assert float(shift) == pytest.approx(float(expected))


@pytest.mark.parametrize("value", [0.0, -0.5, {"weight": 1.0, "bias": -1.0}])
def test_precision_must_be_positive(value: float) -> None:
    with pytest.raises(regvar.RegvarError, match="precision"):
        regvar.GaussianPrior(precision=value)


def test_rate_must_be_positive() -> None:
    with pytest.raises(regvar.RegvarError, match="rate"):
        regvar.LaplacePrior(rate=0.0)


def test_precision_must_name_every_parameter() -> None:
    with pytest.raises(regvar.RegvarError, match="bias"):
        joint(regvar.GaussianPrior(precision={"weight": 1.0})).check()


def test_precision_must_fit_the_parameters_shape() -> None:
    wrong = {"weight": torch.ones(3, dtype=torch.float64), "bias": 1.0}
    with pytest.raises(regvar.RegvarError, match="weight"):
        joint(regvar.GaussianPrior(precision=wrong)).check()


def test_mean_must_fit_the_parameters_shape() -> None:
    wrong = {"weight": torch.zeros(2, dtype=torch.float64), "bias": MEAN["bias"]}
    with pytest.raises(regvar.RegvarError, match="weight"):
        joint(regvar.GaussianPrior(precision=1.0, mean=wrong)).check()
