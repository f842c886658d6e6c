"""Preconditioners M ≈ P for conjugate gradients.

`Jacobi`: the diagonal of P, estimated from random pulls. `Nystrom` (Frangella, Tropp and Udell,
2023): the curvature of the data in a random subspace, in units of the prior,

    S = P₀^−½ (Σ JᵀΛJ) P₀^−½ ≈ U Λ̂ Uᵀ,   M⁻¹ = P₀^−½ [(λ̂_r + 1) U (Λ̂ + 1)⁻¹ Uᵀ + I − U Uᵀ] P₀^−½.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from regvar import noise, params
from regvar.batches import Batch
from regvar.curvature import Precision
from regvar.distributed import local
from regvar.errors import ArgumentError, require
from regvar.log_joint import LogJoint
from regvar.params import Params

Inverse = Callable[[Params], Params]


class Preconditioner(Protocol):
    """A recipe for M⁻¹."""

    def build(self, precision: Precision) -> Inverse:
        """The map r → M⁻¹ r for this precision."""
        ...


@dataclass(frozen=True)
class Jacobi:
    """M = diag(P), the likelihood's part estimated as E[(Jᵀ Λ^½ ε)²] from `samples` passes.

    >>> import regvar
    >>> regvar.Jacobi(samples=4)
    Jacobi(samples=4, seed=0)
    """

    samples: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse an empty estimate."""
        require(self.samples >= 1, "samples", "at least 1", self.samples)

    def build(self, precision: Precision) -> Inverse:
        """Divide by the diagonal."""
        joint = precision.joint
        ones = {k: torch.ones_like(v) for k, v in params.zeros(joint.parameters).items()}
        diagonal = params.zeros(ones)
        with joint.network.guard(), torch.enable_grad():
            for part in joint.parts():
                for pull in self._pulls(joint, part):
                    square = {name: g.square() for name, g in pull.items()}
                    params.add_(diagonal, square, alpha=1 / self.samples)
        params.add_(diagonal, joint.prior.curvature(ones))
        floor = 1e-12 * max(float(local(v).max()) for v in diagonal.values() if local(v).numel())
        return lambda r: {k: v / diagonal[k].clamp(min=floor) for k, v in r.items()}

    def _pulls(self, joint: LogJoint, part: Sequence[tuple[int, Batch]]) -> Iterator[Params]:
        """Jᵀ Λ^½ ε of one batch, for each ε; many processes add up theirs before it is squared."""
        ready: list[tuple[int, Tensor, Any]] = []
        for row, batch in part:
            outputs, targets = joint.network.outputs_and_targets(batch)
            ready.append((row, outputs, joint.score(outputs, targets)[1]))
        for k in range(self.samples):
            pulls: list[Params] = []
            for row, outputs, targets in ready:
                fixed = outputs.detach()
                eps = noise.normal((self.seed, k, 1), row, outputs.shape, fixed)
                u = joint.likelihood.noise(fixed, targets, eps).to(outputs.dtype)
                pulls.append(joint.network.pull_back(outputs, u, keep=k < self.samples - 1))
            pull = pulls[0] if pulls else params.zeros(joint.parameters)
            joint.processes.sum_(pull.values())
            yield pull


