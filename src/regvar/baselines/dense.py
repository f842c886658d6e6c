"""Linearized Laplace over the whole network with P as a matrix, for small nets.

    σ²_f(x) = |J(x) P⁻¹ J(x)ᵀ|                          (Eq. 7)

P is factored once, in double precision on the CPU, and each query costs a backward pass per
output. `pointwise` gives the same numbers for networks too large for a matrix.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regvar import batches, params
from regvar.batches import Batch
from regvar.curvature import Curvature, Precision, dense
from regvar.errors import SolverWarning, require
from regvar.estimators import protocol
from regvar.log_joint import LogJoint
from regvar.network import Fingerprint, Network
from regvar.results import Moments, Packed, Solution, Status

_ROWS = 256  # rows of J multiplied with P⁻¹ together


def fit_dense(joint: LogJoint, curvature: Curvature) -> DenseLaplace:
    """Factor P; an indefinite one is inverted all the same, and announced."""
    protocol.check_joint(joint)
    joint.check()
    matrix = dense(Precision(joint, curvature)).to("cpu", torch.float64)
    root, failed = torch.linalg.cholesky_ex(matrix)
    definite = not int(failed)
    if not definite:
        root, failed = torch.linalg.inv_ex(matrix)
        remedy = "Take a GaussianPrior."
        require(not int(failed), "P", "invertible", f"singular in {len(matrix)} dimensions", remedy)
    root = root.contiguous()  # LAPACK's columns; read back from disk they would round otherwise
    probe = torch.ones(len(matrix), 1, dtype=torch.float64)
    residual = float((matrix @ _solve(root, definite, probe) - probe).norm() / probe.norm())
    solution = Solution((), Status.CONVERGED, residual, 1)
    if not definite:
        advice = "θ̂ is no strict maximum of L: train it further, or take baselines.ggn."
        solution = Solution((), Status.INDEFINITE, residual, 1, advice)
        negative = int((torch.linalg.eigvalsh(matrix) <= 0).sum())
        warnings.warn(
            f"L curves upward in {negative} of {len(matrix)} directions, so that |J P⁻¹ Jᵀ| is no "
            f"variance. {advice}",
            SolverWarning,
            stacklevel=3,
        )
    return DenseLaplace(joint.network, root, definite, solution, joint.network.fingerprint(), joint)


def _solve(root: Tensor, definite: bool, right: Tensor) -> Tensor:
    return torch.cholesky_solve(right, root) if definite else root @ right


@dataclass(frozen=True)
class DenseLaplace:
    """N(θ̂, P⁻¹) over all parameters, read through the Jacobian."""

    network: Network = field(repr=False)
    root: Tensor = field(repr=False)  # L with P = L Lᵀ, or P⁻¹ of an indefinite P; [dim θ, dim θ]
    definite: bool  # whether P is positive definite
    solution: Solution | None
    fitted: Fingerprint = field(repr=False)
    joint: LogJoint | None = field(default=None, repr=False)

    def solve(self, right: Tensor) -> Tensor:
        """P⁻¹ b for each column b: [dim θ, columns]."""
        return _solve(self.root, self.definite, right)

    def moments(self, x: Batch) -> Moments:
        """f(x) and |J_c(x) P⁻¹ J_c(x)ᵀ| for every output: [batch, outputs...]."""
        self.network.require_unchanged(self.fitted)
        with torch.no_grad(), self.network.guard():
            mean = self.network.outputs(x)
            parts = [(rows * self.solve(rows.mT).mT).sum(1).abs() for rows in self._jacobian(x)]
        like = mean.to(params.work_dtype(mean.dtype))
        return Moments(mean, torch.cat(parts).to(like).reshape(mean.shape))

    def covariance(self, x1: Batch, x2: Batch | None = None) -> Tensor:
        """J(x1) P⁻¹ J(x2)ᵀ: [batch1, outputs..., batch2, outputs...]."""
        self.network.require_unchanged(self.fitted)
        x2 = x1 if x2 is None else x2
        with torch.no_grad(), self.network.guard():
            first, second = self.network.outputs(x1), self.network.outputs(x2)
            left, right = (torch.cat(list(self._jacobian(x))) for x in (x1, x2))
        flat = left @ self.solve(right.mT)
        like = first.to(params.work_dtype(first.dtype))
        return flat.to(like).reshape(*first.shape, *second.shape)

    @property
    def parameter_variance(self) -> Mapping[str, Tensor]:
        """The diagonal of |P⁻¹|, one tensor per trainable parameter."""
        inverse = self.solve(torch.eye(len(self.root), dtype=self.root.dtype))
        like = params.zeros(self.network.parameters)
        found = params.unflatten(inverse.diagonal().abs(), like)
        return {k: v.to(like[k]) for k, v in found.items()}

    def _jacobian(self, x: Batch) -> Iterator[Tensor]:
        """J(x) in double precision, some rows at a time: [rows, dim θ]."""
        held: list[Tensor] = []
        for index in range(batches.length(x) or 1):
            with torch.enable_grad():
                outputs = self.network.outputs(batches.rows(x, index, index + 1)).reshape(-1)
                for entry in outputs:
                    pulled = self.network.pull_back(entry, keep=True)
                    held.append(params.flatten(pulled).to("cpu", torch.float64))
            if len(held) >= _ROWS:
                yield torch.stack(held)
                held = []
        if held:
            yield torch.stack(held)

    def pack(self) -> Packed:
        """Its factor."""
        return Packed({"definite": self.definite}, {"root": self.root})

    @classmethod
    def unpack(
        cls,
        packed: Packed,
        network: Network,
        fitted: Fingerprint,
        solution: Solution | None,
        joint: LogJoint | None,
    ) -> DenseLaplace:
        """What `pack` gave, for the same network."""
        root = packed.tensors["root"].cpu()
        return cls(network, root, bool(packed.settings["definite"]), solution, fitted, joint)
