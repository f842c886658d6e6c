"""Any log likelihood written in torch; its output curvature comes from autograd.

The outputs of one example may interact, those of different examples may not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regvar.errors import DataError
from regvar.likelihoods.protocol import full_precision

_LARGEST = 512


@dataclass(frozen=True)
class Custom:
    """`log_prob(outputs, targets)`: one value per example, or their sum; never their mean.

    >>> import torch, regvar
    >>> poisson = regvar.Custom(lambda f, y: y * f - f.exp())
    >>> poisson.curvature(torch.zeros(1, 1), torch.ones(1, 1), torch.ones(1, 1))
    tensor([[1.]])
    """

    function: Callable[[Tensor, Any], Tensor]

    def check(self, outputs: Tensor, targets: Any) -> Tensor:
        """Only the function can know."""
        return targets.to(outputs.device) if isinstance(targets, Tensor) else targets

    def log_prob(self, outputs: Tensor, targets: Any) -> Tensor:
        """Σ log p(y_i | f_i)."""
        return self.function(full_precision(outputs), targets).sum()

    def count(self, outputs: Tensor, targets: Any) -> int:
        """One datum per example."""
        return outputs.shape[0]

    def mask(self, outputs: Tensor, targets: Any) -> Tensor | None:
        """Every output is scored."""
        return None

    def curvature(self, outputs: Tensor, targets: Any, v: Tensor) -> Tensor:
        """Λ v, by differentiating the score along v."""
        f, score = self._score(outputs, targets)
        if not score.requires_grad:
            return torch.zeros_like(f)
        (product,) = torch.autograd.grad(score, f, v.to(f), materialize_grads=True)
        return -product.detach()

    def noise(self, outputs: Tensor, targets: Any, eps: Tensor) -> Tensor:
        """Λ^½ ε from the eigenvectors of each example's Λ."""
        values, vectors = torch.linalg.eigh(self._dense(outputs, targets))
        tolerance = 1e3 * torch.finfo(values.dtype).eps * values.abs().amax().clamp(min=1e-30)
        if bool((values < -tolerance).any()):
            raise DataError(
                f"log_prob must be concave in the outputs for sampling, but −∇²_f log p has the "
                f"eigenvalue {float(values.min()):.3g}. Use amortized or pointwise instead."
            )
        flat = eps.reshape(eps.shape[0], -1, 1).to(vectors)
        return (vectors @ (values.clamp(min=0).sqrt().unsqueeze(-1) * flat)).reshape(eps.shape)

    def _score(self, outputs: Tensor, targets: Any) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            f = full_precision(outputs).detach().requires_grad_()
            (score,) = torch.autograd.grad(self.log_prob(f, targets), f, create_graph=True)
        return f, score

    def _dense(self, outputs: Tensor, targets: Any) -> Tensor:
        f, score = self._score(outputs, targets)
        width = f[0].numel()
        if width > _LARGEST:
            raise DataError(
                f"sampling with Custom needs at most {_LARGEST} outputs per example, but there are "
                f"{width}. Use amortized, or one of the built-in likelihoods."
            )
        if not score.requires_grad:
            return torch.zeros(f.shape[0], width, width, dtype=f.dtype, device=f.device)
        columns = [
            torch.autograd.grad(column.sum(), f, retain_graph=True)[0].reshape(f.shape[0], -1)
            for column in score.reshape(f.shape[0], -1).unbind(1)
        ]
        hessian = -torch.stack(columns, 2)
        return 0.5 * (hessian + hessian.mT)
