"""What every estimator promises on every network: shapes, values, and answers that repeat."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import regvar

from .estimators import CASES_WITH_MOMENTS, PARAMETER, EstimatorCase, label, pairs
from .networks import BY_NAME, CASES, NetworkCase, rows

pytestmark = pytest.mark.filterwarnings("ignore::regvar.SolverWarning")
every_pair = pytest.mark.parametrize(("estimator", "network"), pairs(), ids=label)
every_network = pytest.mark.parametrize("network", CASES, ids=label)
with_covariance = [e for e in CASES_WITH_MOMENTS if e.name in ("pointwise", "sampled", "ggn")]


@cache
def fitted(estimator: EstimatorCase, network: NetworkCase) -> Any:
    """One fit, shared by the tests that only read it."""
    return estimator.fit(network, network.joint(), 0)


@cache
def answer(estimator: EstimatorCase, network: NetworkCase) -> regvar.Moments:
    return fitted(estimator, network).moments(network.query())


def close(actual: Tensor, expected: Tensor, rounding: float) -> None:
    """Equal up to rounding, relative to the largest entry."""
    scale = float(expected.abs().max())
    torch.testing.assert_close(actual, expected, rtol=0, atol=rounding * scale)


@every_pair
def test_moments_are_sound(estimator: EstimatorCase, network: NetworkCase) -> None:
    batch = network.query_batch()
    moments = answer(estimator, network)
    with torch.no_grad():
        own = network.output(network.model(), batch)
    assert own.shape == (network.queries, *network.outputs)
    assert moments.mean.shape == moments.variance.shape == own.shape
    assert moments.mean.dtype == moments.variance.dtype == own.dtype
    assert not moments.mean.requires_grad and not moments.variance.requires_grad
    assert moments.variance.isfinite().all()
    assert (moments.variance >= 0).all()
    assert (moments.variance.unique().numel() == 1) == estimator.constant
    if not estimator.own_mean:
        close(moments.mean, own, 1e-12 if network.rounding < 1e-6 else 1e-6)


@every_pair
def test_query_batches_and_order_do_not_matter(
    estimator: EstimatorCase, network: NetworkCase
) -> None:
    uq, x = fitted(estimator, network), network.query()
    whole = answer(estimator, network)
    order = torch.arange(network.queries - 1, -1, -1)
    single = [uq.moments(rows(x, slice(i, i + 1))) for i in range(network.queries)]
    turned = uq.moments(rows(x, order))
    for part in ("mean", "variance"):
        expected = getattr(whole, part)
        close(torch.cat([getattr(m, part) for m in single]), expected, network.rounding)
        close(getattr(turned, part), expected[order], network.rounding)


@every_pair
def test_a_query_may_be_a_batch_of_the_loader(
    estimator: EstimatorCase, network: NetworkCase
) -> None:
    batch = fitted(estimator, network).moments(network.query_batch())
    assert torch.equal(batch.variance, answer(estimator, network).variance)
    assert torch.equal(batch.mean, answer(estimator, network).mean)


@every_pair
def test_saved_and_loaded_is_equal(
    estimator: EstimatorCase, network: NetworkCase, tmp_path: Path
) -> None:
    uq = fitted(estimator, network)
    regvar.save(uq, tmp_path / "saved")
    again = regvar.load(tmp_path / "saved", network.joint())
    assert type(again) is type(uq)
    moments = again.moments(network.query())
    assert torch.equal(moments.variance, answer(estimator, network).variance)
    assert torch.equal(moments.mean, answer(estimator, network).mean)


@pytest.mark.parametrize(("estimator", "network"), pairs(CASES_WITH_MOMENTS[1:]), ids=label)
def test_the_seed_decides(estimator: EstimatorCase, network: NetworkCase) -> None:
    torch.manual_seed(12345)  # the global generator must not matter
    same = estimator.fit(network, network.joint(), 0).moments(network.query())
    assert torch.equal(same.variance, answer(estimator, network).variance)
    if estimator.random:
        other = estimator.fit(network, network.joint(), 1).moments(network.query())
        ratio = other.variance / same.variance
        assert ((ratio - 1).abs() > 1e-5).double().mean() > 0.9


@every_pair
def test_single_precision_agrees(estimator: EstimatorCase, network: NetworkCase) -> None:
    single = estimator.fit(network, network.joint(torch.float32), 0)
    moments = single.moments(network.query(torch.float32))
    expected = answer(estimator, network)
    assert moments.mean.dtype == moments.variance.dtype == torch.float32
    close(moments.mean.double(), expected.mean, 1e-4)
    close(moments.variance.double(), expected.variance, 2e-2)


@pytest.mark.parametrize(("estimator", "network"), pairs(with_covariance), ids=label)
def test_covariance_holds_the_variance(estimator: EstimatorCase, network: NetworkCase) -> None:
    uq, x = fitted(estimator, network), rows(network.query(), slice(0, 2))
    first = rows(x, slice(0, 1))
    shape = (2, *network.outputs)
    whole = uq.covariance(x)
    assert whole.shape == shape * 2
    size = torch.Size(shape).numel()
    variance = answer(estimator, network).variance[:2]
    # Unconverged, the pointwise solve is not symmetric; the diagonal is exact all the same.
    close(whole.reshape(size, size).diagonal(), variance.flatten(), network.rounding)
    across = uq.covariance(x, first)
    assert across.shape == (*shape, 1, *network.outputs)
    close(across.reshape(size, -1), whole.reshape(size, size)[:, : size // 2], network.rounding)
    off = whole.reshape(size, size) - torch.diag(variance.flatten())
    assert (off.abs() > 1e-6 * float(variance.max())).double().mean() >= 0.25


@every_network
def test_draws_of_the_sampled_estimator_make_its_variance(network: NetworkCase) -> None:
    sampled = next(e for e in with_covariance if e.name == "sampled")
    uq, x = fitted(sampled, network), network.query()
    draws = uq.draws(x)
    moments = answer(sampled, network)
    assert draws.shape == (3, network.queries, *network.outputs)
    close((draws - moments.mean).square().mean(0), moments.variance, network.rounding)
    covariance = uq.covariance(x).flatten(0, len(network.outputs)).flatten(1)
    flat = (draws - moments.mean).flatten(1)
    close(covariance, flat.T @ flat / 3, network.rounding)


def test_draws_of_the_pointwise_estimator_have_its_variance() -> None:
    network = BY_NAME["two_heads"]
    uq = regvar.pointwise(network.joint(), solver=regvar.Direct(regvar.GGN()))
    x = network.query()
    moments = uq.moments(x)
    draws = uq.draws(x, samples=4000, seed=3)
    assert draws.shape == (4000, network.queries, *network.outputs)
    spread = (draws - moments.mean).square().mean(0) / moments.variance
    assert (spread - 1).abs().max() < 5 * (2 / 4000) ** 0.5
    assert torch.equal(draws, uq.draws(x, samples=4000, seed=3))
    assert not torch.allclose(draws, uq.draws(x, samples=4000, seed=4))


@every_network
def test_parameter_variances(network: NetworkCase, tmp_path: Path) -> None:
    joint = network.joint()
    uq = PARAMETER.fit(network, joint, 0)
    trainable = {k: p for k, p in network.model().named_parameters() if p.requires_grad}
    assert uq.variance.keys() == trainable.keys()
    for name, variance in uq.variance.items():
        assert variance.shape == trainable[name].shape
        assert variance.isfinite().all()
        assert (variance >= 0).all()
    assert torch.cat([v.flatten() for v in uq.variance.values()]).unique().numel() > 3
    regvar.save(uq, tmp_path)
    again = regvar.load(tmp_path, network.joint())
    assert all(torch.equal(again.variance[k], v) for k, v in uq.variance.items())
    single = PARAMETER.fit(network, network.joint(torch.float32), 0)
    for name, variance in uq.variance.items():
        assert single.variance[name].dtype == torch.float32
        close(single.variance[name].double(), variance, 5e-2)


@every_network
def test_every_solve_says_how_it_went(network: NetworkCase) -> None:
    for estimator in CASES_WITH_MOMENTS:
        if network.name not in estimator.networks or estimator.name == "pointwise":
            continue
        solution = fitted(estimator, network).solution
        if not estimator.solves:
            assert solution is None
            continue
        assert solution.iterations > 0
        assert solution.residual >= 0
        assert isinstance(solution.converged, bool)
        assert str(solution.status)
