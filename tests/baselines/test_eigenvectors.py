"""The eigenvector approximation against dense eigendecompositions."""

from __future__ import annotations

import math

import pytest
import torch

import regvar
from regvar import baselines
from tests.oracles.cases import CASES, Case, at_map, untrained
from tests.oracles.dense import ggn_precision, jacobian, negative_hessian
from tests.oracles.front_door import error_in_norm, log_joint, oracle, relative_error
from tests.oracles.networks import TanhNet


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_variance_of_the_k_largest(case: Case) -> None:
    problem = at_map(case)
    precision = ggn_precision(problem)
    k = round(math.log(len(precision)))
    values, basis = torch.linalg.eigh(precision)
    values, basis = values[-k:], basis[:, -k:]
    uq = baselines.eigenvectors(log_joint(problem))
    assert len(uq.displacements) == k
    assert relative_error(uq.values, values.flip(0)) < 1e-7
    j = jacobian(problem.model, problem.queries)
    exact = ((j @ basis).square() / values).sum(1)
    moments = uq.moments(problem.queries)
    assert error_in_norm(moments.variance.flatten(), exact) < 1e-5
    spread = torch.cat([v.flatten() for v in uq.parameter_variance.values()])
    assert error_in_norm(spread, (basis.square() / values).sum(1)) < 1e-5


def test_all_of_them_are_the_exact_variance() -> None:
    case = Case(TanhNet, "categorical")
    problem, exact = at_map(case), oracle(case, "hessian")
    uq = baselines.eigenvectors(log_joint(problem), len(exact.precision), regvar.Hessian())
    variance = uq.moments(problem.queries).variance
    assert relative_error(variance, exact.variance(problem.queries)) < 1e-6


def test_negative_eigenvalues_are_refused() -> None:
    problem = untrained(Case(TanhNet, "gaussian"))
    problem.precision = 1e-3
    size = len(negative_hessian(problem))
    with pytest.raises(regvar.RegvarError, match=r"must be positive.*lower k"):
        baselines.eigenvectors(log_joint(problem), size, regvar.Hessian())
