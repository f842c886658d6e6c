"""The norm of the gradient: linearized Laplace with an isotropic precision, P = I.

    σ²_f(x)_c = J_c(x) J_c(x)ᵀ = ‖∇_θ f_c(x)‖²          (Eq. 7 with P⁻¹ = I)

Its scale is arbitrary and left to calibration. By default one backward pass per input, of the
largest output c* alone, speaks for all outputs of that input.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from regvar import batches, params
from regvar.batches import Batch
from regvar.estimators import protocol
from regvar.log_joint import LogJoint
from regvar.network import Fingerprint, Network
from regvar.results import Moments, Packed, Solution


def gradient_norm(joint: LogJoint, per_output: bool = False) -> GradientNorm:
    """‖∇_θ f_c*(x)‖² of the largest output, for all outputs of the input.

    Args:
        joint: network, data, likelihood and prior, at the MAP.
        per_output: ‖∇_θ f_c(x)‖² of each output instead, by one backward pass for each.

    >>> import torch, regvar
    >>> from regvar import baselines
    >>> x = torch.linspace(-1, 1, 8)[:, None]
    >>> joint = regvar.LogJoint(torch.nn.Linear(1, 1), [(x, x)],
    ...                         likelihood=regvar.Gaussian(sigma=1.0),
    ...                         prior=regvar.GaussianPrior(precision=1.0))
    >>> baselines.gradient_norm(joint).moments(torch.tensor([[3.0]])).variance
    tensor([[10.]])
    """
    protocol.check_joint(joint)
    joint.check()
    return GradientNorm(joint.network, per_output, None, joint.network.fingerprint(), joint)


@dataclass(frozen=True)
class GradientNorm:
    """Squared gradient norms, computed when asked."""

    network: Network = field(repr=False)
    per_output: bool
    solution: Solution | None
    fitted: Fingerprint = field(repr=False)
    joint: LogJoint | None = field(default=None, repr=False)

    def moments(self, x: Batch) -> Moments:
        """f(x) and ‖∇_θ f_c(x)‖², row by row: [batch, outputs...]."""
        self.network.require_unchanged(self.fitted)
        with torch.no_grad(), self.network.guard():
            mean = self.network.outputs(x)
            variance = torch.zeros_like(mean, dtype=params.work_dtype(mean.dtype))
            for row in range(mean.shape[0]):
                variance[row] = self._norms(batches.rows(x, row, row + 1))
        return Moments(mean, variance)

    def _norms(self, query: Batch) -> Tensor:
        """For one input, broadcastable to its outputs."""
        with torch.enable_grad():
            outputs = self.network.outputs(query)[0]
            flat = outputs.reshape(-1)
            entries = list(range(flat.numel())) if self.per_output else [int(flat.argmax())]
            pulls = (self.network.pull_back(flat[c], keep=c != entries[-1]) for c in entries)
            norms = [params.dot(pull, pull) for pull in pulls]
        found = torch.tensor(norms, dtype=torch.float64, device=outputs.device)
        return found.reshape(outputs.shape) if self.per_output else found

    def pack(self) -> Packed:
        """Its one setting."""
        return Packed({"per_output": self.per_output})

    @classmethod
    def unpack(
        cls,
        packed: Packed,
        network: Network,
        fitted: Fingerprint,
        solution: Solution | None,
        joint: LogJoint | None,
    ) -> GradientNorm:
        """What `pack` gave, for the same network."""
        return cls(network, bool(packed.settings["per_output"]), solution, fitted, joint)
