"""Draws against the exact Gaussian: variances, and covariances between inputs and outputs."""

from __future__ import annotations

import pytest
import torch
from scipy import stats
from torch import Tensor

import regvar
from tests.oracles.cases import CASES, Case, at_map
from tests.oracles.front_door import error_in_norm, exact_refit, log_joint, oracle
from tests.oracles.networks import AttentionNet, GatedNet, TaggerNet, TanhNet

SAMPLES, MANY_SAMPLES = 200, 1000
FAMILY_LEVEL = 1e-3  # the chance that a right answer fails one test's comparisons, all together
DIRECT = regvar.Direct(regvar.GGN())

each_case = pytest.mark.parametrize("case", CASES, ids=str)
each_label_case = pytest.mark.parametrize(
    "case",
    [Case(TanhNet, "categorical"), Case(GatedNet, "bernoulli"), Case(TaggerNet, "categorical")],
    ids=str,
)


def whitened(draws: Tensor, covariance: Tensor) -> Tensor:
    """Draws [K, ...] of a N(0, covariance), turned into draws of N(0, I), [K, dimensions]."""
    values, vectors = torch.linalg.eigh(covariance)
    kept = values > 1e-10 * values.max()  # outputs may be bound together, as a tagger's are
    return draws.flatten(1) @ vectors[:, kept] / values[kept].sqrt()


def assert_covariance(draws: Tensor, covariance: Tensor) -> None:
    """The second moments are the exact ones, all together and each alone, within their errors."""
    flat, white = draws.flatten(1), whitened(draws, covariance)
    squares = white.square().mean(dim=1)
    assert abs(float(squares.mean()) - 1) < 3 * float(squares.std()) / len(flat) ** 0.5
    products = flat.unsqueeze(2) * flat.unsqueeze(1)
    error = products.std(dim=0) / len(flat) ** 0.5
    entries = len(covariance) * (len(covariance) + 1) / 2
    bound = stats.t.isf(FAMILY_LEVEL / (2 * entries), len(flat) - 1)
    assert float(((products.mean(dim=0) - covariance) / error).abs().max()) < bound


def assert_standard_normal(draws: Tensor) -> None:
    """All dimensions together, by Kolmogorov and Smirnov."""
    assert stats.kstest(draws.flatten().numpy(), "norm").pvalue > FAMILY_LEVEL


@each_case
def test_draws_have_the_exact_covariance(case: Case) -> None:
    problem = at_map(case)
    x = problem.queries[: 1 if case.network is TaggerNet else 2]
    exact = oracle(case, "ggn")
    uq = regvar.sampled(log_joint(problem), samples=SAMPLES, solver=DIRECT)
    responses = uq.draws(x) - exact.outputs(x)
    assert_covariance(responses, exact.covariance(x, x))
    assert_standard_normal(whitened(responses, exact.covariance(x, x)))


@pytest.mark.parametrize(
    "case", [Case(TanhNet, "gaussian"), Case(GatedNet, "categorical")], ids=str
)
def test_many_draws_have_the_exact_covariance(case: Case) -> None:
    """More draws see smaller errors, here between three inputs at once."""
    problem = at_map(case)
    x, exact = problem.queries, oracle(case, "ggn")
    uq = regvar.sampled(log_joint(problem), samples=MANY_SAMPLES, solver=DIRECT, seed=1)
    responses = uq.draws(x) - exact.outputs(x)
    assert_covariance(responses, exact.covariance(x, x))
    assert_standard_normal(whitened(responses, exact.covariance(x, x)))


@each_label_case
def test_label_noise_has_the_exact_second_moments(case: Case) -> None:
    """Labels drawn from the network's own prediction: not Gaussian, but of covariance Λ."""
    problem = at_map(case)
    x, exact = problem.queries[:1], oracle(case, "ggn")
    samples = SAMPLES if case.network is TaggerNet else MANY_SAMPLES
    joint = log_joint(problem)
    uq = regvar.sampled(joint, samples=samples, solver=DIRECT, label_noise=True)
    responses = uq.draws(x) - exact.outputs(x)
    assert_covariance(responses, exact.covariance(x, x))
    plain = regvar.sampled(joint, samples=1, solver=DIRECT).draws(x)
    assert error_in_norm(uq.draws(x)[:1], plain) > 1e-3  # another noise indeed


@each_case
def test_moments_and_covariance_are_those_of_the_draws(case: Case) -> None:
    problem = at_map(case)
    x1, x2 = problem.queries[:2], problem.inputs[:1]
    uq = regvar.sampled(log_joint(problem), samples=5, solver=DIRECT)
    first = uq.draws(x1) - problem.model(x1).detach()
    second = uq.draws(x2) - problem.model(x2).detach()
    torch.testing.assert_close(uq.moments(x1).variance, first.square().mean(dim=0))
    torch.testing.assert_close(uq.moments(x1).mean, problem.model(x1).detach())
    shape = (*first.shape[1:], *second.shape[1:])
    cross = (first.flatten(1).T @ second.flatten(1) / 5).reshape(shape)
    torch.testing.assert_close(uq.covariance(x1, x2), cross)


@pytest.mark.parametrize(
    ("lam", "paired"), [(1e-4, False), (1e-3, True)], ids=["control", "paired"]
)
@pytest.mark.parametrize("label_noise", [False, True], ids=["gaussian noise", "label noise"])
@pytest.mark.parametrize(
    "case",
    [Case(TanhNet, "categorical"), Case(GatedNet, "bernoulli"), Case(AttentionNet, "categorical")],
    ids=str,
)
def test_a_refit_solves_for_the_same_draws(
    case: Case, label_noise: bool, lam: float, paired: bool
) -> None:
    """One seed is one set of random regularizers. A refit's curvature is the Hessian's."""
    problem = at_map(case)
    x = problem.queries
    solvers = regvar.Direct(regvar.Hessian()), exact_refit(case, lam, paired=paired)
    exact, refitted = (
        regvar.sampled(log_joint(problem), samples=3, solver=s, label_noise=label_noise).draws(x)
        - problem.model(x).detach()
        for s in solvers
    )
    assert error_in_norm(refitted, exact) < 1e-2


@pytest.mark.parametrize(
    "case", [Case(TanhNet, "gaussian"), Case(TaggerNet, "categorical")], ids=str
)
def test_pointwise_draws_have_the_exact_covariance(case: Case) -> None:
    problem = at_map(case)
    x, exact = problem.queries[:1], oracle(case, "hessian")
    uq = regvar.pointwise(log_joint(problem), solver=regvar.Direct(regvar.Hessian()))
    responses = uq.draws(x, samples=MANY_SAMPLES) - exact.outputs(x)
    assert_covariance(responses, exact.covariance(x, x))
    assert_standard_normal(whitened(responses, exact.covariance(x, x)))
