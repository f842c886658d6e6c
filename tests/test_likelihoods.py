"""Likelihoods against torch.distributions and autograd, and their noise against their curvature."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Normal

import regvar

OUTPUTS = torch.tensor([[0.4, -1.3, 2.0], [1.1, 0.2, -0.7]], dtype=torch.float64)
SIGMAS = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
REAL = torch.tensor([[0.1, -1.0, 1.0], [2.0, 0.0, 0.3]], dtype=torch.float64)
BITS = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
LABELS = torch.tensor([2, 0])


def poisson(outputs: Tensor, targets: Tensor) -> Tensor:
    """A log likelihood of the user's own, with the outputs of one example interacting."""
    rate = outputs.cumsum(dim=-1)
    return targets * rate - rate.exp()


CASES = {
    "gaussian": (regvar.Gaussian(sigma=0.7), REAL),
    "gaussian, a sigma per output": (regvar.Gaussian(sigma=SIGMAS), REAL),
    "categorical": (regvar.Categorical(), LABELS),
    "bernoulli": (regvar.Bernoulli(), BITS),
    "custom": (regvar.Custom(poisson), BITS),
}
each_case = pytest.mark.parametrize(("likelihood", "targets"), CASES.values(), ids=list(CASES))


def dense_curvature(likelihood: regvar.Categorical, outputs: Tensor, targets: Tensor) -> Tensor:
    """Λ over all outputs of the batch, by autograd's own Hessian of the log likelihood."""

    def negative(flat: Tensor) -> Tensor:
        return -likelihood.log_prob(flat.reshape(outputs.shape), targets)

    return torch.autograd.functional.hessian(negative, outputs.flatten())


def columns(product: Callable[..., Tensor], outputs: Tensor, targets: Tensor) -> Tensor:
    """The matrix of a linear map on the outputs: its products with every unit vector."""
    units = torch.eye(outputs.numel(), dtype=outputs.dtype)
    images = [product(outputs, targets, unit.reshape(outputs.shape)).flatten() for unit in units]
    return torch.stack(images, dim=1)


def test_log_prob_of_gaussian() -> None:
    for sigma in (0.7, SIGMAS):
        expected = Normal(OUTPUTS, sigma).log_prob(REAL).sum()
        torch.testing.assert_close(regvar.Gaussian(sigma=sigma).log_prob(OUTPUTS, REAL), expected)


def test_log_prob_of_categorical() -> None:
    expected = Categorical(logits=OUTPUTS).log_prob(LABELS).sum()
    torch.testing.assert_close(regvar.Categorical().log_prob(OUTPUTS, LABELS), expected)


def test_log_prob_of_bernoulli() -> None:
    expected = Bernoulli(logits=OUTPUTS).log_prob(BITS).sum()
    torch.testing.assert_close(regvar.Bernoulli().log_prob(OUTPUTS, BITS), expected)


def test_log_prob_of_custom_is_summed() -> None:
    rate = torch.tensor([[0.4, -0.9, 1.1], [1.1, 1.3, 0.6]], dtype=torch.float64)
    expected = (BITS * rate - torch.exp(rate)).sum()
    torch.testing.assert_close(regvar.Custom(poisson).log_prob(OUTPUTS, BITS), expected)


@each_case
def test_curvature_is_the_hessian_in_the_outputs(
    likelihood: regvar.Categorical, targets: Tensor
) -> None:
    exact = dense_curvature(likelihood, OUTPUTS, targets)
    torch.testing.assert_close(columns(likelihood.curvature, OUTPUTS, targets), exact)


@each_case
def test_noise_has_the_curvature_as_its_covariance(
    likelihood: regvar.Categorical, targets: Tensor
) -> None:
    root = columns(likelihood.noise, OUTPUTS, targets)
    torch.testing.assert_close(root @ root.T, dense_curvature(likelihood, OUTPUTS, targets))


def test_categorical_ignores_labels() -> None:
    """An ignored position adds nothing: to the value, to the curvature or to the noise."""
    likelihood = regvar.Categorical(ignore_index=-7)
    targets = torch.tensor([2, -7])
    expected = Categorical(logits=OUTPUTS[0]).log_prob(LABELS[0])
    torch.testing.assert_close(likelihood.log_prob(OUTPUTS, targets), expected)
    curvature = dense_curvature(likelihood, OUTPUTS, targets)
    assert curvature[3:].abs().max() == 0
    torch.testing.assert_close(columns(likelihood.curvature, OUTPUTS, targets), curvature)
    root = columns(likelihood.noise, OUTPUTS, targets)
    torch.testing.assert_close(root @ root.T, curvature)


def test_categorical_with_classes_elsewhere() -> None:
    """Outputs [B, classes, T], as a network for images or sequences may give them."""
    generator = torch.Generator().manual_seed(0)
    outputs = torch.randn((2, 3, 4), generator=generator, dtype=torch.float64)
    targets = torch.randint(3, (2, 4), generator=generator)
    targets[0, 1] = -100
    likelihood = regvar.Categorical(class_dim=1)
    kept = targets != -100
    expected = Categorical(logits=outputs.transpose(1, 2)[kept]).log_prob(targets[kept]).sum()
    torch.testing.assert_close(likelihood.log_prob(outputs, targets), expected)
    curvature = dense_curvature(likelihood, outputs, targets)
    torch.testing.assert_close(columns(likelihood.curvature, outputs, targets), curvature)
    root = columns(likelihood.noise, outputs, targets)
    torch.testing.assert_close(root @ root.T, curvature)


def test_extreme_logits_stay_finite() -> None:
    """Confident networks have logits in the hundreds; a naive exp would overflow."""
    outputs = torch.tensor([[800.0, -800.0, 0.0]], dtype=torch.float64)
    targets = torch.zeros((1, 3), dtype=torch.float64)
    for likelihood, labels, expected in (
        (regvar.Categorical(), torch.tensor([2]), -800.0),
        (regvar.Bernoulli(), targets, -800.0 - math.log(2)),
    ):
        assert float(likelihood.log_prob(outputs, labels)) == pytest.approx(expected)
        units = torch.ones_like(outputs)
        assert likelihood.curvature(outputs, labels, units).isfinite().all()
        assert likelihood.noise(outputs, labels, units).isfinite().all()


@pytest.mark.parametrize("sigma", [0.0, -1.0, torch.tensor([1.0, 0.0])])
def test_sigma_must_be_positive(sigma: float) -> None:
    with pytest.raises(regvar.RegvarError, match="sigma"):
        regvar.Gaussian(sigma=sigma)


@pytest.mark.parametrize(
    ("likelihood", "targets", "words"),
    [
        (regvar.Gaussian(sigma=1.0), torch.zeros(2), "shape"),
        (regvar.Gaussian(sigma=1.0), REAL * float("nan"), "NaN"),
        (regvar.Bernoulli(), torch.zeros(2, 1), "shape"),
        (regvar.Bernoulli(), BITS + 1, "range"),
        (regvar.Categorical(), torch.tensor([0, 3]), "range"),
        (regvar.Categorical(), torch.tensor([0, -1]), "range"),
        (regvar.Categorical(), torch.tensor([[0], [1]]), "shape"),
    ],
    ids=str,
)
def test_bad_targets_are_refused(
    likelihood: regvar.Categorical, targets: Tensor, words: str
) -> None:
    joint = regvar.LogJoint(
        torch.nn.Linear(3, 3).double(),
        [(OUTPUTS, targets)],
        likelihood=likelihood,
        prior=regvar.GaussianPrior(precision=1.0),
    )
    with pytest.raises(regvar.RegvarError, match=words):
        joint.check()
