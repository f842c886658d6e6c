"""Monte Carlo against quadrature and against itself in other batches."""

from __future__ import annotations

import pytest
import torch

import regvar
from regvar.predictives import MonteCarlo

from .integrals import binary_entropy, information, logits, yes


@pytest.mark.parametrize(("mean", "variance"), [(0.4, 0.5), (-2.0, 4.0), (3.0, 30.0)])
def test_within_three_standard_errors_of_the_integral(mean: float, variance: float) -> None:
    """Many equal rows: each has draws of its own, so their spread is the standard error."""
    rows = 200
    moments = regvar.Moments(
        torch.full((rows, 1), mean, dtype=torch.float64),
        torch.full((rows, 1), variance, dtype=torch.float64),
    )
    predictive = MonteCarlo(regvar.Bernoulli(), samples=20, seed=3)
    probs = predictive.predict(moments).probs
    error = float(probs.std() / rows**0.5)
    assert abs(float(probs.mean()) - yes(mean, variance)) < 3 * error
    score = predictive.log_prob(moments, torch.ones(rows, 1, dtype=torch.float64))
    torch.testing.assert_close(score[0].exp(), probs[:, 0])


def test_two_classes_are_one_difference_of_logits() -> None:
    """Softmax of two independent logits is the sigmoid of their difference."""
    rows = 200
    moments = regvar.Moments(
        torch.tensor([[1.0, 0.2]], dtype=torch.float64).repeat(rows, 1),
        torch.tensor([[2.0, 1.0]], dtype=torch.float64).repeat(rows, 1),
    )
    found = MonteCarlo(regvar.Categorical(), samples=50).predict(moments)
    probs, truth = found.probs[:, 0], yes(0.8, 3.0)
    assert abs(float(probs.mean()) - truth) < 3 * float(probs.std() / rows**0.5)
    # The plug-in information of S draws is too small by about its variance over S.
    assert float(found.epistemic.mean()) == pytest.approx(information(0.8, 3.0), rel=0.05)


@pytest.mark.parametrize("likelihood", [regvar.Categorical(), regvar.Bernoulli()])
@pytest.mark.parametrize("variance", [0.0, 0.1, 3.0, 1e4])
def test_uncertainties_add_up(
    likelihood: regvar.Categorical | regvar.Bernoulli, variance: float
) -> None:
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


def test_same_in_every_batch_size_and_seeded() -> None:
    moments, targets = logits(batch=10), torch.arange(10) % 4
    predictive = MonteCarlo(regvar.Categorical(), samples=9, seed=1)
    whole, scores = predictive.predict(moments), predictive.log_prob(moments, targets, (0.5, 2.0))
    for start, stop in ((0, 3), (3, 4), (4, 10)):
        part = regvar.Moments(moments.mean[start:stop], moments.variance[start:stop])
        torch.testing.assert_close(predictive.predict(part, start).probs, whole.probs[start:stop])
        found = predictive.log_prob(part, targets[start:stop], (0.5, 2.0), start)
        torch.testing.assert_close(found, scores[:, start:stop])
    other = MonteCarlo(regvar.Categorical(), samples=9, seed=2).predict(moments)
    assert not torch.allclose(other.probs, whole.probs)


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
