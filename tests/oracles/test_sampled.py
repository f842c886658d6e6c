"""Draws against the exact Gaussian: variances, and covariances between inputs and outputs."""

from __future__ import annotations

import pytest
import torch
from scipy import stats
from torch import Tensor

import regvar
from tests.oracles.cases import CASES, Case, at_map
from tests.oracles.front_door import log_joint, oracle
from tests.oracles.networks import TaggerNet

SAMPLES = 1000
FAMILY_LEVEL = 1e-3  # chance that a right answer fails any of one test's entrywise comparisons


def whitened(draws: Tensor, covariance: Tensor) -> Tensor:
    """Draws [K, ...] of a N(0, covariance), turned into draws of N(0, I), [K, dimensions]."""
    values, vectors = torch.linalg.eigh(covariance)
    kept = values > 1e-10 * values.max()  # outputs may be bound together, as a tagger's are
    return draws.flatten(1) @ vectors[:, kept] / values[kept].sqrt()


def assert_covariance(draws: Tensor, covariance: Tensor) -> None:
    """The sample covariance is the exact one, as a whole and in each entry, within its error."""
    samples, dimensions = draws.flatten(1).shape
    white = whitened(draws, covariance)
    assert abs(float((white**2).mean()) - 1) < 3 * (2 / white.numel()) ** 0.5
    second = draws.flatten(1).T @ draws.flatten(1) / samples
    variance = covariance.diagonal()
    error = ((torch.outer(variance, variance) + covariance**2) / samples).sqrt()
    bound = stats.norm.isf(FAMILY_LEVEL / (dimensions * (dimensions + 1)))
    assert float(((second - covariance) / error).abs().max()) < bound


def assert_gaussian(draws: Tensor, covariance: Tensor) -> None:
    """Whitened draws are standard normal, all dimensions together (Kolmogorov-Smirnov)."""
    assert stats.kstest(whitened(draws, covariance).flatten().numpy(), "norm").pvalue > FAMILY_LEVEL


@pytest.mark.parametrize("case", CASES, ids=str)
def test_draws_have_the_exact_covariance(case: Case) -> None:
    problem = at_map(case)
    x = problem.queries[: 1 if case.network is TaggerNet else 2]
    uq = regvar.sampled(log_joint(problem), samples=SAMPLES, solver=regvar.Direct(regvar.GGN()))
    exact = oracle(case, "ggn")
    responses = uq.draws(x) - exact.outputs(x)
    covariance = exact.covariance(x, x)
    assert_covariance(responses, covariance)
    assert_gaussian(responses, covariance)
