"""The largest eigenpairs against a dense eigendecomposition of a P made by hand."""

from __future__ import annotations

import pytest
import torch

import regvar
from regvar.curvature import Precision
from regvar.curvature.spectrum import top_eigenpairs
from tests.oracles.cases import Case, at_map, untrained
from tests.oracles.dense import ggn_precision, negative_hessian
from tests.oracles.front_door import log_joint
from tests.oracles.networks import AttentionNet, GatedNet, RecurrentNet, TanhNet

KINDS = {"ggn": (regvar.GGN(), ggn_precision), "hessian": (regvar.Hessian(), negative_hessian)}
CASES = [
    Case(network, likelihood)
    for network in (TanhNet, GatedNet, RecurrentNet, AttentionNet)
    for likelihood in ("gaussian", "categorical")
]


def check(precision: torch.Tensor, found: object, k: int, within: float) -> None:
    """Eigenvalues, orthonormal vectors, and the projector of all that lies above the gap."""
    exact, basis = torch.linalg.eigh(precision)
    exact, basis = exact.flip(0), basis.flip(1)
    torch.testing.assert_close(found.values, exact[:k], rtol=within, atol=within * float(exact[0]))
    inner = found.vectors.T @ found.vectors
    torch.testing.assert_close(inner, torch.eye(k, dtype=inner.dtype), rtol=0, atol=1e-10)
    residual = precision @ found.vectors - found.vectors * found.values
    assert float(residual.norm(dim=0).max() / exact[0]) < 10 * within
    gap = float(exact[k - 1] - exact[k]) / float(exact[0]) if k < len(exact) else 1.0
    if gap > 1e-3:
        projector = basis[:, :k] @ basis[:, :k].T
        own = found.vectors @ found.vectors.T
        torch.testing.assert_close(own, projector, rtol=0, atol=20 * within / gap)


@pytest.mark.parametrize("curvature", KINDS)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("k", [1, 4, "all"])
def test_the_largest_eigenpairs(case: Case, curvature: str, k: int | str) -> None:
    problem = at_map(case)
    kind, naive = KINDS[curvature]
    precision = naive(problem)
    k = len(precision) if k == "all" else k
    found = top_eigenpairs(Precision(log_joint(problem), kind), k)
    assert found.converged
    assert found.residual <= 1e-8
    check(precision, found, k, 1e-8)


def test_eigenvalues_that_coincide_are_all_found() -> None:
    """One input: the data curve P in 2 directions, and the prior's value is left 18-fold."""
    x = torch.randn(1, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    model = torch.nn.Linear(9, 2).double()
    joint = regvar.LogJoint(
        model,
        [(x, x[:, :2])],
        likelihood=regvar.Gaussian(sigma=0.5),
        prior=regvar.GaussianPrior(precision=0.25),
    )
    found = top_eigenpairs(Precision(joint, regvar.GGN()), 6)
    top = 0.25 + (float(x.square().sum()) + 1) / 0.25
    expected = torch.tensor([top, top, 0.25, 0.25, 0.25, 0.25], dtype=torch.float64)
    torch.testing.assert_close(found.values, expected, rtol=1e-9, atol=0)


def test_an_indefinite_operator_has_its_largest_values_too() -> None:
    problem = untrained(Case(TanhNet, "gaussian"))
    problem.precision = 1e-3
    precision = negative_hessian(problem)
    found = top_eigenpairs(Precision(log_joint(problem), regvar.Hessian()), 5)
    check(precision, found, 5, 1e-8)


def test_restarts_lose_nothing() -> None:
    """A spectrum too long for the basis: 900 parameters with slowly falling curvature."""
    scales = 1 / torch.arange(1, 301, dtype=torch.float64)
    x = torch.diag(scales.sqrt())
    model = torch.nn.Linear(300, 3, bias=False).double()
    sigma = torch.tensor([1.0, 1.5, 2.0], dtype=torch.float64)
    joint = regvar.LogJoint(
        model,
        [(x, x[:, :3])],
        likelihood=regvar.Gaussian(sigma=sigma),
        prior=regvar.GaussianPrior(precision=1e-3),
    )
    found = top_eigenpairs(Precision(joint, regvar.GGN()), 12)
    exact = (scales[:, None] / sigma.square()).flatten().sort(descending=True).values[:12] + 1e-3
    torch.testing.assert_close(found.values, exact, rtol=1e-7, atol=0)
    assert found.converged


def test_the_seed_decides_and_a_spent_budget_is_announced() -> None:
    joint = log_joint(at_map(Case(TanhNet, "gaussian")))
    operator = Precision(joint, regvar.GGN())
    first, again = top_eigenpairs(operator, 3), top_eigenpairs(operator, 3)
    assert torch.equal(first.vectors, again.vectors)
    with pytest.warns(regvar.SolverWarning, match="Raise max_iterations"):
        short = top_eigenpairs(operator, 3, max_iterations=1)
    assert not short.converged
    assert short.residual > 1e-8
    with pytest.raises(regvar.RegvarError, match="k must be between 1 and"):
        top_eigenpairs(operator, 0)
