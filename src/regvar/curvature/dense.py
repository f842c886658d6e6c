"""P as a matrix, for small nets only: dim θ products with the identity."""

from __future__ import annotations

import torch
from torch import Tensor

from regvar import params
from regvar.curvature.precision import Precision
from regvar.errors import require

LARGEST = 20_000
_BLOCK = 128


def dense(precision: Precision) -> Tensor:
    """P, [dim θ, dim θ], in `parameters` order, symmetric."""
    parameters = params.copy(precision.joint.parameters)
    size = params.size(parameters)
    require(
        size <= LARGEST,
        "dim θ",
        f"at most {LARGEST} for dense algebra",
        size,
        "Use ConjugateGradient(GGN()).",
    )
    first = next(iter(parameters.values()))
    columns: list[Tensor] = []
    for start in range(0, size, _BLOCK):
        width = min(_BLOCK, size - start)
        identity = torch.zeros(width, size, dtype=first.dtype, device=first.device)
        identity[torch.arange(width), start + torch.arange(width)] = 1.0
        rows = precision.products([params.unflatten(row, parameters) for row in identity])
        columns.extend(params.flatten(row) for row in rows)
    matrix = torch.stack(columns)
    return 0.5 * (matrix + matrix.mT)