@dataclass(frozen=True)
class Nystrom:
    """The `rank` strongest directions of the data's curvature, caught by a random sketch.

    It costs `rank` products in one pass, and memory for `rank` vectors of parameters.

    >>> import regvar
    >>> regvar.Nystrom(rank=10)
    Nystrom(rank=10, seed=0)
    """

    rank: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse an empty sketch."""
        require(self.rank >= 1, "rank", "at least 1", self.rank)

    def build(self, precision: Precision) -> Inverse:
        """Sketch, then whiten."""
        if precision.joint.processes.sharded:
            raise ArgumentError(
                "preconditioner=Nystrom needs whole parameters in every process, but they are "
                "sharded. Use Jacobi()."
            )
        like = params.zeros(precision.joint.parameters)
        rank = min(self.rank, params.size(like))
        prior = precision.joint.prior
        if prior.draw(like) is None:
            raise ArgumentError(
                "preconditioner=Nystrom needs a prior with curvature, but the prior has none. "
                "Use Jacobi(), or a GaussianPrior."
            )
        omega = _orthonormal(_Block.random(like, rank, self.seed))
        rows = [prior.draw(omega.row(k)) or {} for k in range(rank)]
        sketch = _Block.stack(
            [prior.draw(product) or {} for product in precision.data_products(rows)]
        )
        basis, values = _eigen(omega, sketch)
        weights = (values[-1] + 1.0) / (values + 1.0) - 1.0

        def inverse(r: Params) -> Params:
            white = prior.draw(r) or {}
            corrected = basis.combine(weights * basis.coordinates(white))
            return prior.draw(params.add_(corrected, white)) or {}

        return inverse


@dataclass(frozen=True)
class _Block:
    """Several vectors of parameters as the rows of one matrix per parameter."""

    parts: dict[str, Tensor]  # {name: [rows, *shape]}

    @staticmethod
    def random(like: Mapping[str, Tensor], rows: int, seed: int) -> _Block:
        draws = [params.randn(like, noise.generator((seed, k, 2), -1)) for k in range(rows)]
        return _Block.stack(draws)

    @staticmethod
    def stack(vectors: list[Params]) -> _Block:
        return _Block({k: torch.stack([v[k] for v in vectors]) for k in vectors[0]})

    def row(self, index: int) -> Params:
        return {k: v[index] for k, v in self.parts.items()}

    def gram(self, other: _Block) -> Tensor:
        """All inner products, in double precision: [rows, rows]."""
        terms = [
            (v.flatten(1).double() @ other.parts[k].flatten(1).double().mT).cpu()
            for k, v in self.parts.items()
        ]
        return torch.stack(terms).sum(0)

    def mix(self, matrix: Tensor) -> _Block:
        """matrix @ rows."""
        return _Block(
            {
                k: (matrix.to(v) @ v.flatten(1)).reshape(-1, *v.shape[1:])
                for k, v in self.parts.items()
            }
        )

    def coordinates(self, vector: Mapping[str, Tensor]) -> Tensor:
        terms = [(v.flatten(1) @ vector[k].reshape(-1)).cpu() for k, v in self.parts.items()]
        return torch.stack(terms).sum(0).double()

    def combine(self, weights: Tensor) -> Params:
        return {
            k: (weights.to(v) @ v.flatten(1)).reshape(v.shape[1:]) for k, v in self.parts.items()
        }


def _orthonormal(block: _Block) -> _Block:
    factor = torch.linalg.cholesky(block.gram(block))
    identity = torch.eye(factor.shape[0], dtype=factor.dtype)
    return block.mix(torch.linalg.solve_triangular(factor, identity, upper=False))


def _eigen(omega: _Block, sketch: _Block) -> tuple[_Block, Tensor]:
    """S ≈ Y (Ωᵀ Y)⁻¹ Yᵀ = U Λ̂ Uᵀ, with a small shift that keeps the core invertible."""
    core = omega.gram(sketch)
    shift = 1e-6 * core.diagonal().abs().max().clamp(min=1e-30)
    identity = torch.eye(core.shape[0], dtype=core.dtype)
    shifted = _Block({k: v + float(shift) * omega.parts[k] for k, v in sketch.parts.items()})
    factor = torch.linalg.cholesky(0.5 * (core + core.mT) + shift * identity)
    half = shifted.mix(torch.linalg.solve_triangular(factor, identity, upper=False))
    squares, vectors = torch.linalg.eigh(half.gram(half))
    order = squares.argsort(descending=True)
    squares, vectors = squares[order].clamp(min=1e-300), vectors[:, order]
    basis = half.mix((vectors / squares.sqrt()).mT)
    return basis, (squares - shift).clamp(min=0.0)
