"""Amortized RegVar by shifted targets (Appendix B), for a Gaussian likelihood.

    y_i → y_i + λ σ² sign(f(x_i)) / n

Completing the square turns the in-sample regularizer of Eq. 16 into this shift, so that the
user's own training loop is the solver; the answer is the in-sample one.
"""

from __future__ import annotations

from regvar.errors import require
from regvar.estimators import protocol
from regvar.estimators.amortized import Amortized
from regvar.log_joint import LogJoint
from regvar.regularizers import ShiftedTargets
from regvar.solvers import Finetune, Solver


def data_augmentation(
    joint: LogJoint, lam: float | None = None, solver: Solver | None = None
) -> Amortized:
    """Appendix B: refit on y_i + λσ² sign(f(x_i))/n and read |f' − f| / λ.

    Args:
        joint: network, data, Gaussian likelihood and prior, at the MAP.
        lam: λ of the default solver, `Finetune(lam=lam)`; 1 unless given.
        solver: any other solver, which then carries its own λ.

    >>> import torch, regvar
    >>> x = torch.linspace(-1, 1, 8)[:, None]
    >>> joint = regvar.LogJoint(torch.nn.Linear(1, 1), [(x, x)],
    ...                         likelihood=regvar.Gaussian(sigma=1.0),
    ...                         prior=regvar.GaussianPrior(precision=1.0))
    >>> tangent = regvar.ConjugateGradient(regvar.GGN())
    >>> shifted = regvar.data_augmentation(joint, solver=tangent).moments(x)
    >>> in_sample = regvar.amortized(joint, solver=tangent).moments(x)
    >>> torch.allclose(shifted.variance, in_sample.variance, atol=1e-5)
    True
    """
    ok = lam is None or solver is None
    require(ok, "lam", "None when a solver is given", lam, "The solver carries its own λ.")
    solver = solver or Finetune(lam=1.0 if lam is None else lam)
    protocol.check(joint, solver)
    solution = solver.solve(joint, [ShiftedTargets()])
    return Amortized(joint.network, solution.value[0], solution, joint.network.fingerprint(), joint)
