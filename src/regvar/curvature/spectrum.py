"""The largest eigenvalues of P and their eigenvectors, by products alone.

    P a_j = λ_j a_j,   λ_1 ≥ … ≥ λ_k

Block Krylov with Rayleigh–Ritz: the basis grows by the residuals P a − λ a of the current best
pairs, which span the same space as powers of P, and is orthogonalized in full each time. A block
finds eigenvalues that coincide, such as the prior's where the data say nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from tqdm import tqdm

from regvar import params
from regvar.curvature.precision import Precision
from regvar.errors import SolverWarning, require
from regvar.linearize import machine_epsilon

_SPARE = 4  # pairs iterated beyond the k asked for: the last ones converge slowest


@dataclass(frozen=True)
class Spectrum:
    """The k largest eigenpairs and how far to trust them."""

    values: Tensor  # λ_j, falling, [k], double precision
    vectors: Tensor = field(repr=False)  # a_j in `parameters` order, orthonormal, [dim θ, k]
    residual: float  # max_j ‖P a_j − λ_j a_j‖ / λ_1
    iterations: int  # passes over the data
    converged: bool


def top_eigenpairs(
    precision: Precision,
    k: int,
    *,
    tolerance: float | None = None,
    max_iterations: int = 300,
    seed: int = 0,
) -> Spectrum:
    """The k largest eigenvalues of P with their eigenvectors.

    Args:
        precision: P as an operator.
        k: how many.
        tolerance: residual ‖P a − λ a‖ relative to λ_1; 10⁻⁸ in double precision, 10⁻⁴ in single.
        max_iterations: passes over the data at the most, each with k + 4 products or fewer.
        seed: of the first block.

    >>> import torch, regvar
    >>> from regvar.curvature import Precision
    >>> from regvar.curvature.spectrum import top_eigenpairs
    >>> x = torch.eye(3).double() * torch.tensor([3.0, 2.0, 1.0])
    >>> model = torch.nn.Linear(3, 1, bias=False).double()
    >>> joint = regvar.LogJoint(model, [(x, x[:, :1])], likelihood=regvar.Gaussian(sigma=1.0),
    ...                         prior=regvar.GaussianPrior(precision=0.5))
    >>> top_eigenpairs(Precision(joint, regvar.GGN()), k=2).values
    tensor([9.5000, 4.5000], dtype=torch.float64)
    """
    parameters = params.copy(precision.joint.parameters)
    size = params.size(parameters)
    require(1 <= k <= size, "k", f"between 1 and dim θ = {size}", k)
    epsilon = machine_epsilon(parameters)
    asked = tolerance or (1e-8 if epsilon < 1e-10 else 1e-4)

    def products(columns: Tensor) -> Tensor:
        vectors = [
            {name: t.to(parameters[name]) for name, t in params.unflatten(v, parameters).items()}
            for v in columns.unbind(1)
        ]
        found = precision.products(vectors)
        return torch.stack([params.flatten(p).to("cpu", torch.float64) for p in found], 1)

    generator = torch.Generator().manual_seed(seed)
    width = min(k + _SPARE, size)
    start = torch.randn(size, width, generator=generator, dtype=torch.float64)
    first = torch.linalg.qr(start).Q
    with tqdm(total=max_iterations, desc=f"top {k} eigenpairs", leave=False, disable=None) as bar:

        def tell(residual: float) -> None:
            bar.update()
            bar.set_postfix(residual=f"{residual:.1e}", refresh=False)

        found = _iterate(products, first, k, asked, max_iterations, tell)
    if not found.converged:
        warnings.warn(
            f"top {k} eigenpairs: residual {found.residual:.2g} after {found.iterations} passes, "
            f"above the tolerance {asked:.2g}. Raise max_iterations or the tolerance.",
            SolverWarning,
            stacklevel=2,
        )
    return found


def _iterate(
    products: Callable[[Tensor], Tensor],
    block: Tensor,
    k: int,
    tolerance: float,
    budget: int,
    tell: Callable[[float], None],
) -> Spectrum:
    """Grow the basis, take the Ritz pairs, stop when the k largest have small residuals."""
    size, width = block.shape
    most = min(size, max(6 * width, 60))  # columns kept before a restart from the best pairs
    basis = images = block[:, :0]
    iteration = 0
    while True:
        iteration += 1
        basis = torch.cat([basis, block], 1)
        images = torch.cat([images, products(block)], 1)
        inner = basis.mT @ images
        found, rotation = torch.linalg.eigh(0.5 * (inner + inner.mT))
        best = rotation.flip(1)[:, :width]
        values, ritz = found.flip(0)[:width], basis @ best
        left = images @ best - ritz * values
        residuals = left.norm(dim=0) / values.abs().max().clamp(min=1e-300)
        worst = float(residuals[:k].max())
        tell(worst)
        if basis.shape[1] + width > most and most < size:
            basis, images = ritz, images @ best
        block = _orthogonal(left[:, residuals > tolerance], basis)
        if worst <= tolerance or iteration == budget or block.shape[1] == 0:
            return Spectrum(values[:k], ritz[:, :k], worst, iteration, worst <= tolerance)


def _orthogonal(columns: Tensor, basis: Tensor) -> Tensor:
    """An orthonormal basis of what the columns add to the basis; twice, against rounding."""
    columns = columns / columns.norm(dim=0).clamp(min=1e-300)
    for _ in range(2):
        columns = columns - basis @ (basis.mT @ columns)
        u, s, _ = torch.linalg.svd(columns, full_matrices=False)
        columns = u[:, s > 1e-8]
        if columns.shape[1] == 0:
            break
    return columns[:, : basis.shape[0] - basis.shape[1]]
