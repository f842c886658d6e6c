"""A linear network with Gaussian noise: every answer in closed form, for every λ."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal

import regvar
from tests.oracles.dense import Problem
from tests.oracles.front_door import (
    LBFGS,
    error_in_norm,
    log_joint,
)

Solver = regvar.Finetune | regvar.ConjugateGradient | regvar.Minres | regvar.Direct

SIGMA, PRECISION = 0.8, 0.5
TANGENT = {
    "cg-ggn": regvar.ConjugateGradient(regvar.GGN(), tolerance=1e-10),
    "cg-hessian": regvar.ConjugateGradient(regvar.Hessian(), tolerance=1e-10),
    "minres-ggn": regvar.Minres(regvar.GGN(), tolerance=1e-10),
    "minres-hessian": regvar.Minres(regvar.Hessian(), tolerance=1e-10),
    "direct-ggn": regvar.Direct(regvar.GGN()),
    "direct-hessian": regvar.Direct(regvar.Hessian()),
}
refit = partial(regvar.Finetune, epochs=1, lr=1.0, optimizer=LBFGS, full_batch=True)
REFITS = {f"refit {lam}": refit(lam) for lam in (-1.0, 0.01, 1.0, 30.0)}
PAIRED = {f"paired {lam}": refit(lam, paired=True) for lam in (0.01, 1.0)}
SOLVERS = TANGENT | REFITS | PAIRED


def each(solvers: dict[str, Solver]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("solver", solvers.values(), ids=solvers)


def features(x: Tensor) -> Tensor:
    return torch.cat([x, torch.ones_like(x[:, :1])], dim=1)


@dataclass
class ClosedForm:
    """Bayesian linear regression with two outputs, from the textbook's formulas."""

    x: Tensor
    y: Tensor

    @property
    def gram(self) -> Tensor:
        """The posterior precision of either output's weights and bias, [4, 4]."""
        phi = features(self.x)
        return phi.T @ phi / SIGMA**2 + PRECISION * torch.eye(4, dtype=phi.dtype)

    @property
    def theta(self) -> Tensor:
        """The posterior mean, [4, outputs]: three weights and a bias in each column."""
        return torch.linalg.solve(self.gram, features(self.x).T @ self.y / SIGMA**2)

    def outputs(self, x: Tensor) -> Tensor:
        return features(x) @ self.theta

    def variance(self, x: Tensor) -> Tensor:
        kernel = features(x) @ torch.linalg.solve(self.gram, features(x).T)
        return kernel.diagonal().unsqueeze(1).expand(-1, self.y.shape[1])

    def covariance(self, x1: Tensor, x2: Tensor) -> Tensor:
        """[B1, outputs, B2, outputs]: the kernel times the identity over the outputs."""
        kernel = features(x1) @ torch.linalg.solve(self.gram, features(x2).T)
        return torch.einsum("ij,cd->icjd", kernel, torch.eye(self.y.shape[1], dtype=kernel.dtype))

    def amortized_displacement(self, probes: Tensor) -> Tensor:
        """[4, outputs]; the L1 term is sign · f as long as no output changes its sign."""
        gradient = features(probes).T @ torch.sign(self.outputs(probes)) / len(probes)
        return torch.linalg.solve(self.gram, gradient)

    def parameter_displacement(self) -> Tensor:
        return torch.linalg.solve(self.gram, torch.sign(self.theta))


