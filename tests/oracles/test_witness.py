"""The oracle itself against a second witness, curvlinops, and against finite differences."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.oracles.cases import CASES, Case, at_map
from tests.oracles.dense import (
    Problem,
    flat_gradient,
    ggn_precision,
    jacobian,
    log_joint,
    negative_hessian,
    prior_vectors,
)
from tests.oracles.networks import GatedNet, ResidualNet, TanhNet

LOSSES = {
    "gaussian": nn.MSELoss(reduction="sum"),
    "categorical": nn.CrossEntropyLoss(reduction="sum"),
    "bernoulli": nn.BCEWithLogitsLoss(reduction="sum"),
}
WITNESSED = [case for case in CASES if case.network in (TanhNet, GatedNet, ResidualNet)]


def witness(problem: Problem, operator: str) -> Tensor:
    """The likelihood's curvature as curvlinops has it, plus the prior's precision."""
    curvlinops = pytest.importorskip("curvlinops")
    weights = list(problem.model.parameters())
    linear_map = getattr(curvlinops, operator)(
        problem.model, LOSSES[problem.likelihood], weights, problem.batches
    )
    dense = linear_map @ torch.eye(linear_map.shape[0], dtype=torch.float64)
    # the squared error lacks the factor 1/(2σ²) of the Gaussian log density
    scale = 1 / (2 * problem.sigma**2) if problem.likelihood == "gaussian" else 1.0
    return scale * dense + torch.diag(prior_vectors(problem)[1])


@pytest.mark.parametrize("case", WITNESSED, ids=str)
def test_ggn_agrees_with_curvlinops(case: Case) -> None:
    problem = at_map(case)
    torch.testing.assert_close(ggn_precision(problem), witness(problem, "GGNLinearOperator"))


@pytest.mark.parametrize("case", WITNESSED, ids=str)
def test_hessian_agrees_with_curvlinops(case: Case) -> None:
    problem = at_map(case)
    torch.testing.assert_close(negative_hessian(problem), witness(problem, "HessianLinearOperator"))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_derivatives_agree_with_finite_differences(case: Case) -> None:
    """J v and P v of every case along one direction, by central differences of f and of ∇L."""
    problem = at_map(case)
    model, x, step = problem.model, problem.queries, 1e-5
    theta = nn.utils.parameters_to_vector(model.parameters()).detach()
    direction = torch.randn_like(theta)
    rows, precision = jacobian(model, x), negative_hessian(problem)
    outputs, gradients = [], []
    for sign in (1, -1):
        nn.utils.vector_to_parameters(theta + sign * step * direction, model.parameters())
        outputs.append(model(x).detach().flatten())
        gradients.append(flat_gradient(log_joint(problem), model))
    difference = (outputs[0] - outputs[1]) / (2 * step)
    torch.testing.assert_close(rows @ direction, difference, rtol=1e-6, atol=1e-7)
    difference = -(gradients[0] - gradients[1]) / (2 * step)
    torch.testing.assert_close(precision @ direction, difference, rtol=1e-5, atol=1e-5)
