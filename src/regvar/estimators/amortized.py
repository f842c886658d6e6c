"""Amortized RegVar (Algorithm 1): one regularizer for all inputs.

    t(θ) = (1/m) Σ_j |f(x̂_j)|₁                                        (Eq. 15)
    σ²_f(x) = |J(x) P⁻¹ · (1/m) Σ_j J(x̂_j)ᵀ s_j|, s = sign f

The evaluation inputs x̂ are `probes`; without them the training inputs serve (Eq. 16). What it
computes is the covariance of f(x) with the probes' mean absolute output, which is not the
variance in general: `audit` says how far it is on a given network.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import torch

from regvar.batches import Batch
from regvar.errors import require
from regvar.estimators import protocol
from regvar.log_joint import LogJoint
from regvar.network import Fingerprint, Network
from regvar.regularizers import MeanAbsOutput
from regvar.results import Displacement, Moments, Packed, Solution
from regvar.solvers import ConjugateGradient, Solver


def amortized(
    joint: LogJoint, probes: Iterable[Batch] | None = None, solver: Solver | None = None
) -> Amortized:
    """Algorithm 1: σ²_f(x) = (1/λ) |f_{θ̂(r̂,λ)}(x) − f_θ̂(x)|, or its limit λ → 0.

    Args:
        joint: network, data, likelihood and prior, at the MAP.
        probes: batches of evaluation inputs x̂, or one batch of them (targets are ignored);
            `None`: in-sample, Eq. 16.
        solver: `ConjugateGradient(GGN())` by default; `Finetune(lam=...)` is the paper's.

    >>> import torch, regvar
    >>> x = torch.linspace(-1, 1, 8)[:, None]
    >>> joint = regvar.LogJoint(torch.nn.Linear(1, 1), [(x, x)],
    ...                         likelihood=regvar.Gaussian(sigma=1.0),
    ...                         prior=regvar.GaussianPrior(precision=1.0))
    >>> uq = regvar.amortized(joint, probes=[torch.zeros(1, 1)])
    >>> uq.moments(torch.zeros(1, 1)).variance
    tensor([[0.1111]])
    """
    solver = solver or ConjugateGradient()
    protocol.check(joint, solver)
    if isinstance(probes, torch.Tensor | Mapping):
        probes = [probes]
    once = isinstance(probes, Iterator)
    require(not once, "probes", "re-iterable", type(probes).__name__, "Pass list(probes).")
    solution = solver.solve(joint, [MeanAbsOutput(probes)])
    return Amortized(joint.network, solution.value[0], solution, joint.network.fingerprint(), joint)


@dataclass(frozen=True)
class Amortized:
    """The absolute response of the outputs to one displacement."""

    network: Network = field(repr=False)
    displacement: Displacement  # δ = P⁻¹ ∇t
    solution: Solution | None
    fitted: Fingerprint = field(repr=False)
    joint: LogJoint | None = field(default=None, repr=False)

    def moments(self, x: Batch) -> Moments:
        """f(x) and |response of f(x)| per unit λ: [batch, outputs...]."""
        self.network.require_unchanged(self.fitted)
        with torch.no_grad(), self.network.guard():
            mean = self.network.outputs(x)
            (response,) = self.network.responses(x, (self.displacement,), mean)
        return Moments(mean, response.abs())

    def pack(self) -> Packed:
        """Its displacement."""
        return Packed(displacements=(self.displacement,))

    @classmethod
    def unpack(
        cls,
        packed: Packed,
        network: Network,
        fitted: Fingerprint,
        solution: Solution | None,
        joint: LogJoint | None,
    ) -> Amortized:
        """What `pack` gave, for the same network."""
        return cls(network, packed.displacements[0], solution, fitted, joint)
