"""The probit approximation: its formula, and how far it is from the integral it stands for."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

import regvar
from regvar.predictives import MonteCarlo, Probit

from .integrals import binary_entropy, information, logits, yes

MEANS = (-6.0, -1.5, -0.2, 0.0, 0.7, 3.0, 10.0)
VARIANCES = (0.0, 0.05, 1.0, 5.0, 60.0)


def kappa(variance: torch.Tensor) -> torch.Tensor:
    return 1 / (1 + math.pi * variance / 8).sqrt()


def one(mean: float, variance: float) -> regvar.Moments:
    return regvar.Moments(
        torch.tensor([[mean]], dtype=torch.float64), torch.tensor([[variance]], dtype=torch.float64)
    )


def test_formula_of_equation_20() -> None:
    moments, targets, scales = logits(), torch.tensor([0, 3, 1, 2, 2, 0]), (0.0, 0.5, 4.0)
    predictive = Probit(regvar.Categorical())
    for scale, values in zip(scales, predictive.log_prob(moments, targets, scales), strict=True):
        p = torch.softmax(kappa(scale * moments.variance) * moments.mean, -1)
        torch.testing.assert_close(values.exp(), p[range(6), targets])
    expected = torch.softmax(kappa(moments.variance) * moments.mean, -1)
    torch.testing.assert_close(predictive.predict(moments).probs, expected)


def test_a_shared_variance_is_one_temperature_for_each_input() -> None:
    moments, targets, scales = logits(), torch.tensor([0, 3, 1, 2, 2, 0]), (0.0, 0.5, 4.0)
    predictive = Probit(regvar.Categorical(), shared=True)
    pooled = moments.variance.mean(-1, keepdim=True)
    for scale, values in zip(scales, predictive.log_prob(moments, targets, scales), strict=True):
        p = torch.softmax(kappa(scale * pooled) * moments.mean, -1)
        torch.testing.assert_close(values.exp(), p[range(6), targets])
    found = predictive.predict(moments)
    torch.testing.assert_close(found.probs, torch.softmax(kappa(pooled) * moments.mean, -1))
    assert torch.equal(found.probs.argmax(-1), moments.mean.argmax(-1))
    moved = predictive.predict(regvar.Moments(moments.mean + 7.0, moments.variance))
    torch.testing.assert_close(moved.probs, found.probs)
    same = regvar.Moments(moments.mean, pooled.expand_as(moments.mean))
    plain = Probit(regvar.Categorical()).predict(same)
    torch.testing.assert_close(plain.probs, found.probs)
    torch.testing.assert_close(plain.epistemic, found.epistemic)


def test_formula_for_yes_and_no() -> None:
    moments = logits()
    targets = (logits(seed=1).mean > 0).double()
    predictive = Probit(regvar.Bernoulli())
    p = torch.sigmoid(kappa(moments.variance) * moments.mean)
    torch.testing.assert_close(predictive.predict(moments).probs, p)
    expected = torch.where(targets > 0, p, 1 - p).log().sum(1)
    torch.testing.assert_close(predictive.log_prob(moments, targets)[0], expected)


@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize("mean", MEANS)
def test_within_two_hundredths_of_the_integral(mean: float, variance: float) -> None:
    found = Probit(regvar.Bernoulli()).predict(one(mean, variance))
    assert abs(float(found.probs) - yes(mean, variance)) < 0.02
    assert abs(float(found.epistemic) - information(mean, variance)) < 2e-4


def test_without_variance_nothing_is_epistemic() -> None:
    mean = logits().mean
    still = regvar.Moments(mean, torch.zeros_like(mean))
    for likelihood in (regvar.Categorical(), regvar.Bernoulli()):
        found = Probit(likelihood).predict(still)
        torch.testing.assert_close(found.epistemic, torch.zeros_like(found.epistemic))


def test_information_is_right_to_first_order() -> None:
    """Against many draws, at a variance small enough for the rest of the series."""
    moments = logits(batch=20, variance=0.02)
    close = MonteCarlo(regvar.Categorical(), samples=4000).predict(moments).epistemic
    found = Probit(regvar.Categorical()).predict(moments).epistemic
    assert abs(float(found.sum() / close.sum()) - 1) < 0.03


@pytest.mark.parametrize("variance", [0.1, 3.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uncertainties_add_up(variance: float, dtype: torch.dtype) -> None:
    moments = logits(batch=50, variance=variance)
    moments = regvar.Moments(moments.mean.to(dtype), moments.variance.to(dtype))
    found = Probit(regvar.Categorical()).predict(moments)
    entropy = -(found.probs * found.probs.log()).sum(-1)
    torch.testing.assert_close(found.total, entropy)
    assert bool((found.epistemic >= 0).all()) and bool((found.aleatoric >= 0).all())
    found = Probit(regvar.Bernoulli()).predict(moments)
    torch.testing.assert_close(found.total, binary_entropy(found.probs))
    assert bool((found.epistemic >= 0).all()) and bool((found.aleatoric >= 0).all())


def test_ignored_labels_are_left_out() -> None:
    moments = logits()
    everything = Probit(regvar.Categorical()).log_prob(moments, torch.tensor([0, 3, 1, 2, 2, 0]))
    some = Probit(regvar.Categorical()).log_prob(moments, torch.tensor([0, -100, 1, -100, 2, 0]))
    torch.testing.assert_close(some, everything[:, [0, 2, 4, 5]])


PREDICTIVES = [Probit, lambda likelihood: MonteCarlo(likelihood, samples=5)]


@pytest.mark.parametrize("make", PREDICTIVES, ids=["Probit", "MonteCarlo"])
def test_classes_along_another_dimension(make: Callable[..., Probit | MonteCarlo]) -> None:
    """Images of labels: [batch, classes, height] with class_dim 1."""
    flat = logits(batch=6)
    image = regvar.Moments(
        flat.mean.reshape(2, 3, 4).mT.contiguous(), flat.variance.reshape(2, 3, 4).mT.contiguous()
    )
    labels = torch.tensor([0, 3, 1, -100, 2, 0])
    plain, along = make(regvar.Categorical()), make(regvar.Categorical(class_dim=1))
    torch.testing.assert_close(
        along.log_prob(image, labels.reshape(2, 3)), plain.log_prob(flat, labels)
    )
    found, expected = along.predict(image), plain.predict(flat)
    torch.testing.assert_close(found.probs, expected.probs.reshape(2, 3, 4).mT)
    torch.testing.assert_close(found.epistemic, expected.epistemic.reshape(2, 3))
    torch.testing.assert_close(found.total, expected.total.reshape(2, 3))


@pytest.mark.parametrize("make", PREDICTIVES, ids=["Probit", "MonteCarlo"])
def test_scored_in_parts_as_at_once(
    make: Callable[..., Probit | MonteCarlo], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vocabulary's logits are scored some at a time, which is seen nowhere."""
    moments, words = logits(batch=7), torch.tensor([0, 3, -100, 2, 2, 0, -100])
    yes_or_no = (moments.mean > 0.3).double()
    cases = [(make(regvar.Categorical()), words), (make(regvar.Bernoulli()), yes_or_no)]
    whole = [predictive.log_prob(moments, y, (0.5, 2.0)) for predictive, y in cases]
    assert [values.shape for values in whole] == [(2, 5), (2, 7)]
    monkeypatch.setattr("regvar.predictives.labels._AT_A_TIME", 9)
    for values, (predictive, y) in zip(whole, cases, strict=True):
        torch.testing.assert_close(predictive.log_prob(moments, y, (0.5, 2.0)), values)


@pytest.mark.parametrize("make", PREDICTIVES, ids=["Probit", "MonteCarlo"])
def test_an_empty_batch_has_no_data(make: Callable[..., Probit | MonteCarlo]) -> None:
    nothing = regvar.Moments(torch.zeros(0, 4), torch.zeros(0, 4))
    for likelihood, y in (
        (regvar.Categorical(), torch.zeros(0).long()),
        (regvar.Bernoulli(), torch.zeros(0, 4)),
    ):
        assert make(likelihood).log_prob(nothing, y, (0.5, 2.0)).shape == (2, 0)
        assert make(likelihood).predict(nothing).probs.shape == (0, 4)


def test_mistakes() -> None:
    with pytest.raises(regvar.RegvarError, match="likelihood must be"):
        Probit(regvar.Gaussian(sigma=1.0))  # pyright: ignore[reportArgumentType]
    with pytest.raises(regvar.RegvarError, match="shared must be False for Bernoulli"):
        Probit(regvar.Bernoulli(), shared=True)
    with pytest.raises(regvar.RegvarError, match="targets"):
        Probit(regvar.Categorical()).log_prob(logits(), None)
