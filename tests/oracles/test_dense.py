"""Every estimator, through the front door, against dense algebra on small nonlinear networks."""

from __future__ import annotations

import pytest
import torch

import regvar
from tests.oracles.cases import CASES, Case, at_map
from tests.oracles.dense import flatten, parameters
from tests.oracles.densities import IGNORED
from tests.oracles.front_door import (
    error_in_norm,
    exact_refit,
    log_joint,
    oracle,
    relative_error,
    smooth_lam,
)
from tests.oracles.networks import TaggerNet

TANGENT = {
    "cg-ggn": (regvar.ConjugateGradient(regvar.GGN()), "ggn"),
    "minres-hessian": (regvar.Minres(regvar.Hessian()), "hessian"),
    "direct-ggn": (regvar.Direct(regvar.GGN()), "ggn"),
    "direct-hessian": (regvar.Direct(regvar.Hessian()), "hessian"),
}
DIRECT = {name: entry for name, entry in TANGENT.items() if name.startswith("direct")}
POINTWISE_LAM = 3e-3

each_case = pytest.mark.parametrize("case", CASES, ids=str)
each_gaussian_case = pytest.mark.parametrize(
    "case", [case for case in CASES if case.likelihood == "gaussian"], ids=str
)
each_tangent_solver = pytest.mark.parametrize(
    ("solver", "curvature"), TANGENT.values(), ids=list(TANGENT)
)
each_direct_solver = pytest.mark.parametrize(
    ("solver", "curvature"), DIRECT.values(), ids=list(DIRECT)
)


@each_case
@each_tangent_solver
def test_pointwise_by_tangent_solve(case: Case, solver: regvar.Direct, curvature: str) -> None:
    problem = at_map(case)
    uq = regvar.pointwise(log_joint(problem), solver=solver)
    moments = uq.moments(problem.queries[:1])
    exact = oracle(case, curvature)
    torch.testing.assert_close(moments.mean, exact.outputs(problem.queries[:1]))
    assert relative_error(moments.variance, exact.variance(problem.queries[:1])) < 1e-4
    assert uq.solution.converged


@each_case
def test_pointwise_by_refit(case: Case) -> None:
    """A refit follows the true log joint, so its limit is the Hessian's answer, not the GGN's."""
    problem = at_map(case)
    x = problem.queries[:1]
    uq = regvar.pointwise(log_joint(problem), solver=exact_refit(case, POINTWISE_LAM))
    assert relative_error(uq.moments(x).variance, oracle(case, "hessian").variance(x)) < 1e-2


@each_case
@pytest.mark.parametrize("curvature", ["ggn", "hessian"])
def test_pointwise_covariance_between_inputs_and_outputs(case: Case, curvature: str) -> None:
    problem = at_map(case)
    x1, x2 = problem.queries, problem.inputs[:2]
    solver = regvar.Direct(regvar.GGN() if curvature == "ggn" else regvar.Hessian())
    uq = regvar.pointwise(log_joint(problem), solver=solver)
    exact = oracle(case, curvature)
    shape = (*exact.outputs(x1).shape, *exact.outputs(x2).shape)
    expected = exact.covariance(x1, x2).reshape(shape)
    assert error_in_norm(uq.covariance(x1, x2), expected) < 1e-4
    own = exact.covariance(x1, x1).reshape(*shape[: len(shape) // 2], *shape[: len(shape) // 2])
    assert error_in_norm(uq.covariance(x1), own) < 1e-4


@each_case
@pytest.mark.parametrize("in_sample", [True, False], ids=["in-sample", "probes"])
@each_direct_solver
def test_amortized_by_tangent_solve(
    case: Case, in_sample: bool, solver: regvar.Direct, curvature: str
) -> None:
    problem = at_map(case)
    probes = None if in_sample else torch.cat([problem.queries, problem.inputs[:2]])
    batches = None if probes is None else [probes[:4], probes[4:]]
    uq = regvar.amortized(log_joint(problem), probes=batches, solver=solver)
    expected = oracle(case, curvature).amortized(problem.queries, probes)
    assert error_in_norm(uq.moments(problem.queries).variance, expected) < 1e-4


@each_case
def test_the_solver_by_default_is_that_of_the_ggn(case: Case) -> None:
    problem = at_map(case)
    joint, x, exact = log_joint(problem), problem.queries, oracle(case, "ggn")
    amortized = regvar.amortized(joint).moments(x).variance
    assert error_in_norm(amortized, exact.amortized(x, None)) < 1e-4
    variance = regvar.parameter(joint).variance
    assert error_in_norm(flatten(variance), exact.parameter()) < 1e-4
    sampled = [regvar.sampled(joint, 2, solver).draws(x) for solver in (None, regvar.Direct())]
    assert error_in_norm(*sampled) < 1e-6


def in_sample_refit(case: Case) -> regvar.Finetune:
    """Small enough for no training output to change its sign."""
    exact, x = oracle(case, "hessian"), at_map(case).inputs
    displacement = exact.amortized_displacement(None)
    lam = smooth_lam(displacement, exact.outputs(x), exact.response(x, displacement))
    return exact_refit(case, lam)


@each_case
def test_amortized_by_refit(case: Case) -> None:
    problem = at_map(case)
    uq = regvar.amortized(log_joint(problem), solver=in_sample_refit(case))
    expected = oracle(case, "hessian").amortized(problem.queries, None)
    assert error_in_norm(uq.moments(problem.queries).variance, expected) < 1e-2


@each_gaussian_case
def test_data_augmentation_is_in_sample(case: Case) -> None:
    problem = at_map(case)
    expected = oracle(case, "hessian").amortized(problem.queries, None)
    for solver, tolerance in (
        (regvar.Direct(regvar.Hessian()), 1e-4),
        (in_sample_refit(case), 1e-2),
    ):
        uq = regvar.data_augmentation(log_joint(problem), solver=solver)
        assert error_in_norm(uq.moments(problem.queries).variance, expected) < tolerance


@each_case
@each_direct_solver
def test_parameter_by_tangent_solve(case: Case, solver: regvar.Direct, curvature: str) -> None:
    joint = log_joint(at_map(case))
    variance = regvar.parameter(joint, solver=solver).variance
    assert error_in_norm(flatten(variance), oracle(case, curvature).parameter()) < 1e-4


@each_case
def test_parameter_by_refit(case: Case) -> None:
    problem = at_map(case)
    exact = oracle(case, "hessian").parameter()
    lam = smooth_lam(exact, flatten(parameters(problem.model)), exact)
    variance = regvar.parameter(log_joint(problem), solver=exact_refit(case, lam)).variance
    assert error_in_norm(flatten(variance), exact) < 1e-2


def test_size_counts_labels_that_are_not_ignored() -> None:
    problem = at_map(Case(TaggerNet, "categorical"))
    assert log_joint(problem).size == int((problem.targets != IGNORED).sum())
