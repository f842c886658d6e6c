"""What the rest of the library asks of a likelihood."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from regvar.errors import DataError


@runtime_checkable
class Likelihood(Protocol):
    """Log p(y | f), summed over the data of a batch, and its curvature in f."""

    def check(self, outputs: Tensor, targets: Any) -> Tensor:
        """Refuse targets that do not fit the outputs; return them as a tensor on their device."""
        ...

    def log_prob(self, outputs: Tensor, targets: Any) -> Tensor:
        """Σ_i log p(y_i | f_i), a scalar."""
        ...

    def count(self, outputs: Tensor, targets: Any) -> int:
        """How many data the batch holds."""
        ...

    def mask(self, outputs: Tensor, targets: Any) -> Tensor | None:
        """1 where an output is scored and 0 where its target is ignored; `None`: all are."""
        ...

    def curvature(self, outputs: Tensor, targets: Any, v: Tensor) -> Tensor:
        """Λ v with Λ = −∇²_f log p(y | f), shaped like the outputs."""
        ...

    def noise(self, outputs: Tensor, targets: Any, eps: Tensor) -> Tensor:
        """Λ^½ ε: covariance Λ when ε ~ N(0, I)."""
        ...


@runtime_checkable
class LabelLikelihood(Protocol):
    """A likelihood whose noise can be a label drawn from the network's own prediction."""

    def label_noise(self, outputs: Tensor, targets: Any, uniform: Tensor) -> Tensor:
        """∇_f log p(ỹ | f) with ỹ ~ p(· | f), from one uniform number per label: covariance Λ."""
        ...

    def label_shape(self, outputs: Tensor) -> torch.Size:
        """The shape of one batch of labels."""
        ...


def as_targets(outputs: Tensor, targets: Any) -> Tensor:
    """Targets as a tensor beside the outputs."""
    if targets is None:
        raise DataError(
            "data must carry targets to be scored, but a batch has none. Yield (inputs, targets), "
            "or a dict with 'labels'."
        )
    if not isinstance(targets, Tensor):
        raise DataError(f"targets must be a tensor, but they are {type(targets).__name__}.")
    return targets.to(outputs.device)


def same_shape(outputs: Tensor, targets: Any, name: str) -> Tensor:
    """Targets that must have exactly the outputs' shape."""
    y = as_targets(outputs, targets)
    if y.shape != outputs.shape:
        raise DataError(
            f"targets of {name} must have the outputs' shape {tuple(outputs.shape)}, but have "
            f"{tuple(y.shape)}. Add or drop a dimension (y[:, None], model(x).squeeze(-1)); "
            "broadcasting them would pair every output with every target."
        )
    return y


def full_precision(outputs: Tensor) -> Tensor:
    """Half-precision outputs as float32: log-probabilities need the digits."""
    return outputs.float() if outputs.dtype in (torch.float16, torch.bfloat16) else outputs
