"""The generalized Gauss-Newton curvature: the second term of Eq. 5, Σ_i J_iᵀ Λ_i J_i.

One product is J v (forward mode or differences), Λ of the likelihood, and one backward pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regvar import params
from regvar.batches import Batch
from regvar.log_joint import LogJoint
from regvar.params import Params


@dataclass(frozen=True)
class GGN:
    """Σ_i J_iᵀ Λ_i J_i: positive semidefinite; the curvature of the linearized network (Eq. 6)."""

    @property
    def positive(self) -> bool:
        """Always."""
        return True

    def add_products(
        self,
        joint: LogJoint,
        batch: Batch,
        vectors: Sequence[Mapping[str, Tensor]],
        totals: Sequence[Params],
        weight: float,
    ) -> None:
        """`totals[k] += weight · Jᵀ Λ J vectors[k]`."""
        network = joint.network
        outputs, targets = network.outputs_and_targets(batch)
        _, targets = joint.score(outputs, targets)
        fixed = outputs.detach()
        for k, (v, total) in enumerate(zip(vectors, totals, strict=True)):
            with torch.no_grad():
                response = network.jvp(batch, v)
                pull = joint.likelihood.curvature(fixed, targets, response).to(outputs.dtype)
            last = k == len(vectors) - 1
            params.add_(total, network.pull_back(outputs, pull, keep=not last), alpha=weight)
