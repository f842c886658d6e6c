"""Gradient norms against Jacobians row by row."""

from __future__ import annotations

import pytest
import torch

import regvar
from regvar import baselines
from tests.oracles.cases import CASES, Case, at_map
from tests.oracles.dense import jacobian
from tests.oracles.front_door import log_joint, relative_error

every_case = pytest.mark.parametrize("case", CASES, ids=str)


@every_case
def test_per_output_is_the_diagonal_of_j_jt(case: Case) -> None:
    problem = at_map(case)
    x = problem.queries
    moments = baselines.gradient_norm(log_joint(problem), per_output=True).moments(x)
    exact = jacobian(problem.model, x).square().sum(1)
    assert relative_error(moments.variance.flatten(), exact) < 1e-12
    assert torch.equal(moments.mean, problem.model(x))


@every_case
def test_by_default_the_largest_output_speaks_for_all(case: Case) -> None:
    problem = at_map(case)
    x = problem.queries
    moments = baselines.gradient_norm(log_joint(problem)).moments(x)
    outputs = problem.model(x).detach().flatten(1)
    norms = jacobian(problem.model, x).square().sum(1).reshape(outputs.shape)
    largest = norms.gather(1, outputs.argmax(1, keepdim=True)).expand(outputs.shape)
    assert relative_error(moments.variance.flatten(1), largest) < 1e-12


def test_ties_go_to_the_first_output_whatever_the_batch() -> None:
    """All outputs equal, gradients not: the answer is still that of one output, and repeats."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2, bias=False)).double()
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
        model[0].bias.zero_()
        model[1].weight.copy_(torch.tensor([[1.0, 1.0], [2.0, 0.0]]))
    x = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
    joint = regvar.LogJoint(
        model,
        [(x, x)],
        likelihood=regvar.Gaussian(sigma=1.0),
        prior=regvar.GaussianPrior(precision=1.0),
    )
    uq = baselines.gradient_norm(joint)
    # f_1 = w_1ᵀ (V x + b): ‖h‖² = 2 for w_1, ‖w_1‖² (‖x‖² + 1) = 2 · 3 below; f_2 would give 14.
    assert uq.moments(x).variance.tolist() == [[8.0, 8.0]]
    assert torch.equal(uq.moments(x.expand(3, 2)).variance, torch.full((3, 2), 8.0).double())
