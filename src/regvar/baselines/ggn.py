"""Linearized Laplace with the generalized Gauss-Newton precision of all parameters (Eq. 5, 7)."""

from __future__ import annotations

from regvar.baselines.dense import DenseLaplace, fit_dense
from regvar.curvature import GGN
from regvar.log_joint import LogJoint


def ggn(joint: LogJoint) -> DenseLaplace:
    """J P⁻¹ Jᵀ with P = Σ_i J_iᵀ Λ_i J_i + P₀: the second term of Eq. 5 alone.

    Args:
        joint: network, data, likelihood and prior, at the MAP; at most 20,000 parameters.

    >>> import torch, regvar
    >>> from regvar import baselines
    >>> x = torch.linspace(-1, 1, 8)[:, None]
    >>> joint = regvar.LogJoint(torch.nn.Linear(1, 1), [(x, x)],
    ...                         likelihood=regvar.Gaussian(sigma=1.0),
    ...                         prior=regvar.GaussianPrior(precision=1.0))
    >>> baselines.ggn(joint).moments(torch.zeros(1, 1)).variance
    tensor([[0.1111]])
    """
    return fit_dense(joint, GGN())
