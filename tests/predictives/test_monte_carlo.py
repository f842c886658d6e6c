"""Monte Carlo against quadrature and against itself in other batches."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import regvar
from regvar.predictives import MonteCarlo, scaled

from .integrals import binary_entropy, information, logits, yes

LabelModel = regvar.Categorical | regvar.Bernoulli


def double(values: list[list[float]]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def over_seeds(moments: regvar.Moments, likelihood: LabelModel, samples: int) -> list[Tensor]:
    """The first probability, and its information, of 200 independent predictives."""
    found = [MonteCarlo(likelihood, samples, seed).predict(moments) for seed in range(200)]
    probs = torch.stack([prediction.probs.flatten()[0] for prediction in found])
    return [probs, torch.stack([prediction.epistemic.flatten()[0] for prediction in found])]


@pytest.mark.parametrize(("mean", "variance"), [(0.4, 0.5), (-2.0, 4.0), (3.0, 30.0)])
def test_within_three_standard_errors_of_the_integral(mean: float, variance: float) -> None:
    moments = regvar.Moments(double([[mean]]), double([[variance]]))
    probs, _ = over_seeds(moments, regvar.Bernoulli(), samples=20)
    assert abs(float(probs.mean()) - yes(mean, variance)) < 3 * float(probs.std()) / 200**0.5
    assert float(probs.std()) <= 1.2 / (2 * 20**0.5)  # the stated bound, and chance


def test_two_classes_are_one_difference_of_logits() -> None:
    """Softmax of two independent logits is the sigmoid of their difference."""
    moments = regvar.Moments(double([[1.0, 0.2]]), double([[2.0, 1.0]]))
    probs, found = over_seeds(moments, regvar.Categorical(), samples=50)
    assert abs(float(probs.mean()) - yes(0.8, 3.0)) < 3 * float(probs.std()) / 200**0.5
    # The plug-in information of S draws is too small by about its variance over S.
    assert float(found.mean()) == pytest.approx(information(0.8, 3.0), rel=0.05)


@pytest.mark.parametrize("likelihood", [regvar.Categorical(), regvar.Bernoulli()])
def test_log_prob_is_that_of_the_prediction(likelihood: LabelModel) -> None:
    moments, scales = logits(batch=10), (0.5, 2.0)
    classes = isinstance(likelihood, regvar.Categorical)
    targets = torch.arange(10) % 4 if classes else (logits(10, seed=1).mean > 0).double()
    predictive = MonteCarlo(likelihood, samples=9)
    for scale, values in zip(scales, predictive.log_prob(moments, targets, scales), strict=True):
        p = predictive.predict(scaled(moments, scale)).probs
        chosen = p[range(10), targets] if classes else torch.where(targets > 0, p, 1 - p)
        torch.testing.assert_close(values, chosen.log().reshape(10, -1).sum(1))


@pytest.mark.parametrize("likelihood", [regvar.Categorical(), regvar.Bernoulli()])
@pytest.mark.parametrize("variance", [0.0, 0.1, 3.0, 1e4])
def test_uncertainties_add_up(likelihood: LabelModel, variance: float) -> None:
    moments = logits(batch=20, variance=variance)
    single = regvar.Moments(moments.mean.float(), moments.variance.float())
    found = MonteCarlo(likelihood, samples=7).predict(single)
    assert bool((found.epistemic >= 0).all()) and bool((found.aleatoric >= -1e-6).all())
    if isinstance(likelihood, regvar.Bernoulli):
        entropy = binary_entropy(found.probs)
    else:
        entropy = -torch.xlogy(found.probs, found.probs).sum(-1)
    torch.testing.assert_close(found.total, entropy)
    torch.testing.assert_close(found.total, found.aleatoric + found.epistemic)


@pytest.mark.parametrize("likelihood", [regvar.Categorical(), regvar.Bernoulli()])
def test_an_answer_does_not_depend_on_the_rest_of_the_batch(likelihood: LabelModel) -> None:
    moments = logits(batch=10)
    predictive = MonteCarlo(likelihood, samples=9, seed=1)
    whole = predictive.predict(moments).probs
    order = torch.tensor([7, 2, 5])
    part = regvar.Moments(moments.mean[order], moments.variance[order])
    torch.testing.assert_close(predictive.predict(part).probs, whole[order])
    assert torch.equal(MonteCarlo(likelihood, 9, 1).predict(moments).probs, whole)
    assert not torch.allclose(MonteCarlo(likelihood, 9, 2).predict(moments).probs, whole)


def test_scale_zero_is_the_network_alone() -> None:
    moments, targets = logits(), torch.tensor([0, -100, 1, 2, 2, 0])
    found = MonteCarlo(regvar.Categorical(), samples=3).log_prob(moments, targets, (0.0,))
    assert found.shape == (1, 5)
    torch.testing.assert_close(found.sum(), regvar.Categorical().log_prob(moments.mean, targets))


def test_mistakes() -> None:
    with pytest.raises(regvar.RegvarError, match="samples must be at least 1"):
        MonteCarlo(regvar.Categorical(), samples=0)
    with pytest.raises(regvar.RegvarError, match="likelihood must be"):
        MonteCarlo(regvar.Gaussian(sigma=1.0))  # pyright: ignore[reportArgumentType]
