"""What a pointwise estimator reports of its many solves."""

from __future__ import annotations

import torch

import regvar
from regvar.results import Displacement, Solution, Status


class Scripted:
    """A solver whose first block of right-hand sides fails and whose later ones do not."""

    def __init__(self) -> None:
        self.calls = 0

    def solve(self, joint: regvar.LogJoint, regularizers: list) -> Solution:
        """A zero displacement for each, with the scripted status."""
        self.calls += 1
        status = Status.STOPPED if self.calls == 1 else Status.CONVERGED
        residual = 0.5 if self.calls == 1 else 1e-9
        delta = {k: torch.zeros_like(p) for k, p in joint.parameters.items()}
        return Solution((Displacement(delta),) * len(regularizers), status, residual, 7, "advice")


def test_solution_is_the_worst_block() -> None:
    x = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
    joint = regvar.LogJoint(
        torch.nn.Linear(2, 1),
        [(x[:5], x[:5, :1])],
        likelihood=regvar.Gaussian(sigma=1.0),
        prior=regvar.GaussianPrior(precision=1.0),
    )
    solver = Scripted()
    uq = regvar.pointwise(joint, solver)
    uq.moments(x)
    assert solver.calls > 1, "the query must need several blocks for this test to mean anything"
    assert uq.solution is not None
    assert uq.solution.status is Status.STOPPED
    assert uq.solution.residual == 0.5
    assert uq.solution.iterations == 7 * solver.calls
    uq.moments(x[:3])
    assert uq.solution.converged
