"""Pointwise RegVar (Algorithm 2): the regularizer is the very output whose variance is asked.

    t(θ) = f_c(x),   σ²_f(x)_c = |J_c(x) P⁻¹ J_c(x)ᵀ|          (Eq. 8–10, Theorem 4.1)

One solve per input and output: the exact linearized-Laplace variance and the oracle for all
other estimators, too dear for many inputs of a large network.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from regvar import batches, params
from regvar.batches import Batch
from regvar.errors import StorageError, require
from regvar.estimators import protocol
from regvar.log_joint import LogJoint
from regvar.network import Fingerprint, Network
from regvar.regularizers import OutputAt
from regvar.results import Displacement, Moments, Packed, Solution
from regvar.solvers import ConjugateGradient, Solver
from regvar.solvers.tangent import blocks, worse


def pointwise(joint: LogJoint, solver: Solver | None = None) -> Pointwise:
    """Algorithm 2: σ²_f(x) = (1/λ) |f_{θ̂(f(x),λ)}(x) − f_θ̂(x)|, or its limit λ → 0.

    Args:
        joint: network, data, likelihood and prior, at the MAP.
        solver: `ConjugateGradient(GGN())` by default; `Finetune` is the paper's.

    >>> import torch, regvar
    >>> x = torch.linspace(-1, 1, 8)[:, None]
    >>> joint = regvar.LogJoint(torch.nn.Linear(1, 1), [(x, x)],
    ...                         likelihood=regvar.Gaussian(sigma=1.0),
    ...                         prior=regvar.GaussianPrior(precision=1.0))
    >>> regvar.pointwise(joint).moments(torch.zeros(1, 1)).variance
    tensor([[0.1111]])
    """
    solver = solver or ConjugateGradient()
    protocol.check(joint, solver)
    joint.check()
    return Pointwise(joint, solver, joint.network.fingerprint())


@dataclass(frozen=True)
class Pointwise:
    """J(x) P⁻¹ J(x)ᵀ, solved when asked."""

    joint: LogJoint = field(repr=False)
    solver: Solver
    fitted: Fingerprint = field(repr=False)
    _last: list[Solution] = field(default_factory=list, repr=False, compare=False)

    @property
    def network(self) -> Network:
        """The network it speaks of."""
        return self.joint.network

    @property
    def solution(self) -> Solution | None:
        """The solve of the last query, the worst of its blocks of right-hand sides."""
        return self._last[-1] if self._last else None

    def moments(self, x: Batch) -> Moments:
        """f(x) and |J_c(x) P⁻¹ J_c(x)ᵀ| for every output: [batch, outputs...]."""
        mean = self._mean(x)
        variance = torch.zeros_like(mean, dtype=params.work_dtype(mean.dtype)).reshape(
            mean.shape[0], -1
        )
        for query, row, entry, move in self._solved(x, mean):
            (response,) = self.network.responses(query, (move,))
            variance[row, entry] = response.reshape(-1)[entry].abs()
        return Moments(mean, variance.reshape(mean.shape))

    def covariance(self, x1: Batch, x2: Batch | None = None) -> Tensor:
        """J(x1) P⁻¹ J(x2)ᵀ: [batch1, outputs..., batch2, outputs...]."""
        x2 = x1 if x2 is None else x2
        first, second = self._mean(x1), self._mean(x2)
        columns = [
            next(self.network.responses(x1, (move,))) for _, _, _, move in self._solved(x2, second)
        ]
        flat = torch.stack([c.reshape(-1) for c in columns], 1)
        return flat.reshape(*first.shape, *second.shape)

    def draws(self, x: Batch, samples: int = 16, seed: int = 0) -> Tensor:
        """Joint draws of f(x) ~ N(f_θ̂(x), J P⁻¹ Jᵀ): [samples, batch, outputs...]."""
        require(samples >= 1, "samples", "at least 1", samples)
        mean = self._mean(x)
        covariance = self.covariance(x).reshape(mean.numel(), mean.numel())
        values, vectors = torch.linalg.eigh(0.5 * (covariance + covariance.mT))
        root = vectors * values.clamp(min=0).sqrt()
        generator = torch.Generator().manual_seed(seed)
        eps = torch.randn(samples, mean.numel(), generator=generator, dtype=torch.float64)
        return mean + (eps.to(root) @ root.mT).reshape(samples, *mean.shape)

    def pack(self) -> Packed:
        """Its solver."""
        return Packed({"solver": self.solver})

    @classmethod
    def unpack(
        cls,
        packed: Packed,
        network: Network,
        fitted: Fingerprint,
        solution: Solution | None,
        joint: LogJoint | None,
    ) -> Pointwise:
        """What `pack` gave, for the same network."""
        if joint is None:
            raise StorageError(
                "joint must be a LogJoint for a pointwise estimator, but is a bare module: every "
                "query needs a solve with the data."
            )
        last = [] if solution is None else [solution]
        return cls(joint, packed.settings["solver"], fitted, last)

    def _mean(self, x: Batch) -> Tensor:
        self.network.require_unchanged(self.fitted)
        with torch.no_grad(), self.network.guard():
            return self.network.outputs(x)

    def _solved(self, x: Batch, mean: Tensor) -> Iterator[tuple[Batch, int, int, Displacement]]:
        """P⁻¹ J_c(x_i)ᵀ for every input i and output c, a block of them at a time."""
        per_row = mean.shape[1:].numel()
        places = [(row, entry) for row in range(mean.shape[0]) for entry in range(per_row)]
        x = batches.to_device(x, self.network.device)
        for block in blocks(self.joint, len(places), None, copies=8):
            part = [places[k] for k in block]
            queries = [batches.rows(x, row, row + 1) for row, _ in part]
            asked = [OutputAt(q, entry) for q, (_, entry) in zip(queries, part, strict=True)]
            solution = self.solver.solve(self.joint, asked)
            report = replace(solution, value=())
            self._last[:] = [report if block.start == 0 else worse(self._last[0], report)]
            for query, (row, entry), move in zip(queries, part, solution.value, strict=True):
                yield query, row, entry, move
