"""`ggn` and `exact_hessian` are dense float64 algebra done by hand, and say when P is no good."""

from __future__ import annotations

import warnings

import pytest
import torch

import regvar
from regvar import baselines
from tests.oracles.cases import CASES, Case, at_map, untrained
from tests.oracles.dense import jacobian, negative_hessian
from tests.oracles.front_door import error_in_norm, log_joint, oracle, relative_error
from tests.oracles.networks import GatedNet, TanhNet

FITS = {"ggn": baselines.ggn, "hessian": baselines.exact_hessian}
every_case = pytest.mark.parametrize("case", CASES, ids=str)
both = pytest.mark.parametrize("curvature", FITS)


@both
@every_case
def test_the_variance_is_that_of_eq_7(case: Case, curvature: str) -> None:
    problem, exact = at_map(case), oracle(case, curvature)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        uq = FITS[curvature](log_joint(problem))
    x = problem.queries
    moments = uq.moments(x)
    assert torch.equal(moments.mean, exact.outputs(x))
    assert relative_error(moments.variance, exact.variance(x)) < 1e-7
    crossed = exact.covariance(x, problem.inputs[:2])
    assert (
        error_in_norm(uq.covariance(x, problem.inputs[:2]).reshape(crossed.shape), crossed) < 1e-7
    )
    assert uq.solution.converged
    assert uq.solution.residual < 1e-8
    flat = torch.cat([v.flatten() for v in uq.parameter_variance.values()])
    assert relative_error(flat, exact.inverse.diagonal()) < 1e-7


@both
def test_it_agrees_with_pointwise_and_with_many_rows_at_once(curvature: str) -> None:
    case = Case(GatedNet, "categorical")
    problem = at_map(case)
    joint = log_joint(problem)
    x = torch.randn(100, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    kind = {"ggn": regvar.GGN(), "hessian": regvar.Hessian()}[curvature]
    asked = regvar.pointwise(joint, solver=regvar.Direct(kind)).moments(x)
    moments = FITS[curvature](joint).moments(x)  # 300 rows of J: two blocks
    assert relative_error(moments.variance, asked.variance) < 1e-8


def test_an_indefinite_hessian_is_announced_and_inverted() -> None:
    problem = untrained(Case(TanhNet, "gaussian"))
    problem.precision = 1e-3
    precision = negative_hessian(problem)
    negative = int((torch.linalg.eigvalsh(precision) < 0).sum())
    assert negative > 0
    with pytest.warns(regvar.SolverWarning, match=f"upward in {negative} of {len(precision)}"):
        uq = baselines.exact_hessian(log_joint(problem))
    assert uq.solution.status is regvar.Status.INDEFINITE
    assert "train it further" in uq.solution.detail
    j = jacobian(problem.model, problem.queries)
    exact = (j @ torch.linalg.inv(precision) @ j.T).diagonal().abs()
    assert relative_error(uq.moments(problem.queries).variance.flatten(), exact) < 1e-6
    assert not baselines.ggn(log_joint(problem)).solution.detail


def test_what_is_too_large_or_singular_is_refused() -> None:
    x = torch.ones(2, 150)
    model = torch.nn.Linear(150, 150)
    joint = regvar.LogJoint(
        model,
        [(x, x)],
        likelihood=regvar.Gaussian(sigma=1.0),
        prior=regvar.GaussianPrior(precision=1.0),
    )
    for fit in FITS.values():
        with pytest.raises(regvar.RegvarError, match=r"dim θ must be at most 20000.*22650"):
            fit(joint)
        with pytest.raises(regvar.RegvarError, match=r"joint must be a regvar\.LogJoint"):
            fit(model)
    flat = regvar.LogJoint(
        torch.nn.Linear(2, 1),
        [(torch.zeros(2, 2), torch.zeros(2, 1))],
        likelihood=regvar.Gaussian(sigma=1.0),
        prior=regvar.LaplacePrior(rate=1.0),
    )
    with pytest.raises(regvar.RegvarError, match=r"P must be invertible.*GaussianPrior"):
        baselines.ggn(flat)
