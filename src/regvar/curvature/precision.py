"""P v = (curvature of the data) v + (curvature of the prior) v, one pass for any number of v."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

import torch
from torch import Tensor

from regvar import params
from regvar.batches import Batch
from regvar.log_joint import LogJoint
from regvar.params import Params


class Curvature(Protocol):
    """A reading of −∇² Σ log p(y_i | f(x_i)) (Eq. 5)."""

    @property
    def positive(self) -> bool:
        """Whether it is positive semidefinite by construction."""
        ...

    def add_products(
        self,
        joint: LogJoint,
        batch: Batch,
        vectors: Sequence[Mapping[str, Tensor]],
        totals: Sequence[Params],
        weight: float,
    ) -> None:
        """`totals[k] += weight · C_b vectors[k]` for the data of one batch."""
        ...


@dataclass(frozen=True)
class Precision:
    """P of one joint at its current parameters."""

    joint: LogJoint
    curvature: Curvature

    def products(self, vectors: Sequence[Mapping[str, Tensor]]) -> list[Params]:
        """P v for each v, in one pass over the data."""
        totals = self.data_products(vectors)
        for total, v in zip(totals, vectors, strict=True):
            params.add_(total, self.joint.prior.curvature(v))
        return totals

    def data_products(self, vectors: Sequence[Mapping[str, Tensor]]) -> list[Params]:
        """The likelihood's part only."""
        totals = [params.zeros(self.joint.parameters) for _ in vectors]
        with self.joint.network.guard(), torch.enable_grad(), self.joint.summed(*totals):
            for _, batch in chain.from_iterable(self.joint.parts()):
                self.curvature.add_products(self.joint, batch, vectors, totals, 1.0)
        return totals

    def batch_products(
        self, part: Sequence[tuple[int, Batch]], vectors: Sequence[Mapping[str, Tensor]]
    ) -> list[Params]:
        """An unbiased estimate of `products` from one of the N batches, a list of its parts."""
        totals = [params.copy(self.joint.prior.curvature(v)) for v in vectors]
        if not self.joint.processes.alone:
            totals = [params.scale_(v, self.joint.processes.share) for v in totals]
        weight = float(self.joint.num_batches)
        with self.joint.network.guard(), torch.enable_grad(), self.joint.summed(*totals):
            for _, batch in part:
                self.curvature.add_products(self.joint, batch, vectors, totals, weight)
        return totals
