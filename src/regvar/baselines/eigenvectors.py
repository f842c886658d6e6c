"""The eigenvector approximation of Appendix C: P⁻¹ by the largest eigenpairs of P.

    P⁻¹ ≈ A Λ⁻¹ Aᵀ,   σ²_f(x) ≈ Σ_j (J(x) a_j)² / λ_j,   k = round(ln dim θ)

P's largest eigenvalues are P⁻¹'s smallest: what is kept is what the data know best, and most of
the variance is left out, as in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regvar import params
from regvar.batches import Batch
from regvar.curvature import GGN, Curvature, Precision
from regvar.curvature.spectrum import top_eigenpairs
from regvar.errors import ModelError
from regvar.estimators import protocol
from regvar.log_joint import LogJoint
from regvar.network import Fingerprint, Network
from regvar.results import Displacement, Moments, Packed, Solution, Status


def eigenvectors(
    joint: LogJoint, k: int | None = None, curvature: Curvature | None = None, seed: int = 0
) -> Eigenvectors:
    """J A Λ⁻¹ Aᵀ Jᵀ with the k largest eigenpairs of P.

    Args:
        joint: network, data, likelihood and prior, at the MAP.
        k: how many eigenvectors; round(ln dim θ) by default.
        curvature: `GGN()` by default, the paper's; or `Hessian()`.
        seed: of the iteration's start.

    >>> import torch, regvar
    >>> from regvar import baselines
    >>> x = torch.linspace(-1, 1, 8)[:, None]
    >>> joint = regvar.LogJoint(torch.nn.Linear(1, 1), [(x, x)],
    ...                         likelihood=regvar.Gaussian(sigma=1.0),
    ...                         prior=regvar.GaussianPrior(precision=1.0))
    >>> uq = baselines.eigenvectors(joint, k=2)  # all there are: the exact variance
    >>> uq.moments(torch.zeros(1, 1)).variance
    tensor([[0.1111]])
    """
    protocol.check_joint(joint)
    joint.check()
    parameters = params.copy(joint.parameters)
    k = max(1, round(math.log(params.size(parameters)))) if k is None else k
    found = top_eigenpairs(Precision(joint, curvature or GGN()), k, seed=seed)
    if not bool((found.values > 0).all()):
        raise ModelError(
            f"the {k} largest eigenvalues of P must be positive, but the last is "
            f"{float(found.values[-1]):.3g}: θ̂ is no maximum of L. Train it further, take GGN(), "
            "or lower k."
        )
    columns = (found.vectors / found.values.sqrt()).unbind(1)
    moves = tuple(
        Displacement({k: t.to(parameters[k]) for k, t in params.unflatten(v, parameters).items()})
        for v in columns
    )
    status = Status.CONVERGED if found.converged else Status.STOPPED
    solution = Solution(moves, status, found.residual, found.iterations)
    return Eigenvectors(joint.network, moves, solution, joint.network.fingerprint(), joint)


@dataclass(frozen=True)
class Eigenvectors:
    """P⁻¹ restricted to k eigenvectors, read through the network."""

    network: Network = field(repr=False)
    displacements: tuple[Displacement, ...] = field(repr=False)  # a_j / √λ_j
    solution: Solution | None
    fitted: Fingerprint = field(repr=False)
    joint: LogJoint | None = field(default=None, repr=False)

    @property
    def values(self) -> Tensor:
        """λ_j, falling: [k]."""
        lengths = [params.norm(move.delta) for move in self.displacements]
        return torch.tensor([1 / length**2 for length in lengths], dtype=torch.float64)

    @property
    def parameter_variance(self) -> Mapping[str, Tensor]:
        """The diagonal of A Λ⁻¹ Aᵀ, one tensor per trainable parameter."""
        total = params.zeros(self.network.parameters)
        for move in self.displacements:
            params.add_(total, {k: v.square() for k, v in move.delta.items()})
        return total

    def moments(self, x: Batch) -> Moments:
        """f(x) and Σ_j (J(x) a_j)² / λ_j: [batch, outputs...]."""
        self.network.require_unchanged(self.fitted)
        with torch.no_grad(), self.network.guard():
            mean = self.network.outputs(x)
            total = torch.zeros_like(mean, dtype=params.work_dtype(mean.dtype))
            for response in self.network.responses(x, self.displacements):
                total += response.square()
        return Moments(mean, total)

    def pack(self) -> Packed:
        """Its displacements."""
        return Packed(displacements=self.displacements)

    @classmethod
    def unpack(
        cls,
        packed: Packed,
        network: Network,
        fitted: Fingerprint,
        solution: Solution | None,
        joint: LogJoint | None,
    ) -> Eigenvectors:
        """What `pack` gave, for the same network."""
        return cls(network, packed.displacements, solution, fitted, joint)