@pytest.fixture
def closed() -> ClosedForm:
    """One output well above zero and one well below, so that λ = 30 flips no sign."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn((24, 3), generator=generator, dtype=torch.float64)
    slopes = torch.randn((3, 2), generator=generator, dtype=torch.float64)
    noise = torch.randn((24, 2), generator=generator, dtype=torch.float64)
    level = torch.tensor([9.0, -9.0], dtype=torch.float64)
    return ClosedForm(x, level + x @ slopes + 0.5 * noise)


@pytest.fixture
def queries() -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return 2 * torch.randn((4, 3), generator=generator, dtype=torch.float64)


@pytest.fixture
def joint(closed: ClosedForm) -> regvar.LogJoint:
    """The front door onto the same model, its weights at the closed-form MAP."""
    model = nn.Linear(3, 2).double()
    model.weight.data = closed.theta[:3].T.clone()
    model.bias.data = closed.theta[3].clone()
    batches = list(zip(closed.x.split([7, 12, 5]), closed.y.split([7, 12, 5]), strict=True))
    return log_joint(Problem(model, batches, closed.x, "gaussian", SIGMA, PRECISION))


def assert_no_sign_flips(solver: object, start: Tensor, change: Tensor) -> None:
    """The closed form of an L1 term holds where start + λ change keeps its signs."""
    lam = getattr(solver, "lam", 0.0)
    for end in (lam, -lam) if getattr(solver, "paired", False) else (lam,):
        assert torch.equal(torch.sign(start + end * change), torch.sign(start))


def test_joint_value_and_gradient(joint: regvar.LogJoint, closed: ClosedForm) -> None:
    def log_normal(value: Tensor, mean: Tensor, deviation: float) -> Tensor:
        return Normal(mean, torch.full_like(mean, deviation)).log_prob(value).sum()

    theta = closed.theta
    expected = log_normal(closed.y, closed.outputs(closed.x), SIGMA)
    expected = expected + log_normal(theta, torch.zeros_like(theta), PRECISION**-0.5)
    assert joint.size == 24
    assert joint.value() == pytest.approx(float(expected), rel=1e-12)
    assert max(float(g.abs().max()) for g in joint.gradient().values()) < 1e-11


def test_fit_map_finds_the_posterior_mean(joint: regvar.LogJoint, closed: ClosedForm) -> None:
    nn.init.zeros_(joint.model.weight)
    nn.init.zeros_(joint.model.bias)
    fit = regvar.fit_map(joint, LBFGS, epochs=2, full_batch=True, lr=1.0)
    torch.testing.assert_close(joint.model.weight.data, closed.theta[:3].T, rtol=0, atol=1e-8)
    torch.testing.assert_close(joint.model.bias.data, closed.theta[3], rtol=0, atol=1e-8)
    assert fit.value == pytest.approx(joint.value(), rel=1e-12)


@each(SOLVERS)
def test_pointwise(
    solver: Solver, joint: regvar.LogJoint, closed: ClosedForm, queries: Tensor
) -> None:
    uq = regvar.pointwise(joint, solver=solver)
    moments = uq.moments(queries)
    torch.testing.assert_close(moments.mean, closed.outputs(queries))
    torch.testing.assert_close(moments.variance, closed.variance(queries), rtol=1e-6, atol=0)
    others = queries[:2].flip(1)
    exact = closed.covariance(queries, others)
    assert error_in_norm(uq.covariance(queries, others), exact) < 1e-6


@each(SOLVERS)
@pytest.mark.parametrize("in_sample", [True, False], ids=["in-sample", "probes"])
def test_amortized(
    in_sample: bool,
    solver: Solver,
    joint: regvar.LogJoint,
    closed: ClosedForm,
    queries: Tensor,
) -> None:
    probes = closed.x if in_sample else closed.x[:9].flip(1) / 2
    displacement = closed.amortized_displacement(probes)
    assert_no_sign_flips(solver, closed.outputs(probes), features(probes) @ displacement)
    given = None if in_sample else [probes[:4], probes[4:]]
    found = regvar.amortized(joint, probes=given, solver=solver).moments(queries).variance
    assert error_in_norm(found, (features(queries) @ displacement).abs()) < 1e-6


@each(SOLVERS)
def test_data_augmentation(
    solver: Solver, joint: regvar.LogJoint, closed: ClosedForm, queries: Tensor
) -> None:
    displacement = closed.amortized_displacement(closed.x)
    uq = regvar.data_augmentation(joint, solver=solver)
    exact = (features(queries) @ displacement).abs()
    assert error_in_norm(uq.moments(queries).variance, exact) < 1e-6


@each(SOLVERS)
def test_parameter(solver: Solver, joint: regvar.LogJoint, closed: ClosedForm) -> None:
    displacement = closed.parameter_displacement()
    assert_no_sign_flips(solver, closed.theta, displacement)
    variance = regvar.parameter(joint, solver=solver).variance
    found = torch.cat([variance["weight"].T, variance["bias"].unsqueeze(0)])
    assert error_in_norm(found, displacement.abs()) < 1e-6


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-7])
def test_stochastic_comes_as_near_as_it_is_asked(
    tolerance: float, joint: regvar.LogJoint, closed: ClosedForm, queries: Tensor
) -> None:
    displacement = closed.amortized_displacement(closed.x)
    uq = regvar.amortized(joint, solver=regvar.Stochastic(epochs=300, tolerance=tolerance))
    assert uq.solution.converged
    delta = uq.displacement.delta
    found = torch.cat([delta["weight"].T, delta["bias"].unsqueeze(0)])
    residual = error_in_norm(closed.gram @ found, closed.gram @ displacement)
    assert residual <= tolerance
    assert uq.solution.residual == pytest.approx(residual, rel=1e-6)
    exact = (features(queries) @ displacement).abs()
    condition = float(torch.linalg.cond(closed.gram))
    assert error_in_norm(uq.moments(queries).variance, exact) < condition * tolerance


@each(TANGENT | REFITS)
def test_sampled_draws_are_those_of_the_direct_solve(
    solver: Solver, joint: regvar.LogJoint, queries: Tensor
) -> None:
    """One seed is one set of random regularizers, and each solver must solve the same ones."""
    reference = regvar.sampled(joint, samples=4, solver=regvar.Direct(regvar.GGN()), seed=3)
    uq = regvar.sampled(joint, samples=4, solver=solver, seed=3)
    assert error_in_norm(uq.draws(queries), reference.draws(queries)) < 1e-6
