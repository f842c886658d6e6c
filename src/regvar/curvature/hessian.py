"""The exact Hessian: both terms of Eq. 5, −∇² Σ_i log p(y_i | f(x_i)), by differentiating twice.

Where an operation has no second derivative, and where parameters are sharded, the gradient is
differenced along v instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regvar import params
from regvar.batches import Batch
from regvar.linearize import CentralDifferences, differentiable_ops
from regvar.log_joint import LogJoint
from regvar.params import Params


@dataclass(frozen=True)
class Hessian:
    """−∇² Σ_i log p(y_i | f(x_i)): positive definite (with the prior) only at a MAP.

    `differences` replaces the second derivative by central differences of the gradient.
    """

    differences: CentralDifferences | None = None

    @property
    def positive(self) -> bool:
        """Only a MAP makes it so; solvers must watch."""
        return False

    def add_products(
        self,
        joint: LogJoint,
        batch: Batch,
        vectors: Sequence[Mapping[str, Tensor]],
        totals: Sequence[Params],
        weight: float,
    ) -> None:
        """`totals[k] += weight · H vectors[k]`."""
        if self.differences is None and not joint.processes.sharded:
            try:
                self._twice(joint, batch, vectors, totals, weight)
                return
            except (NotImplementedError, RuntimeError) as error:
                if "not implemented" not in str(error) and "double backward" not in str(error):
                    raise
        for v, total in zip(vectors, totals, strict=True):
            self._differenced(joint, batch, v, total, weight)

    def _twice(
        self,
        joint: LogJoint,
        batch: Batch,
        vectors: Sequence[Mapping[str, Tensor]],
        totals: Sequence[Params],
        weight: float,
    ) -> None:
        parameters = joint.parameters
        with differentiable_ops():
            value, _ = joint.score(*joint.network.outputs_and_targets(batch))
            grads: Any = torch.autograd.grad(
                value, list(parameters.values()), create_graph=True, allow_unused=True
            )
            reached = [
                (name, g)
                for name, g in zip(parameters, grads, strict=True)
                if g is not None and g.requires_grad
            ]
            for k, (v, total) in enumerate(zip(vectors, totals, strict=True)):
                if not reached:
                    return
                second: Any = torch.autograd.grad(
                    [g for _, g in reached],
                    list(parameters.values()),
                    [v[name].to(g.dtype) for name, g in reached],
                    retain_graph=k < len(vectors) - 1,
                    allow_unused=True,
                )
                for name, g in zip(parameters, second, strict=True):
                    if g is not None:
                        total[name].add_(g.detach(), alpha=-weight)

    def _differenced(
        self,
        joint: LogJoint,
        batch: Batch,
        v: Mapping[str, Tensor],
        total: Params,
        weight: float,
    ) -> None:
        differences = self.differences or CentralDifferences()
        h = differences.width(joint.parameters, v)
        if h == 0.0:
            return
        for sign in (1.0, -1.0):
            with params.displaced(joint.parameters, [(sign * h, v)]):
                value, _ = joint.score(*joint.network.outputs_and_targets(batch))
                grad = joint.network.pull_back(value)
            params.add_(total, grad, alpha=-sign * weight / (2 * h))
