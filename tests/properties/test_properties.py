"""Properties that hold for every network and every number, tried on small trained networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor, nn

import regvar
from regvar.log_joint import LogJoint
from regvar.params import Params
from regvar.regularizers import OutputAt
from tests.oracles.cases import Case, at_map
from tests.oracles.dense import Problem, flatten
from tests.oracles.front_door import error_in_norm, log_joint
from tests.oracles.networks import AttentionNet, GatedNet, TanhNet

REGRESSION = Case(TanhNet, "gaussian")
CASES = [REGRESSION, Case(GatedNet, "categorical"), Case(AttentionNet, "bernoulli")]
DIRECT = regvar.Direct(regvar.GGN())

each_case = pytest.mark.parametrize("case", CASES, ids=str)
few = settings(max_examples=5, derandomize=True, deadline=None)
seeds = st.integers(0, 2**31)
scales = st.floats(0.1, 10.0)
weights = st.floats(-3.0, 3.0).filter(lambda a: abs(a) > 1e-3)


@dataclass(frozen=True)
class Combination:
    """a t₁ + b t₂, as a regularizer of its own."""

    a: float
    first: OutputAt
    b: float
    second: OutputAt
    fixed_order: bool = False

    def gradient(self, joint: LogJoint) -> Params:
        first, second = self.first.gradient(joint), self.second.gradient(joint)
        return {name: self.a * g + self.b * second[name] for name, g in first.items()}

    def start(self, joint: LogJoint) -> Params | None:
        return None

    def stochastic(self, joint: LogJoint, lam: float) -> Callable[..., Tensor]:
        first, second = self.first.stochastic(joint, lam), self.second.stochastic(joint, lam)
        return lambda *args: self.a * first(*args) + self.b * second(*args)


class Scaled(nn.Module):
    """c times another network."""

    def __init__(self, inner: nn.Module, factor: float) -> None:
        super().__init__()
        self.inner, self.factor = inner, factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * self.inner(x)


def scaled(problem: Problem, factor: float) -> Problem:
    """The same regression in other units: outputs, targets and noise all times the factor."""
    batches = [(x, factor * y) for x, y in problem.batches]
    model = Scaled(problem.model, factor)
    return replace(problem, model=model, batches=batches, sigma=factor * problem.sigma)


def sharpened(problem: Problem, factor: float) -> Problem:
    """The log joint times a factor: the prior's and the noise's precision grow alike."""
    sigma = problem.sigma / factor**0.5
    return replace(problem, precision=factor * problem.precision, sigma=sigma)


def rebatched(problem: Problem, seed: int, size: int) -> Problem:
    """The same data in another order and in batches of another size."""
    order = torch.randperm(len(problem.inputs), generator=torch.Generator().manual_seed(seed))
    x, y = problem.inputs[order], problem.targets[order]
    return replace(problem, batches=list(zip(x.split(size), y.split(size), strict=True)))


@each_case
@few
@given(a=weights, b=weights)
def test_displacement_is_linear_in_the_regularizer(case: Case, a: float, b: float) -> None:
    problem = at_map(case)
    first, second = OutputAt(problem.queries[:1], 0), OutputAt(problem.queries[1:2], 1)
    both = [first, second, Combination(a, first, b, second)]
    for solver in (DIRECT, regvar.ConjugateGradient(regvar.GGN())):
        one, two, sum_ = (flatten(d.delta) for d in solver.solve(log_joint(problem), both).value)
        scale = abs(a) * one.norm() + abs(b) * two.norm()
        assert float((sum_ - a * one - b * two).norm() / scale) < 1e-6


@few
@given(factor=scales)
def test_variance_is_in_squared_units_of_the_outputs(factor: float) -> None:
    problem = at_map(REGRESSION)
    x = problem.queries[:1]
    for estimator in (regvar.pointwise, regvar.amortized, regvar.sampled):
        before = estimator(log_joint(problem), solver=DIRECT).moments(x)
        after = estimator(log_joint(scaled(problem, factor)), solver=DIRECT).moments(x)
        torch.testing.assert_close(after.variance, factor**2 * before.variance)
        torch.testing.assert_close(after.mean, factor * before.mean)


@few
@given(factor=scales)
def test_variance_falls_as_the_log_joint_is_sharpened(factor: float) -> None:
    """L times c: P times c, so that every variance is divided by c and no MAP moves."""
    problem = at_map(REGRESSION)
    x = problem.queries[:1]
    for estimator in (regvar.pointwise, regvar.amortized, regvar.sampled):
        for curvature in (regvar.GGN(), regvar.Hessian()):
            solver = regvar.Direct(curvature)
            before = estimator(log_joint(problem), solver=solver).moments(x).variance
            after = estimator(log_joint(sharpened(problem, factor)), solver=solver).moments(x)
            torch.testing.assert_close(after.variance, before / factor)


@each_case
@few
@given(seed=seeds, samples=st.integers(1, 12))
def test_sampled_covariance_is_positive_semidefinite(case: Case, seed: int, samples: int) -> None:
    """Symmetric, no negative eigenvalue, rank at most the number of draws, moments its diagonal."""
    problem = at_map(case)
    x = problem.queries
    uq = regvar.sampled(log_joint(problem), samples=samples, solver=DIRECT, seed=seed)
    size = uq.moments(x).variance.numel()
    covariance = uq.covariance(x, x).reshape(size, size)
    torch.testing.assert_close(covariance, covariance.T)
    eigenvalues = torch.linalg.eigvalsh(covariance)
    assert float(eigenvalues.min()) > -1e-12 * float(eigenvalues.max())
    assert int((eigenvalues > 1e-9 * eigenvalues.max()).sum()) <= samples
    torch.testing.assert_close(covariance.diagonal(), uq.moments(x).variance.flatten())


@each_case
@few
@given(seed=seeds)
def test_products_are_adjoint(case: Case, seed: int) -> None:
    problem = at_map(case)
    network, x = log_joint(problem).network, problem.inputs
    generator = torch.Generator().manual_seed(seed)
    v = {
        name: torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
        for name, weight in problem.model.named_parameters()
    }
    moved = network.jvp(x, v)
    u = torch.randn(moved.shape, generator=generator, dtype=moved.dtype)
    pulled = network.vjp(x, u)
    left, right = (moved * u).sum(), flatten(pulled) @ flatten(v)
    assert abs(float(left - right)) < 1e-10 * float(moved.norm() * u.norm())


@each_case
@few
@given(seed=seeds, size=st.integers(1, 18))
def test_order_and_batch_size_of_the_data_do_not_matter(case: Case, seed: int, size: int) -> None:
    problem = at_map(case)
    x, other = problem.queries[:1], rebatched(problem, seed, size)
    for estimator in (regvar.pointwise, regvar.amortized):
        expected = estimator(log_joint(problem), solver=DIRECT).moments(x).variance
        found = estimator(log_joint(other), solver=DIRECT).moments(x).variance
        assert error_in_norm(found, expected) < 1e-8
