"""Every metric against another library, or against its definition written out naively."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scoringrules
import sklearn.metrics
import torch
from scipy import stats
from torch import Tensor
from torchmetrics.functional import classification as torchmetrics

from regvar import metrics
from tests.metrics.data import classifier, regression, scores, stream

EXACT = 1e-6  # what the project promises; float64 gives far more


def close(ours: float, theirs: float) -> bool:
    return ours == pytest.approx(float(theirs), rel=EXACT, abs=EXACT)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_nll_brier_accuracy_equal_scikit_learn(dtype: torch.dtype) -> None:
    probs, labels = classifier()
    p, y = probs.numpy(), labels.numpy()
    expected = [
        (metrics.NLL(), sklearn.metrics.log_loss(y, p, labels=range(5))),
        (metrics.Brier(), sklearn.metrics.brier_score_loss(y, p, labels=range(5))),
        (metrics.Accuracy(), sklearn.metrics.accuracy_score(y, p.argmax(1))),
    ]
    for metric, theirs in expected:
        metric.update(probs.to(dtype), labels)
        assert close(metric.compute().value, theirs), metric


def test_standard_errors_of_means_and_of_proportions() -> None:
    probs, labels = classifier()
    nll, accuracy = metrics.NLL(), metrics.Accuracy()
    nll.update(probs, labels)
    accuracy.update(probs, labels)
    losses = -probs.gather(1, labels[:, None]).log().squeeze(1).numpy()
    p = accuracy.compute().value
    assert close(nll.compute().standard_error, stats.sem(losses))
    assert close(accuracy.compute().standard_error, math.sqrt(p * (1 - p) / len(labels)))
    low, high = accuracy.compute().interval
    assert close(high - low, 2 * 1.96 * accuracy.compute().standard_error)


def test_gaussian_scores_equal_scoringrules_and_scipy() -> None:
    mean, variance, targets = regression()
    m, s, y = mean.numpy(), variance.sqrt().numpy(), targets.numpy()
    nll, crps, picp = metrics.NLL(), metrics.CRPS(), metrics.PICP()
    nll.update_gaussian(mean, variance, targets)
    crps.update(mean, variance, targets)
    picp.update(mean, variance, targets)
    low, high = stats.norm.interval(0.95, m, s)
    assert close(nll.compute().value, scoringrules.logs_normal(y, m, s).mean())
    assert close(crps.compute().value, scoringrules.crps_normal(y, m, s).mean())
    assert close(picp.compute().value, ((low <= y) & (y <= high)).mean())
    torch.testing.assert_close(
        metrics.gaussian_crps(mean, variance, targets),
        torch.from_numpy(np.asarray(scoringrules.crps_normal(y, m, s))),
        rtol=0,
        atol=1e-12,
    )


@pytest.mark.parametrize(("fair", "name"), [(True, "fair"), (False, "nrg")])
def test_sample_crps_equals_scoringrules(fair: bool, name: str) -> None:
    mean, variance, targets = regression()
    noise = torch.randn(9, len(mean), generator=stream(1), dtype=torch.float64)
    draws = mean + variance.sqrt() * noise
    theirs = scoringrules.crps_ensemble(targets.numpy(), draws.T.numpy(), estimator=name)
    ours = metrics.sample_crps(draws, targets, fair=fair)
    torch.testing.assert_close(ours, torch.from_numpy(theirs), rtol=0, atol=1e-12)


def test_fair_sample_crps_is_unbiased_and_the_unfair_one_too_large_as_stated() -> None:
    n, draws = 40_000, 3
    x = torch.randn(draws, n, generator=stream(0), dtype=torch.float64)
    y = torch.zeros(n, dtype=torch.float64)
    exact = float(metrics.gaussian_crps(y[:1], torch.ones(1), y[:1]))
    apart = 2 / math.sqrt(math.pi)  # E|x − x′|
    for fair, bias in ((True, 0.0), (False, apart / (2 * draws))):
        crps = metrics.CRPS()
        crps.update_samples(x, y, fair=fair)
        estimate = crps.compute()
        assert abs(estimate.value - exact - bias) < 4 * estimate.standard_error


@pytest.mark.parametrize("bins", [10, 15])
def test_ece_equals_torchmetrics(bins: int) -> None:
    probs, labels = classifier(2000)
    ece = metrics.ECE(bins)
    ece.update(probs, labels)
    theirs = torchmetrics.multiclass_calibration_error(probs, labels, num_classes=5, n_bins=bins)
    assert close(ece.compute().value, theirs)
    confidence, predicted = probs.max(1)
    assert close(metrics.calibration_error(confidence, predicted == labels, bins=bins), theirs)


@pytest.mark.parametrize("n", [7, 500, 503])
def test_adaptive_ece_equals_its_definition(n: int) -> None:
    probs, labels = classifier(n)
    ace = metrics.AdaptiveECE()
    ace.update(probs, labels)
    confidence, predicted = probs.max(1)
    order = confidence.argsort().numpy()
    c, a = confidence.numpy()[order], (predicted == labels).double().numpy()[order]
    runs = zip(np.array_split(c, 10), np.array_split(a, 10), strict=True)
    assert close(ace.compute().value, sum(abs((b - d).sum()) for b, d in runs) / n)


@pytest.mark.parametrize("tied", [False, True])
def test_auroc_equals_scikit_learn_and_delong_written_out(tied: bool) -> None:
    values, positive = scores(tied=tied)
    ours = metrics.auroc(values, positive)
    high, low = values[positive], values[~positive]
    wins = (high[:, None] > low).double() + 0.5 * (high[:, None] == low)
    variance = wins.mean(1).var() / len(high) + wins.mean(0).var() / len(low)
    assert close(ours.value, sklearn.metrics.roc_auc_score(positive.numpy(), values.numpy()))
    assert close(ours.standard_error, math.sqrt(float(variance)))


def test_rank_correlation_equals_scipy() -> None:
    values, _ = scores()
    coarse, _ = scores(seed=1, tied=True)
    for other in (coarse, -coarse, values + coarse):
        expected = stats.spearmanr(values.numpy(), other.numpy()).statistic
        assert close(metrics.rank_correlation(values, other), expected)
    assert math.isnan(metrics.rank_correlation(values, torch.ones(300)))


def test_risk_coverage_equals_its_definition() -> None:
    uncertainty, wrong = scores(200)
    curve = metrics.risk_coverage(uncertainty, wrong)
    kept = wrong[uncertainty.argsort()].double()
    risks = [float(kept[: k + 1].mean()) for k in range(200)]
    assert close(curve.area.value, np.mean(risks))
    torch.testing.assert_close(curve.risk, torch.tensor(risks, dtype=torch.float64))
    assert curve.coverage[-1] == 1


def test_risk_coverage_of_ties_is_the_mean_over_their_orders() -> None:
    uncertainty = torch.tensor([0.0, 1.0, 1.0, 1.0, 2.0])
    loss = torch.tensor([1.0, 0.0, 1.0, 3.0, 2.0])

    def area(order: tuple[int, ...]) -> float:
        kept: Tensor = loss[[0, *order, 4]].double()
        return float((kept.cumsum(0) / torch.arange(1, 6)).mean())

    expected = np.mean([area(order) for order in itertools.permutations((1, 2, 3))])
    assert close(metrics.risk_coverage(uncertainty, loss).area.value, expected)


def test_log_probs_from_logits_where_probabilities_underflow() -> None:
    logits = torch.tensor([[0.0, 200.0], [3.0, 1.0]])
    nll, rounded = metrics.NLL(), metrics.NLL()
    nll.update_log_probs(metrics.label_log_probs(logits, torch.tensor([0, -100])))
    rounded.update(logits.softmax(-1), torch.tensor([0, 1]))
    assert nll.compute().value == 200
    assert nll.compute().count == 1
    assert rounded.compute().value == math.inf
