"""Solvers tell the truth about themselves: what converged, what did not, and how far off it is."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import regvar
from regvar.regularizers import AbsParameters, OutputAt
from regvar.results import Solution, Status
from tests.oracles.cases import Case, at_map, untrained
from tests.oracles.dense import (
    Problem,
    flat_gradient,
    flatten,
    ggn_precision,
    negative_hessian,
)
from tests.oracles.front_door import error_in_norm, log_joint
from tests.oracles.networks import GatedNet, ResidualNet, TanhNet

CASE = Case(TanhNet, "gaussian")
TANGENT = {
    "cg": regvar.ConjugateGradient,
    "minres": regvar.Minres,
    "direct": regvar.Direct,
}
CURVATURES = {
    "ggn": (regvar.GGN(), ggn_precision),
    "hessian": (regvar.Hessian(), negative_hessian),
}
each_tangent = pytest.mark.parametrize("solver", TANGENT.values(), ids=list(TANGENT))
each_curvature = pytest.mark.parametrize(
    ("curvature", "dense"), CURVATURES.values(), ids=list(CURVATURES)
)


def regularizers(problem: Problem) -> tuple[list[OutputAt | AbsParameters], Tensor]:
    """Three right-hand sides of very different sizes, and their gradients, [3, p]."""
    x, model = problem.queries[:1], problem.model
    outputs = model(x).flatten()
    signs = torch.sign(flatten(dict(model.named_parameters())))
    gradients = [flat_gradient(outputs[0], model), flat_gradient(outputs[1], model), signs]
    return [OutputAt(x, 0), OutputAt(x, 1), AbsParameters()], torch.stack(gradients)


def displacements(solution: Solution) -> Tensor:
    return torch.stack([flatten(move.delta) for move in solution.value])


def worst_residual(precision: Tensor, solution: Solution, gradients: Tensor) -> float:
    """The largest ‖P δ - ∇t‖ / ‖∇t‖, by dense algebra."""
    residuals = displacements(solution) @ precision - gradients
    return float((residuals.norm(dim=1) / gradients.norm(dim=1)).max())


def ill_conditioned() -> Problem:
    """Inputs of very different scales, little noise, a weak prior."""
    problem = untrained(Case(TanhNet, "gaussian"))
    stretch = torch.tensor([30.0, 0.1], dtype=torch.float64)
    batches = [(stretch * x, y) for x, y in problem.batches]
    return replace(problem, batches=batches, sigma=0.05, precision=0.01)


def indefinite() -> Problem:
    """A network away from its MAP, whose Hessian has directions of negative curvature."""
    problem = replace(untrained(Case(GatedNet, "gaussian")), precision=0.05)
    eigenvalues = torch.linalg.eigvalsh(negative_hessian(problem))
    assert eigenvalues.min() < -0.1  # what the tests below rest on
    assert eigenvalues.abs().min() > 1e-3
    return problem


@each_tangent
@each_curvature
def test_a_converged_solve_is_right_and_its_residual_true(
    solver: type[regvar.Direct], curvature: regvar.GGN, dense: object
) -> None:
    problem = at_map(CASE)
    terms, gradients = regularizers(problem)
    precision = dense(problem)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solution = solver(curvature).solve(log_joint(problem), terms)
    assert solution.converged
    assert solution.status is Status.CONVERGED
    exact = torch.linalg.solve(precision, gradients.T).T
    assert error_in_norm(displacements(solution), exact) < 1e-6
    true = worst_residual(precision, solution, gradients)
    assert true < 1e-7
    assert solution.residual == pytest.approx(true, rel=0.1, abs=1e-12)


@pytest.mark.parametrize("solver", [regvar.ConjugateGradient, regvar.Minres])
def test_an_unconverged_solve_is_announced(solver: type[regvar.Minres]) -> None:
    problem = at_map(Case(ResidualNet, "gaussian"))
    terms, gradients = regularizers(problem)
    with pytest.warns(regvar.SolverWarning, match="residual"):
        solution = solver(regvar.GGN(), max_iterations=3).solve(log_joint(problem), terms)
    assert not solution.converged
    assert solution.status is Status.STOPPED
    assert solution.iterations <= 4
    true = worst_residual(ggn_precision(problem), solution, gradients)
    assert true > 1e-3
    assert solution.residual == pytest.approx(true, rel=1e-6)


def test_an_estimator_passes_the_announcement_on() -> None:
    problem = at_map(Case(ResidualNet, "gaussian"))
    solver = regvar.ConjugateGradient(regvar.GGN(), max_iterations=2)
    with pytest.warns(regvar.SolverWarning):
        uq = regvar.amortized(log_joint(problem), solver=solver)
    assert not uq.solution.converged
    uq = regvar.pointwise(log_joint(problem), solver=solver)
    with pytest.warns(regvar.SolverWarning):
        uq.moments(problem.queries[:1])
    assert not uq.solution.converged


@pytest.mark.parametrize("solver", [regvar.ConjugateGradient, regvar.Direct])
def test_an_indefinite_precision_is_announced(solver: type[regvar.Direct]) -> None:
    problem = indefinite()
    terms, _ = regularizers(problem)
    with pytest.warns(regvar.SolverWarning, match="negative curvature"):
        solution = solver(regvar.Hessian()).solve(log_joint(problem), terms)
    assert solution.status is Status.INDEFINITE
    assert not solution.converged


def test_minres_solves_an_indefinite_system() -> None:
    problem = indefinite()
    terms, gradients = regularizers(problem)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", regvar.SolverWarning)
        solution = regvar.Minres(regvar.Hessian(), tolerance=1e-10).solve(log_joint(problem), terms)
    exact = torch.linalg.solve(negative_hessian(problem), gradients.T).T
    assert error_in_norm(displacements(solution), exact) < 1e-6


def test_several_right_hand_sides_are_solved_as_each_alone() -> None:
    problem = at_map(CASE)
    joint, (terms, _) = log_joint(problem), regularizers(problem)
    for solver in (regvar.ConjugateGradient(regvar.GGN()), regvar.Minres(regvar.GGN())):
        together = displacements(solver.solve(joint, terms))
        alone = torch.cat([displacements(solver.solve(joint, [term])) for term in terms])
        assert error_in_norm(together, alone) < 1e-6


PRECONDITIONERS = {"jacobi": regvar.Jacobi(samples=64), "nystrom": regvar.Nystrom(rank=15)}


@pytest.mark.parametrize("preconditioner", PRECONDITIONERS.values(), ids=list(PRECONDITIONERS))
def test_preconditioned_conjugate_gradient(preconditioner: regvar.Nystrom) -> None:
    """The same answer, in no more iterations, where plain steps crawl."""
    problem = ill_conditioned()
    terms, gradients = regularizers(problem)
    precision = ggn_precision(problem)
    assert torch.linalg.cond(precision) > 1e5
    joint, budget = log_joint(problem), {"tolerance": 1e-8, "max_iterations": 1000}
    plain = regvar.ConjugateGradient(regvar.GGN(), **budget).solve(joint, terms)
    helped = regvar.ConjugateGradient(
        regvar.GGN(), preconditioner=preconditioner, **budget
    ).solve(joint, terms)
    exact = torch.linalg.solve(precision, gradients.T).T
    assert helped.converged
    assert error_in_norm(displacements(helped), exact) < 1e-4
    assert worst_residual(precision, helped, gradients) < 1.1e-8
    assert helped.iterations <= plain.iterations


def test_stochastic_approaches_the_dense_answer() -> None:
    problem = at_map(CASE)
    terms, gradients = regularizers(problem)
    solution = regvar.Stochastic(regvar.GGN()).solve(log_joint(problem), terms)
    precision = ggn_precision(problem)
    true = worst_residual(precision, solution, gradients)
    assert solution.residual == pytest.approx(true, rel=1e-3)
    assert true < 1e-2


def test_refit_reports_the_residual_of_the_regularized_gradient() -> None:
    """‖∇L(θ) + λ ∇t(θ)‖ / ‖λ ∇t(θ)‖ at the refit, by the naive oracle's gradient."""
    raise NotImplementedError
