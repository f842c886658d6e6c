"""Last-layer Laplace with the full GGN of the head, in closed form.

    P = Σ_q Λ_q ⊗ φ̃_q φ̃_qᵀ + P₀,   σ²_c(x) = φ̃(x)ᵀ (P⁻¹)_cc φ̃(x)          (Eq. 7, head only)

over all rows q of outputs (examples, tokens, pixels), with the bias as one more feature. Exact up
to C (D + 1) = 4096, in one pass. Beyond that, the stated factorization: Λ is reduced to its
diagonal, averaged over the data, so that P falls into one block per class,

    P ≈ diag_c(a_c A) + P₀,   a_c = mean_q Λ_q,cc,   A = Σ_q φ̃_q φ̃_qᵀ = Q diag(ℓ) Qᵀ,
    σ²_c(x) = Σ_d (Qᵀ φ̃)²_d / (a_c ℓ_d + ρ).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import torch
from torch import Tensor

from regvar.baselines.head import Head, read
from regvar.baselines.head_curvature import head_precision, stream, wide
from regvar.baselines.head_finding import head_of
from regvar.batches import Batch
from regvar.errors import ArgumentError, DataError, require
from regvar.estimators import protocol
from regvar.log_joint import LogJoint
from regvar.network import Fingerprint, Network
from regvar.results import Moments, Packed, Solution

LARGEST = 4096
_CHUNK = 1 << 22  # numbers of an intermediate result held at a time


def laplace_last_layer_full(
    joint: LogJoint,
    head: str | None = None,
    *,
    factorized: bool | None = None,
    prior_precision: float | None = None,
) -> LastLayerFull:
    """Laplace over the head alone, with the covariance of all its weights.

    The head is the last `nn.Linear` or `nn.Conv2d` to run, whether or not it trains: this baseline
    is defined by the layer. Its parameters are treated as Gaussian under the joint's prior.

    Memory, N = C (D + 1): exact, 3 N² doubles while it is fitted (400 MB at N = 4096) and
    C (D + 1)² afterwards; factorized, 2 (D + 1)² doubles + C. Neither keeps features or logits.

    Args:
        joint: network, data, likelihood and prior, at the MAP.
        head: the head's module name, where the last layer is not it.
        factorized: use the factorization for large heads; `None` decides by size. The result's
            `factorized` says which it was.
        prior_precision: of the head's parameters; `None` takes the joint's `GaussianPrior`.

    >>> import torch, regvar
    >>> from regvar import baselines
    >>> x = torch.tensor([[-1.0], [1.0]])
    >>> joint = regvar.LogJoint(torch.nn.Linear(1, 1), [(x, x)],
    ...                         likelihood=regvar.Gaussian(sigma=1.0),
    ...                         prior=regvar.GaussianPrior(precision=2.0))
    >>> baselines.laplace_last_layer_full(joint).moments(torch.ones(1, 1)).variance
    tensor([[0.5000]])
    """
    protocol.check_joint(joint)
    joint.check()
    with torch.no_grad(), joint.network.guard():
        found = head_of(joint, head)
        rho = head_precision(joint, found, prior_precision)
        large = rho.numel() > LARGEST
        if factorized is None:
            factorized = large
        require(
            factorized or not large,
            "factorized",
            f"True for a head with more than {LARGEST} parameters ({rho.numel()} here)",
            factorized,
            "Leave it out to let the size decide.",
        )
        tensors = _factorized(joint, found, rho) if factorized else _exact(joint, found, rho)
    fitted = joint.network.fingerprint()
    return LastLayerFull(joint.network, found, factorized, tensors, None, fitted, joint)


@dataclass(frozen=True)
class LastLayerFull:
    """The Gaussian posterior of the head, read through its effective features φ̃."""

    network: Network = field(repr=False)
    head: Head
    factorized: bool  # whether Λ was reduced to its mean diagonal
    tensors: Mapping[str, Tensor] = field(repr=False)  # exact: roots of (P⁻¹)_cc; else a, ℓ, Q
    solution: Solution | None
    fitted: Fingerprint = field(repr=False)
    joint: LogJoint | None = field(default=None, repr=False)

    def moments(self, x: Batch) -> Moments:
        """f(x) and φ̃ᵀ (P⁻¹)_cc φ̃: [batch, outputs...]."""
        self.network.require_unchanged(self.fitted)
        with torch.no_grad(), self.network.guard():
            reading = read(self.network, self.head, x)
            variance = self._variance(reading.features)
        return Moments(reading.outputs, self.head.unrows(variance, reading.outputs))

    def _variance(self, features: Tensor) -> Tensor:
        found = features.new_empty(len(features), self.head.classes)
        if not self.factorized:
            roots = self.tensors["roots"]  # U_c with U_c U_cᵀ = (P⁻¹)_cc
            wide_features = features.to(roots)
            for unit, root in enumerate(roots):
                found[:, unit] = (wide_features @ root).square().sum(1)
            return found
        rotated = (features.to(self.tensors["vectors"]) @ self.tensors["vectors"]).square()
        rotated = rotated.to(features)
        a, spectrum = (self.tensors[k].to(features) for k in ("a", "values"))
        step = max(1, _CHUNK // len(spectrum))
        for start in range(0, len(a), step):
            scale = 1 / (a[start : start + step, None] * spectrum + 1)
            torch.matmul(rotated, scale.mT, out=found[:, start : start + step])
        return found

    def pack(self) -> Packed:
        """The posterior's factors and which head they are of."""
        return Packed({"head": asdict(self.head), "factorized": self.factorized}, self.tensors)

    @classmethod
    def unpack(
        cls,
        packed: Packed,
        network: Network,
        fitted: Fingerprint,
        solution: Solution | None,
        joint: LogJoint | None,
    ) -> LastLayerFull:
        """What `pack` gave, for the same network."""
        head, factorized = Head(**packed.settings["head"]), packed.settings["factorized"]
        return cls(network, head, factorized, packed.tensors, solution, fitted, joint)


