"""J v and Jᵀ u through real networks: adjoint to each other and equal to the dense Jacobian."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import regvar
from tests.oracles.cases import CASES, Case, untrained
from tests.oracles.dense import Problem, flatten, jacobian
from tests.oracles.front_door import error_in_norm, log_joint
from tests.oracles.networks import FusedAttentionNet, RecurrentNet

MODES = {
    "auto": (None, 1e-6),
    "forward": (regvar.ForwardMode(), 1e-10),
    "central": (regvar.CentralDifferences(), 1e-6),
    "central, own step": (regvar.CentralDifferences(step=1e-4), 1e-5),
}
FUSED = [Case(RecurrentNet, "categorical"), Case(FusedAttentionNet, "gaussian")]

each_case = pytest.mark.parametrize("case", CASES, ids=str)
each_fused_case = pytest.mark.parametrize("case", FUSED, ids=str)
each_mode = pytest.mark.parametrize(("mode", "tolerance"), MODES.values(), ids=list(MODES))


def joint_with(problem: Problem, mode: regvar.ForwardMode | None) -> regvar.LogJoint:
    plain = log_joint(problem)
    return regvar.LogJoint(
        problem.model, problem.batches, likelihood=plain.likelihood, prior=plain.prior, jvp=mode
    )


def direction(model: nn.Module) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(7)
    return {
        name: torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
        for name, weight in model.named_parameters()
    }


@each_case
@each_mode
def test_products_are_those_of_the_dense_jacobian(
    case: Case, mode: regvar.ForwardMode | None, tolerance: float
) -> None:
    problem = untrained(case)
    network, v = joint_with(problem, mode).network, direction(problem.model)
    dense = jacobian(problem.model, problem.inputs)
    found = network.jvp(problem.inputs, v)
    assert error_in_norm(found.flatten(), dense @ flatten(v)) < tolerance
    u = torch.randn_like(found)
    pulled = network.vjp(problem.inputs, u)
    assert error_in_norm(flatten(pulled), dense.T @ u.flatten()) < 1e-10
    left, right = float((found * u).sum()), float(flatten(pulled) @ flatten(v))
    assert left == pytest.approx(right, rel=10 * tolerance)


@each_fused_case
@pytest.mark.parametrize("mode", [None, regvar.ForwardMode(), regvar.CentralDifferences()])
def test_single_precision(case: Case, mode: regvar.ForwardMode | None) -> None:
    """Fused float32 kernels: still adjoint, and still the Jacobian of the float64 network."""
    problem = untrained(case)
    x, v = problem.inputs, direction(problem.model)
    dense = jacobian(problem.model, x) @ flatten(v)
    problem.model.float()
    problem.batches = [
        (a.float(), b if b.dtype is torch.int64 else b.float()) for a, b in problem.batches
    ]
    single = {name: value.float() for name, value in v.items()}
    network = joint_with(problem, mode).network
    found = network.jvp(x.float(), single)
    assert found.dtype is torch.float32
    tolerance = 1e-5 if network.mode == "forward" else 5e-3
    assert error_in_norm(found.double().flatten(), dense) < tolerance
    u = torch.randn_like(found)
    right = float(flatten(network.vjp(x.float(), u)) @ flatten(single))
    assert float((found * u).sum()) == pytest.approx(right, rel=10 * tolerance)


@each_case
def test_the_choice_is_visible_and_exact_where_it_can_be(case: Case) -> None:
    problem = untrained(case)
    network = log_joint(problem).network
    network.jvp(problem.inputs, direction(problem.model))
    assert network.mode == "forward"


class BackwardOnly(nn.Module):
    """tanh by an autograd function of the user's own, which has a backward and nothing else."""

    class Tanh(torch.autograd.Function):
        @staticmethod
        def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor) -> Tensor:
            y = torch.tanh(x)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> Tensor:
            (y,) = ctx.saved_tensors
            return gradient * (1 - y**2)

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.Tanh.apply(self.first(x)))


def test_an_operation_without_forward_mode_gets_central_differences() -> None:
    torch.manual_seed(0)
    problem = untrained(CASES[0])
    problem.model = BackwardOnly().double()
    network, v = log_joint(problem).network, direction(problem.model)
    found = network.jvp(problem.inputs, v)
    assert network.mode == "central"
    dense = jacobian(problem.model, problem.inputs)
    assert error_in_norm(found.flatten(), dense @ flatten(v)) < 1e-6
