"""The paper's two theorems as statements about numbers: rates in λ, and an optimum over t."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import regvar
from regvar.regularizers import MeanAbsOutput, OutputAt
from tests.oracles.cases import Case, at_map
from tests.oracles.dense import flat_gradient, flatten, jacobian, log_joint as naive_log_joint
from tests.oracles.front_door import error_in_norm, exact_refit, log_joint, oracle
from tests.oracles.networks import AttentionNet, GatedNet, ResidualNet, TanhNet

CASES = [
    Case(TanhNet, "gaussian"),
    Case(GatedNet, "categorical"),
    Case(ResidualNet, "bernoulli"),
    Case(AttentionNet, "categorical"),
]
each_case = pytest.mark.parametrize("case", CASES, ids=str)


def slope(lams: list[float], errors: list[float]) -> float:
    """The exponent a of the least-squares line log error = a log λ + b."""
    x = torch.tensor([math.log(lam) for lam in lams])
    y = torch.tensor([math.log(error) for error in errors])
    x, y = x - x.mean(), y - y.mean()
    return float((x @ y) / (x @ x))


def small_lams(case: Case, entry: int = 0) -> list[float]:
    """λ that move the parameters by 0.004 in all, and halves of that: rates are limits."""
    x, exact = at_map(case).queries[:1], oracle(case, "hessian")
    displacement = exact.inverse @ jacobian(exact.problem.model, x)[entry]
    return [0.004 / float(displacement.norm()) / 2**k for k in range(4)]


def refit_errors(case: Case, lams: list[float], *, paired: bool) -> list[float]:
    """| (f_refit - f) / λ - J P⁻¹ Jᵀ | of the first output at one input, for each λ."""
    problem = at_map(case)
    joint, x = log_joint(problem), problem.queries[:1]
    exact = float(oracle(case, "hessian").variance(x).flatten()[0])
    errors = []
    for lam in lams:
        solution = exact_refit(case, lam, paired=paired).solve(joint, [OutputAt(x, 0)])
        assert solution.residual < 1e-6
        response = next(iter(joint.network.responses(x, solution.value)))
        errors.append(abs(float(response.flatten()[0]) - exact))
    return errors


@each_case
def test_theorem_one_sided_error_is_linear_in_lam(case: Case) -> None:
    lams = small_lams(case)
    assert slope(lams, refit_errors(case, lams, paired=False)) == pytest.approx(1.0, abs=0.05)


@each_case
def test_theorem_paired_error_is_quadratic_in_lam(case: Case) -> None:
    lams = small_lams(case)
    assert slope(lams, refit_errors(case, lams, paired=True)) == pytest.approx(2.0, abs=0.05)


@each_case
def test_refit_stands_where_the_regularized_log_joint_is_stationary(case: Case) -> None:
    """Eq. 8 and 9: the gradient of L + λ f_c(x), by the naive oracle, vanishes at θ̂ + λ δ."""
    problem = at_map(case)
    x, lam = problem.queries[:1], small_lams(case, entry=1)[0]
    (move,) = exact_refit(case, lam, paired=False).solve(log_joint(problem), [OutputAt(x, 1)]).value
    for name, weight in problem.model.named_parameters():
        weight.data += lam * move.delta[name]
    model = problem.model
    pull = lam * flat_gradient(model(x).flatten()[1], model)
    rest = flat_gradient(naive_log_joint(problem), model)
    assert error_in_norm(-rest, pull) < 1e-5


def probe_displacements(case: Case) -> tuple[Tensor, Tensor]:
    """δ of each |f_c(x̂_j)| taken alone, [outputs, J, p], and δ of their mean, by regvar."""
    problem = at_map(case)
    joint, solver = log_joint(problem), regvar.Direct(regvar.Hessian())
    outputs = problem.model(problem.inputs).detach()
    entries = [OutputAt(x, c) for c in range(outputs.shape[1]) for x in problem.inputs.split(1)]
    alone = torch.stack([flatten(d.delta) for d in solver.solve(joint, entries).value])
    alone = torch.sign(outputs).T.reshape(-1, 1) * alone
    (mean,) = solver.solve(joint, [MeanAbsOutput([problem.inputs])]).value
    return alone.reshape(outputs.shape[1], len(outputs), -1), flatten(mean.delta)


@each_case
def test_theorem_the_mean_minimises_the_amortized_objective(case: Case) -> None:
    """Eq. 13: no combination of the probes' outputs has a smaller sum of squared distances.

    With several outputs the regularizer of an input is the sum over them (Eq. 15).
    """
    alone, mean = probe_displacements(case)
    targets = alone.sum(dim=0)

    def objective(displacement: Tensor) -> float:
        return float(((targets - displacement) ** 2).sum())

    best = objective(mean)
    generator = torch.Generator().manual_seed(0)
    uniform = torch.full((len(targets),), 1 / len(targets), dtype=torch.float64)
    for size in (1e-3, 1e-1, 1.0):
        for _ in range(50):
            step = torch.randn(len(targets), generator=generator, dtype=torch.float64)
            assert objective((uniform + size * step) @ targets) > best
    stationary = targets @ (targets - mean).sum(dim=0)
    assert float(stationary.norm()) < 1e-9 * float((targets @ targets.T).norm())
