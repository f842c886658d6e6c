"""The parameter regularizer: the L1 norm of θ (Eq. 18)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regvar import params
from regvar.distributed import full
from regvar.log_joint import LogJoint
from regvar.params import Params
from regvar.regularizers.protocol import Term


@dataclass(frozen=True)
class AbsParameters:
    """‖θ‖₁."""

    fixed_order: bool = False

    def gradient(self, joint: LogJoint) -> Params:
        """sign θ̂."""
        return {k: p.sign() for k, p in params.copy(joint.parameters).items()}

    def start(self, joint: LogJoint) -> Params | None:
        """Zero."""
        return None

    def stochastic(self, joint: LogJoint, lam: float, whole: bool = False) -> Term:
        """‖θ‖₁ / N on each batch."""
        once = joint.processes.once

        def total(device: torch.device) -> Tensor:
            return torch.stack(
                [full(p.abs().sum()).to(device) for p in joint.parameters.values()]
            ).sum()

        def term(row: int, outputs: Tensor, targets: Any) -> Tensor:
            return once(lambda: total(outputs.device) / joint.num_batches)

        return term
