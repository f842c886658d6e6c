"""Parameter uncertainty (Algorithm 3): the regularizer is the L1 norm of the parameters.

    t(θ) = ‖θ‖₁,   σ²_θ = |P⁻¹ sign(θ̂)|          (Eq. 17, 18)

With a Laplace prior the term only changes the prior's rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from regvar.estimators import protocol
from regvar.log_joint import LogJoint
from regvar.network import Fingerprint, Network
from regvar.regularizers import AbsParameters
from regvar.results import Displacement, Packed, Solution
from regvar.solvers import ConjugateGradient, Solver


def parameter(joint: LogJoint, solver: Solver | None = None) -> Parameter:
    """Algorithm 3: σ²_θ = (1/λ) |θ̂(‖θ‖₁, λ) − θ̂|, or its limit λ → 0.

    Args:
        joint: network, data, likelihood and prior, at the MAP.
        solver: `ConjugateGradient(GGN())` by default; `Finetune(lam=...)` is the paper's.

    >>> import torch, regvar
    >>> joint = regvar.LogJoint(torch.nn.Linear(1, 1, bias=False),
    ...                         [(torch.ones(3, 1), torch.ones(3, 1))],
    ...                         likelihood=regvar.Gaussian(sigma=1.0),
    ...                         prior=regvar.GaussianPrior(precision=1.0))
    >>> regvar.parameter(joint).variance
    {'weight': tensor([[0.2500]])}
    """
    solver = solver or ConjugateGradient()
    protocol.check(joint, solver)
    solution = solver.solve(joint, [AbsParameters()])
    return Parameter(joint.network, solution.value[0], solution, joint.network.fingerprint(), joint)


@dataclass(frozen=True)
class Parameter:
    """The absolute displacement of each parameter."""

    network: Network = field(repr=False)
    displacement: Displacement  # δ = P⁻¹ sign(θ̂)
    solution: Solution | None
    fitted: Fingerprint = field(repr=False)
    joint: LogJoint | None = field(default=None, repr=False)

    @property
    def variance(self) -> Mapping[str, Tensor]:
        """σ²_θ = |δ|, one tensor per trainable parameter."""
        return {k: v.abs() for k, v in self.displacement.delta.items()}

    @property
    def mean(self) -> Mapping[str, Tensor]:
        """θ̂ by name."""
        self.network.require_unchanged(self.fitted)
        return {k: p.detach().clone() for k, p in self.network.parameters.items()}

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
    ) -> Parameter:
        """What `pack` gave, for the same network."""
        return cls(network, packed.displacements[0], solution, fitted, joint)
