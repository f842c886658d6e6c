"""Whether stated errors are the real ones: simulated again and again, and by the bootstrap."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from regvar import metrics
from tests.metrics.data import calibrated, classifier, regression, scores

ECES = [metrics.ECE, metrics.AdaptiveECE]


def spread(values: list[float]) -> tuple[float, float, float]:
    """Mean, its standard error, and standard deviation."""
    v = torch.tensor(values, dtype=torch.float64)
    return float(v.mean()), float(v.std()) / math.sqrt(len(v)), float(v.std())


@pytest.mark.parametrize("make", ECES)
def test_calibrated_classifiers_have_the_ece_that_chance_gives(
    make: type[metrics.ECE] | type[metrics.AdaptiveECE],
) -> None:
    runs = []
    for seed in range(200):
        metric = make()
        metric.update_confidence(*calibrated(2000, seed))
        runs.append(metric)
    mean, error, deviation = spread([run.compute().value for run in runs])
    chance = spread([run.expected_if_calibrated().value for run in runs])[0]
    stated = spread([run.expected_if_calibrated().standard_error for run in runs])[0]
    assert abs(mean - chance) < 3 * error + 0.02 * chance  # normal approximation: 2 %
    assert deviation == pytest.approx(stated, rel=0.2)
    within = [run.excess().interval[0] <= 0 <= run.excess().interval[1] for run in runs]
    assert sum(within) >= 0.95 * len(runs)
    # The plain interval is around a value that is biased upwards: it need not reach zero.
    assert mean > 1.96 * spread([run.compute().standard_error for run in runs])[0]


@pytest.mark.parametrize("make", ECES)
def test_a_miscalibrated_classifier_is_found_out(
    make: type[metrics.ECE] | type[metrics.AdaptiveECE],
) -> None:
    values, errors = [], []
    for seed in range(100):
        metric = make()
        metric.update(*classifier(2000, seed=seed))
        values.append(metric.compute().value)
        errors.append(metric.compute().standard_error)
        assert metric.excess().interval[0] > 0
    assert spread(values)[2] == pytest.approx(spread(errors)[0], rel=0.2)


def test_auroc_and_aurc_state_the_error_that_they_have() -> None:
    areas, curves = [], []
    for seed in range(300):
        values, positive = scores(200, seed)
        areas.append(metrics.auroc(values, positive))
        curves.append(metrics.risk_coverage(values, positive).area)
    for estimates in (areas, curves):
        truth, _, deviation = spread([e.value for e in estimates])
        assert spread([e.standard_error for e in estimates])[0] == pytest.approx(deviation, rel=0.1)
        hits = [e.interval[0] <= truth <= e.interval[1] for e in estimates]
        assert 0.9 <= sum(hits) / len(hits) <= 0.98


def test_bootstrap_agrees_with_delong_and_with_the_influence_function() -> None:
    values, positive = scores(400, tied=True)

    def area(s: Tensor, y: Tensor) -> float:
        return metrics.auroc(s, y).value

    def aurc(s: Tensor, y: Tensor) -> float:
        return metrics.risk_coverage(s, y).area.value

    exact = metrics.auroc(values, positive)
    drawn = metrics.bootstrap(area, values, positive, strata=positive, resamples=600)
    assert drawn.value == exact.value
    assert drawn.standard_error == pytest.approx(exact.standard_error, rel=0.1)
    assert drawn.percentile == pytest.approx(drawn.interval, abs=0.02)
    again = metrics.bootstrap(area, values, positive, strata=positive, resamples=600)
    assert torch.equal(drawn.replicates, again.replicates)
    other = metrics.bootstrap(area, values, positive, strata=positive, resamples=600, seed=1)
    assert not torch.equal(drawn.replicates, other.replicates)
    curve = metrics.bootstrap(aurc, values, positive, resamples=600)
    stated = metrics.risk_coverage(values, positive).area.standard_error
    assert curve.standard_error == pytest.approx(stated, rel=0.1)


def test_bootstrap_sees_the_bias_of_ece() -> None:
    drawn = metrics.bootstrap(metrics.calibration_error, *calibrated(1000, 0), resamples=300)
    assert drawn.bias > 0


def test_picp_of_true_variances_is_its_level() -> None:
    mean, variance, targets = regression(20_000)
    for level in (0.5, 0.95):
        picp = metrics.PICP(level)
        picp.update(mean, 1.44 * variance, targets)
        assert abs(picp.compute().value - level) < 3 * picp.compute().standard_error


def test_one_datum_has_no_standard_error() -> None:
    nll = metrics.NLL()
    nll.update_log_probs(torch.tensor([-1.0]))
    assert nll.compute().value == 1
    assert math.isnan(nll.compute().standard_error)
    assert math.isnan(metrics.auroc(torch.tensor([0.0, 1.0]), torch.tensor([0, 1])).standard_error)


def test_numbers_far_from_zero_keep_their_digits() -> None:
    nll = metrics.NLL()
    values = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    for value in values:
        nll.update_log_probs(1e9 + value[None])
    assert nll.compute().standard_error == pytest.approx(float(values.std()) / 2, rel=1e-6)


def test_numbers_too_large_to_square_have_a_mean() -> None:
    nll = metrics.NLL()
    for value in (-1.0, -1e200):
        nll.update_log_probs(torch.tensor([value], dtype=torch.float64))
    assert nll.compute().value == pytest.approx(5e199)
    assert nll.compute().standard_error == math.inf