def _exact(joint: LogJoint, head: Head, rho: Tensor) -> dict[str, Tensor]:
    classes, width = rho.shape
    precision = _precision(joint, head, rho)
    factor, failed = torch.linalg.cholesky_ex(precision)
    if bool(failed):
        raise DataError(
            "log_prob must be concave in the outputs for Laplace, but the precision of the head "
            f"{head.name!r} is not positive definite. Raise the prior's precision, or use another "
            "likelihood."
        )
    del precision
    identity = torch.eye(len(factor), dtype=factor.dtype, device=factor.device)
    inverse = torch.linalg.solve_triangular(factor, identity, upper=False)
    columns = inverse.reshape(-1, classes, width).movedim(1, 0)  # P⁻¹ = L⁻ᵀ L⁻¹
    return {"roots": torch.stack([torch.linalg.cholesky(c.mT @ c) for c in columns])}


def _precision(joint: LogJoint, head: Head, rho: Tensor) -> Tensor:
    """P, [C (D + 1), C (D + 1)]: its upper blocks are summed, the lower ones mirrored."""
    classes, width = rho.shape
    total = rho.new_zeros(classes, width, classes, width)
    step = max(1, _CHUNK // rho.numel())
    for reading, curvature in stream(joint, head):
        block = curvature.block()
        features = reading.features.to(total).reshape(-1, block, width)
        for place, unit, column in curvature.columns(block):
            later = column[..., unit:].to(total)  # Λ is symmetric
            for start in range(0, len(features), step):
                phi = features[start : start + step]
                pulled = torch.einsum("gqc,gqd->gcd", later[start : start + step], phi)
                rows = phi[:, place].mT @ pulled.flatten(1)
                total[unit, :, unit:] += rows.reshape(width, classes - unit, width)
    upper = total.reshape(rho.numel(), -1).triu()
    upper += upper.triu(1).mT
    upper.diagonal().add_(rho.flatten())
    return upper


def _factorized(joint: LogJoint, head: Head, rho: Tensor) -> dict[str, Tensor]:
    """a_c, and the eigenvectors of A in units of the prior: P₀^−½ A P₀^−½ = Q diag(ℓ) Qᵀ."""
    scale = rho[0]
    if not bool((rho == scale).all()):
        raise ArgumentError(
            "precision of the prior must be the same for all classes of a factorized head, but "
            "differs. Pass prior_precision=, or one number per parameter."
        )
    classes, width = rho.shape
    device = rho.device
    second = torch.zeros(width, width, dtype=wide(device), device=device)
    trace, count = torch.zeros(classes, dtype=wide(device), device=device), 0
    for reading, curvature in stream(joint, head):
        diagonal = curvature.diagonal()
        scored = (diagonal != 0).any(1)
        features = reading.features[scored].to(second)
        second += features.mT @ features
        trace += diagonal.sum(0, dtype=trace.dtype)
        count += len(features)
    whiten = scale.rsqrt()
    values, vectors = torch.linalg.eigh(second * whiten[:, None] * whiten)
    return {
        "a": trace / max(count, 1),
        "values": values.clamp(min=0),
        "vectors": (whiten[:, None] * vectors).contiguous(),  # as it is read back, to the bit
    }
