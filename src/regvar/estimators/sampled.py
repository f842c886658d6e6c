"""Sampled RegVar (ours, the recommended one): random linear regularizers.

    t_k(θ) = Σ_i (Λ_i^½ ε_i)ᵀ f(x_i) + (P₀^½ ξ)ᵀ θ,   ε, ξ ~ N(0, I),   δ_k = P⁻¹ ∇t_k

∇t_k has covariance Σ J_iᵀ Λ_i J_i + P₀ = P (the GGN), so each δ_k ~ N(0, P⁻¹) is an exact draw of
the linearized posterior of Eq. 7. Variance and covariance at any inputs are means over K draws:
unbiased, with relative standard error √(2/K).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from regvar import params
from regvar.batches import Batch
from regvar.errors import require
from regvar.estimators import protocol
from regvar.log_joint import LogJoint
from regvar.network import Fingerprint, Network
from regvar.regularizers import RandomLinear
from regvar.results import Displacement, Moments, Packed, Solution
from regvar.solvers import ConjugateGradient, Finetune, Solver


def sampled(
    joint: LogJoint,
    samples: int = 16,
    solver: Solver | None = None,
    seed: int = 0,
    *,
    label_noise: bool = False,
) -> Sampled:
    """K draws δ_k ~ N(0, P⁻¹), each by one solve with a random linear regularizer.

    Args:
        joint: network, data, likelihood and prior, at the MAP.
        samples: K; the variance has a relative standard error of √(2/K).
        solver: `ConjugateGradient(GGN())` by default. With `Finetune`, all K refits are read
            against one shared control at λ = 0 (unless paired).
        seed: same seed, same draws.
        label_noise: replace Gaussian noise on the outputs by labels drawn from the network's own
            predictions (Categorical, Bernoulli): the refits are then refits on perturbed labels.

    >>> import torch, regvar
    >>> x = torch.linspace(-1, 1, 8)[:, None]
    >>> joint = regvar.LogJoint(torch.nn.Linear(1, 1), [(x, x)],
    ...                         likelihood=regvar.Gaussian(sigma=1.0),
    ...                         prior=regvar.GaussianPrior(precision=1.0))
    >>> uq = regvar.sampled(joint, samples=64, seed=0)
    >>> uq.moments(torch.zeros(5, 1)).variance.shape
    torch.Size([5, 1])
    """
    require(samples >= 1, "samples", "at least 1", samples)
    solver = solver or ConjugateGradient()
    protocol.check(joint, solver)
    if isinstance(solver, Finetune) and not solver.paired:
        solver = replace(solver, control=True)
    draws = [RandomLinear(seed, k, label_noise) for k in range(samples)]
    solution = solver.solve(joint, draws)
    return Sampled(joint.network, solution.value, solution, joint.network.fingerprint(), joint)


@dataclass(frozen=True)
class Sampled:
    """K draws of the linearized posterior, read through the network."""

    network: Network = field(repr=False)
    displacements: tuple[Displacement, ...] = field(repr=False)  # δ_k ~ N(0, P⁻¹)
    solution: Solution | None
    fitted: Fingerprint = field(repr=False)
    joint: LogJoint | None = field(default=None, repr=False)

    @property
    def samples(self) -> int:
        """K."""
        return len(self.displacements)

    @property
    def relative_error(self) -> float:
        """√(2/K): the relative standard error of a variance."""
        return math.sqrt(2 / self.samples)

    def moments(self, x: Batch) -> Moments:
        """f(x) and the mean of squared responses, (1/K) Σ_k (J(x) δ_k)²: [batch, outputs...]."""
        self.network.require_unchanged(self.fitted)
        with torch.no_grad(), self.network.guard():
            mean = self.network.outputs(x)
            total = torch.zeros_like(mean, dtype=params.work_dtype(mean.dtype))
            for response in self.network.responses(x, self.displacements):
                total += response.square()
        return Moments(mean, total / self.samples)

    def covariance(self, x1: Batch, x2: Batch | None = None) -> Tensor:
        """(1/K) Σ_k J(x1)δ_k (J(x2)δ_k)ᵀ: [batch1, outputs..., batch2, outputs...]."""
        first = self._responses(x1)
        second = first if x2 is None else self._responses(x2)
        flat = first.flatten(1).mT @ second.flatten(1) / self.samples
        return flat.reshape(*first.shape[1:], *second.shape[1:])

    def draws(self, x: Batch) -> Tensor:
        """f(x) + J(x) δ_k, the linearized network of Eq. 6 at each draw: [K, batch, outputs...]."""
        responses = self._responses(x)
        with torch.no_grad(), self.network.guard():
            return self.network.outputs(x) + responses

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
    ) -> Sampled:
        """What `pack` gave, for the same network."""
        return cls(network, packed.displacements, solution, fitted, joint)

    def _responses(self, x: Batch) -> Tensor:
        self.network.require_unchanged(self.fitted)
        with torch.no_grad(), self.network.guard():
            return torch.stack(list(self.network.responses(x, self.displacements)))
