"""Last-layer Laplace with the diagonal of the head's GGN, exact and for any size.

    P_cd = Σ_q Λ_q,cc φ̃²_qd + ρ_cd,   σ²_c(x) = Σ_d φ̃_d(x)² / P_cd          (Eq. 7, head only)

over all rows q of outputs (examples, tokens, pixels), with the bias as one more feature.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import torch
from torch import Tensor

from regvar.baselines.head import Head, read
from regvar.baselines.head_curvature import head_precision, stream
from regvar.baselines.head_finding import head_of
from regvar.batches import Batch
from regvar.errors import DataError
from regvar.estimators import protocol
from regvar.log_joint import LogJoint
from regvar.network import Fingerprint, Network
from regvar.results import Moments, Packed, Solution


def laplace_last_layer_diag(
    joint: LogJoint, head: str | None = None, *, prior_precision: float | None = None
) -> LastLayerDiag:
    """Laplace over the head alone, its weights independent.

    The head is the last `nn.Linear` or `nn.Conv2d` to run, whether or not it trains: this baseline
    is defined by the layer. Memory: C (D + 1) numbers, streamed; no features or logits are kept.

    Args:
        joint: network, data, likelihood and prior, at the MAP.
        head: the head's module name, where the last layer is not it.
        prior_precision: of the head's parameters; `None` takes the joint's `GaussianPrior`.

    >>> import torch, regvar
    >>> from regvar import baselines
    >>> x = torch.tensor([[-1.0], [1.0]])
    >>> joint = regvar.LogJoint(torch.nn.Linear(1, 1), [(x, x)],
    ...                         likelihood=regvar.Gaussian(sigma=1.0),
    ...                         prior=regvar.GaussianPrior(precision=2.0))
    >>> baselines.laplace_last_layer_diag(joint).moments(torch.ones(1, 1)).variance
    tensor([[0.5000]])
    """
    protocol.check_joint(joint)
    joint.check()
    with torch.no_grad(), joint.network.guard():
        found = head_of(joint, head)
        rho = head_precision(joint, found, prior_precision)
        total = _diagonal(joint, found, rho)
        if not bool((total > 0).all()):
            raise DataError(
                "log_prob must be concave in the outputs for Laplace, but the precision of the "
                f"head {found.name!r} is not positive. Raise the prior's precision, or use another "
                "likelihood."
            )
    return LastLayerDiag(
        joint.network, found, total.reciprocal_(), None, joint.network.fingerprint(), joint
    )


@dataclass(frozen=True)
class LastLayerDiag:
    """Independent Gaussian weights of the head, read through its effective features φ̃."""

    network: Network = field(repr=False)
    head: Head
    variances: Tensor = field(repr=False)  # 1 / P_cd, [C, D (+ 1)]
    solution: Solution | None
    fitted: Fingerprint = field(repr=False)
    joint: LogJoint | None = field(default=None, repr=False)

    def moments(self, x: Batch) -> Moments:
        """f(x) and Σ_d φ̃_d² / P_cd: [batch, outputs...]."""
        self.network.require_unchanged(self.fitted)
        with torch.no_grad(), self.network.guard():
            reading = read(self.network, self.head, x)
            variance = reading.features.square() @ self.variances.to(reading.features).mT
        return Moments(reading.outputs, self.head.unrows(variance, reading.outputs))

    def pack(self) -> Packed:
        """The variances and which head they are of."""
        return Packed({"head": asdict(self.head)}, {"variances": self.variances})

    @classmethod
    def unpack(
        cls,
        packed: Packed,
        network: Network,
        fitted: Fingerprint,
        solution: Solution | None,
        joint: LogJoint | None,
    ) -> LastLayerDiag:
        """What `pack` gave, for the same network."""
        head, variances = Head(**packed.settings["head"]), packed.tensors["variances"]
        return cls(network, head, variances, solution, fitted, joint)


def _diagonal(joint: LogJoint, head: Head, rho: Tensor) -> Tensor:
    total = torch.zeros(rho.shape, dtype=head.matrix(joint.network).dtype, device=rho.device)
    for reading, curvature in stream(joint, head):
        block = curvature.block()
        if block == 1:
            total.addmm_(curvature.diagonal().mT, reading.features.square())
            continue
        features = reading.features.reshape(-1, block, rho.shape[1])
        for place, unit, column in curvature.columns(block):
            pulled = torch.einsum("gq,gqd->gd", column[..., unit], features)
            total[unit] += (features[:, place] * pulled).sum(0)
    return total.add_(rho.to(total.dtype))
