"""Categorical labels: p = softmax(f), Λ = diag(p) − p pᵀ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regvar.batches import IGNORED
from regvar.errors import DataError
from regvar.likelihoods.protocol import as_targets, full_precision


@dataclass(frozen=True)
class Categorical:
    """log softmax(f)[y], summed over all labels except `ignore_index`.

    Classes lie along `class_dim` of the outputs (the last one; 1 for images of labels).

    >>> import torch, regvar
    >>> float(regvar.Categorical().log_prob(torch.zeros(2, 4), torch.tensor([3, -100])).exp())
    0.25
    """

    ignore_index: int = IGNORED
    class_dim: int = -1

    def check(self, outputs: Tensor, targets: Any) -> Tensor:
        """Whole-number targets in range, one per position of the outputs."""
        y = as_targets(outputs, targets)
        expected = tuple(self._last(outputs).shape[:-1])
        if tuple(y.shape) != expected:
            raise DataError(
                f"targets of Categorical must have the outputs' shape without the class dimension, "
                f"{expected}, but have {tuple(y.shape)}. Outputs are {tuple(outputs.shape)}, "
                f"classes along dimension {self.class_dim} (set class_dim to change it)."
            )
        if y.is_floating_point() or y.is_complex() or y.dtype is torch.bool:
            raise DataError(
                f"targets of Categorical must be whole numbers, but are {y.dtype}. "
                "Use y.long(), or Bernoulli() for yes/no outputs."
            )
        classes = self._last(outputs).shape[-1]
        bad = y[((y < 0) | (y >= classes)) & (y != self.ignore_index)]
        if bad.numel():
            raise DataError(
                f"label must lie in 0..{classes - 1} (or be ignore_index={self.ignore_index}), but "
                f"{int(bad[0])} is out of range. Give the network as many outputs as classes."
            )
        return y

    def log_prob(self, outputs: Tensor, targets: Any) -> Tensor:
        """Σ log softmax(f)[y]."""
        f = self._last(full_precision(outputs))
        return -torch.nn.functional.cross_entropy(
            f.reshape(-1, f.shape[-1]),
            targets.reshape(-1).long(),
            ignore_index=self.ignore_index,
            reduction="sum",
        )

    def count(self, outputs: Tensor, targets: Any) -> int:
        """One datum per label that is not ignored."""
        return int((targets != self.ignore_index).sum())

    def mask(self, outputs: Tensor, targets: Any) -> Tensor | None:
        """0 at the positions whose label is ignored."""
        scored = (targets != self.ignore_index).unsqueeze(-1)
        if bool(scored.all()):
            return None
        return scored.movedim(-1, self.class_dim).to(full_precision(outputs).dtype)

    def curvature(self, outputs: Tensor, targets: Any, v: Tensor) -> Tensor:
        """Λ v = p ⊙ v − p (pᵀ v)."""
        p = full_precision(outputs).softmax(self.class_dim)
        pv = p * v
        return self._scored(outputs, targets, pv - p * pv.sum(self.class_dim, keepdim=True))

    def noise(self, outputs: Tensor, targets: Any, eps: Tensor) -> Tensor:
        """Λ^½ ε = √p ⊙ (ε − √p (√pᵀ ε)): its covariance is diag(p) − p pᵀ, since ‖√p‖ = 1."""
        root = full_precision(outputs).softmax(self.class_dim).sqrt()
        along = (root * eps).sum(self.class_dim, keepdim=True)
        return self._scored(outputs, targets, root * (eps - root * along))

    def label_noise(self, outputs: Tensor, targets: Any, uniform: Tensor) -> Tensor:
        """onehot(ỹ) − p, ỹ drawn from p by inverting its distribution function."""
        p = self._last(full_precision(outputs).softmax(self.class_dim))
        below = p.cumsum(-1) < uniform.to(p).unsqueeze(-1)
        label = below.sum(-1).clamp(max=p.shape[-1] - 1)
        onehot = torch.nn.functional.one_hot(label, p.shape[-1]).to(p)
        return self._scored(outputs, targets, (onehot - p).movedim(-1, self.class_dim))

    def label_shape(self, outputs: Tensor) -> torch.Size:
        """The outputs' shape without the classes."""
        return self._last(outputs).shape[:-1]

    def _last(self, outputs: Tensor) -> Tensor:
        return outputs.movedim(self.class_dim, -1)

    def _scored(self, outputs: Tensor, targets: Any, values: Tensor) -> Tensor:
        mask = self.mask(outputs, targets)
        return values if mask is None else values * mask
