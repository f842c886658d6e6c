"""Regularizers that are outputs: f_c(x) (Eq. 8), and the mean absolute output (Eq. 15, 16)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import torch
from torch import Tensor

from regvar import batches, params
from regvar.batches import Batch
from regvar.errors import DataError
from regvar.log_joint import LogJoint
from regvar.params import Params
from regvar.regularizers.protocol import Term, gradient_of_terms


@dataclass(frozen=True)
class OutputAt:
    """f_c(x) for one query x and one entry c of its (flattened) output."""

    query: Batch
    entry: int
    fixed_order: bool = False

    def value(self, joint: LogJoint) -> Tensor:
        """f_c(x), differentiable."""
        return joint.network.outputs(self.query).reshape(-1)[self.entry]

    def gradient(self, joint: LogJoint) -> Params:
        """J_c(x)ᵀ."""
        joint.require_same([self.query], "inputs of pointwise")
        with joint.network.guard(), torch.enable_grad():
            return joint.network.pull_back(self.value(joint))

    def start(self, joint: LogJoint) -> Params | None:
        """Zero."""
        return None

    def stochastic(self, joint: LogJoint, lam: float, whole: bool = False) -> Term:
        """f_c(x) / N on each batch."""
        joint.require_same([self.query], "inputs of pointwise")
        once = joint.processes.once
        return lambda row, outputs, targets: once(lambda: self.value(joint) / joint.num_batches)


@dataclass(frozen=True)
class MeanAbsOutput:
    """(1/m) Σ_j |f(x̂_j)|₁ over probes (Eq. 15), or over the training inputs (Eq. 16)."""

    probes: Iterable[Batch] | None = None
    fixed_order: bool = False

    def gradient(self, joint: LogJoint) -> Params:
        """(1/m) Σ_j J(x̂_j)ᵀ sign f(x̂_j)."""
        if self.probes is None:
            return gradient_of_terms(joint, self.stochastic(joint, 1.0))
        joint.require_same(self.probes, "probes")
        total, count = params.zeros(joint.parameters), 0
        with joint.network.guard(), torch.enable_grad(), joint.summed(total):
            for _, batch in chain.from_iterable(joint.parts(data=self.probes)):
                outputs = joint.network.outputs(batch)
                params.add_(total, joint.network.pull_back(outputs.abs().sum()))
                count += outputs.shape[0]
        count = joint.processes.total(count)
        if count == 0:
            raise DataError(
                "probes must hold at least one input, but the loader is empty. "
                "Pass probes=None to use the training inputs."
            )
        return params.scale_(total, 1 / count)

    def start(self, joint: LogJoint) -> Params | None:
        """Zero."""
        return None

    def stochastic(self, joint: LogJoint, lam: float, whole: bool = False) -> Term:
        """In-sample: the batch's own inputs. Otherwise one batch of probes a step, in turn."""
        if self.probes is None:
            return lambda row, outputs, targets: _absolute(joint, outputs, targets)
        joint.require_same(self.probes, "probes")
        sizes = [batches.length(b) or 1 for b in batches.pinned(self.probes, 0)]
        if not sizes:
            raise DataError("probes must hold at least one input, but the loader is empty.")
        once = joint.processes.once
        if whole:
            before = [math.inf]  # a pass begins where rows do not go up

            def all_(row: int, outputs: Tensor, targets: Any) -> Tensor:
                begins, before[0] = row <= before[0], row
                return once(lambda: self._all(joint, outputs, skip=not begins))

            return all_
        weight = len(sizes) / (sum(sizes) * joint.num_batches)
        endless = chain.from_iterable(batches.pinned(probes, 0) for probes in repeat(self.probes))

        def term(row: int, outputs: Tensor, targets: Any) -> Tensor:
            return once(lambda: weight * joint.network.outputs(next(endless)).abs().sum())

        return term

    def _all(self, joint: LogJoint, like: Tensor, skip: bool) -> Tensor:
        """The whole of t, once a pass."""
        total, count = like.new_zeros(()), 0
        for batch in batches.pinned(() if skip else self.probes or (), 0):
            outputs = joint.network.outputs(batch)
            total = total + outputs.abs().sum()
            count += outputs.shape[0]
        return total / max(count, 1)


def _absolute(joint: LogJoint, outputs: Tensor, targets: Any) -> Tensor:
    mask = joint.likelihood.mask(outputs, targets)
    scored = outputs if mask is None else outputs * mask
    return scored.abs().sum() / joint.examples
