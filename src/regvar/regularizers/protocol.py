"""What the solvers ask of a regularizer."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, Protocol

import torch
from torch import Tensor

from regvar import params
from regvar.log_joint import LogJoint
from regvar.params import Params

Term = Callable[[int, Tensor, Any], Tensor]  # (first row of the batch, outputs, targets) -> t_b


class Regularizer(Protocol):
    """A scalar function t of the network."""

    @property
    def fixed_order(self) -> bool:
        """Whether its terms belong to rows of the data, so that epochs must not be reshuffled."""
        ...

    def gradient(self, joint: LogJoint) -> Params:
        """∇t(θ̂)."""
        ...

    def start(self, joint: LogJoint) -> Params | None:
        """A first guess at P⁻¹ ∇t, if there is a better one than zero."""
        ...

    def stochastic(self, joint: LogJoint, lam: float, whole: bool = False) -> Term:
        """The terms t_b of a refit at this λ, made while the network is at θ̂.

        `whole`: every evaluation sums a whole pass, so that nothing may be left to later batches.
        """
        ...


def gradient_of_terms(joint: LogJoint, term: Term) -> Params:
    """∇ Σ_b t_b at θ̂, one pass."""
    total = params.zeros(joint.parameters)
    with joint.network.guard(), torch.enable_grad(), joint.summed(total):
        for row, batch in chain.from_iterable(joint.parts()):
            outputs, targets = joint.network.outputs_and_targets(batch)
            _, targets = joint.score(outputs, targets)
            params.add_(total, joint.network.pull_back(term(row, outputs, targets)))
    return total
