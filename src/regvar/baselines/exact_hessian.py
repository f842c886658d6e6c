"""Linearized Laplace with the exact precision of all parameters: both terms of Eq. 5 (Eq. 7)."""

from __future__ import annotations

from regvar.baselines.dense import DenseLaplace, fit_dense
from regvar.curvature import Hessian
from regvar.log_joint import LogJoint


def exact_hessian(joint: LogJoint) -> DenseLaplace:
    """|J P⁻¹ Jᵀ| with P = −∇²L(θ̂), which only a strict maximum makes positive definite.

    An indefinite P is announced (`SolverWarning`, and `.solution.status`), and its inverse is used
    all the same.

    Args:
        joint: network, data, likelihood and prior, at the MAP; at most 20,000 parameters.

    >>> import torch, regvar
    >>> from regvar import baselines
    >>> x = torch.linspace(-1, 1, 8)[:, None]
    >>> joint = regvar.LogJoint(torch.nn.Linear(1, 1), [(x, x)],
    ...                         likelihood=regvar.Gaussian(sigma=1.0),
    ...                         prior=regvar.GaussianPrior(precision=1.0))
    >>> baselines.exact_hessian(joint).moments(torch.zeros(1, 1)).variance
    tensor([[0.1111]])
    """
    return fit_dense(joint, Hessian())
