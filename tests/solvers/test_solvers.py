"""Solvers tell the truth about themselves: what converged, what did not, and how far off it is."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
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
    log_joint as naive_log_joint,
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
    solver: type[regvar.Direct], curvature: regvar.GGN, dense: Callable[[Problem], Tensor]
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


def uneven() -> Problem:
    """Priors from very weak to very strong: what a diagonal can make up for."""
    problem = untrained(CASE)
    names = [name for name, _ in problem.model.named_parameters()]
    return replace(problem, precision={name: 10.0 ** (i - 1) for i, name in enumerate(names)})


@pytest.mark.parametrize(
    ("preconditioner", "hard"),
    [(regvar.Jacobi(samples=8), uneven), (regvar.Nystrom(rank=15), ill_conditioned)],
    ids=["jacobi", "nystrom"],
)
def test_preconditioned_conjugate_gradient(
    preconditioner: regvar.Nystrom, hard: Callable[[], Problem]
) -> None:
    """The same answer, in less than half the iterations, where plain steps crawl."""
    problem = hard()
    terms, gradients = regularizers(problem)
    precision = ggn_precision(problem)
    assert torch.linalg.cond(precision) > 5e4
    joint, exact = log_joint(problem), torch.linalg.solve(precision, gradients.T).T
    plain = regvar.ConjugateGradient(regvar.GGN(), max_iterations=1000)
    helped = replace(plain, preconditioner=preconditioner)
    slow, fast = plain.solve(joint, terms), helped.solve(joint, terms)
    for solution in (slow, fast):
        assert solution.converged
        assert worst_residual(precision, solution, gradients) < 1.1e-8
        assert error_in_norm(displacements(solution), exact) < 1e-4
    assert fast.iterations < slow.iterations / 2


def test_a_stalled_stochastic_solve_is_announced_with_its_true_residual() -> None:
    problem = at_map(CASE)
    terms, gradients = regularizers(problem)
    with pytest.warns(regvar.SolverWarning, match="residual"):
        solution = regvar.Stochastic(epochs=5).solve(log_joint(problem), terms)
    assert solution.status is Status.STOPPED
    true = worst_residual(ggn_precision(problem), solution, gradients)
    assert true > 1e-2
    assert solution.residual == pytest.approx(true, rel=1e-9)


REFITS = {
    "one-sided": regvar.Finetune(lam=0.1, epochs=3, lr=1e-3),
    "paired": regvar.Finetune(lam=0.1, epochs=3, lr=1e-3, paired=True),
    "against a control": regvar.Finetune(lam=0.1, epochs=3, lr=1e-3, control=True),
}


@pytest.mark.parametrize("solver", REFITS.values(), ids=list(REFITS))
def test_an_unfinished_refit_is_announced_with_its_true_residual(solver: regvar.Finetune) -> None:
    """‖∇[L + λt](high) - ∇[L + λ't](low)‖ / ‖(λ - λ')∇t‖, by the naive oracle's gradients."""
    problem = at_map(CASE)
    joint, x = log_joint(problem), problem.queries[:1]
    with pytest.warns(regvar.SolverWarning, match="residual"):
        solution = solver.solve(joint, [OutputAt(x, 0)])
    (move,) = solution.value
    zero = {name: torch.zeros_like(weight) for name, weight in move.delta.items()}
    low = move.origin or zero
    high = {name: start + move.width * move.delta[name] for name, start in low.items()}
    low_lam = -solver.lam if solver.paired else 0.0
    left = gradient_at(problem, high, solver.lam)
    if move.origin:
        left = left - gradient_at(problem, low, low_lam)
    pull = (solver.lam - low_lam) * flat_gradient(problem.model(x).flatten()[0], problem.model)
    true = float(left.norm() / pull.norm())
    assert true > 0.1
    assert solution.status is Status.STOPPED
    assert solution.residual == pytest.approx(true, rel=1e-6)


def gradient_at(problem: Problem, move: dict[str, Tensor], lam: float) -> Tensor:
    """∇[L + λ f_0(x)] of the naive oracle, at θ̂ plus a move."""
    model = copy.deepcopy(problem.model)
    for name, weight in model.named_parameters():
        weight.data += move[name]
    value = naive_log_joint(replace(problem, model=model))
    return flat_gradient(value + lam * model(problem.queries[:1]).flatten()[0], model)
