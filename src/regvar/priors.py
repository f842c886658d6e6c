"""Priors log p(θ): value, gradient and their part of the precision P (Eq. 4)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from regvar import params
from regvar.distributed import full, placed
from regvar.errors import ArgumentError, require
from regvar.params import Params


class Prior(Protocol):
    """What `LogJoint` needs of a prior."""

    def check(self, parameters: Mapping[str, Tensor]) -> None:
        """Refuse settings that do not fit these parameters."""
        ...

    def log_prob(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """Log p(θ), differentiable."""
        ...

    def curvature(self, v: Mapping[str, Tensor]) -> Params:
        """−∇² log p(θ) v."""
        ...

    def noise(self, xi: Mapping[str, Tensor]) -> Params:
        """P₀^½ ξ, where P₀ = −∇² log p(θ)."""
        ...

    def draw(self, xi: Mapping[str, Tensor]) -> Params | None:
        """P₀^−½ ξ, a draw of θ − mean; `None` where P₀ has no inverse."""
        ...


@dataclass(frozen=True)
class GaussianPrior:
    """N(mean, 1/precision): log p(θ) = −½ Σ [ρ (θ − μ)² − log ρ + log 2π], P₀ = diag(ρ).

    `precision` is one number, or one number or tensor per parameter name; `mean` is zero, or a
    tensor per name (fine-tuning: the pretrained weights).

    >>> import torch, regvar
    >>> prior = regvar.GaussianPrior(precision=4.0)
    >>> prior.curvature({"w": torch.ones(2)})
    {'w': tensor([4., 4.])}
    """

    precision: float | Mapping[str, float | Tensor]
    mean: Mapping[str, Tensor] | None = None

    def __post_init__(self) -> None:
        """Refuse a precision that is not positive."""
        given = self.precision if isinstance(self.precision, Mapping) else {"": self.precision}
        for name, value in given.items():
            label = f"precision[{name!r}]" if name else "precision"
            ok = bool((torch.as_tensor(value) > 0).all())
            require(ok, label, "positive", value, "It is 1 / variance of the prior.")

    def check(self, parameters: Mapping[str, Tensor]) -> None:
        """Refuse names that are missing or shapes that differ."""
        for label, given in (("precision", self.precision), ("mean", self.mean)):
            if isinstance(given, Mapping):
                missing = sorted(set(parameters) - set(given))
                if missing:
                    raise ArgumentError(
                        f"{label} must name every trainable parameter, but lacks {missing[:3]}."
                    )
                for name, p in parameters.items():
                    shape = torch.as_tensor(given[name]).shape
                    if shape not in ((), p.shape):
                        raise ArgumentError(
                            f"{label}[{name!r}] must be a number or have the parameter's shape "
                            f"{tuple(p.shape)}, but has {tuple(shape)}."
                        )

    def log_prob(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """log p(θ)."""
        total = [
            -0.5 * (rho * (self._centered(k, p)) ** 2).sum()
            + 0.5 * torch.log(rho / (2 * math.pi)).sum() * (p.numel() / rho.numel())
            for k, p in parameters.items()
            for rho in [self._rho(k, p)]
        ]
        whole = [full(t) for t in total]
        return torch.stack([t.to(whole[0].device) for t in whole]).sum()

    def curvature(self, v: Mapping[str, Tensor]) -> Params:
        """ρ v."""
        return {k: self._rho(k, x) * x for k, x in v.items()}

    def noise(self, xi: Mapping[str, Tensor]) -> Params:
        """√ρ ξ."""
        return {k: self._rho(k, x).sqrt() * x for k, x in xi.items()}

    def draw(self, xi: Mapping[str, Tensor]) -> Params | None:
        """ξ / √ρ."""
        return {k: x / self._rho(k, x).sqrt() for k, x in xi.items()}

    def _rho(self, name: str, like: Tensor) -> Tensor:
        given = self.precision
        value = given[name] if isinstance(given, Mapping) else given
        rho = torch.as_tensor(value, dtype=params.work_dtype(like.dtype), device=like.device)
        return placed(rho, like) if rho.dim() else rho

    def _centered(self, name: str, p: Tensor) -> Tensor:
        p = p.to(params.work_dtype(p.dtype))
        if self.mean is None:
            return p
        return p - placed(self.mean[name].to(p.device, p.dtype), p)


@dataclass(frozen=True)
class LaplacePrior:
    """Independent Laplace: log p(θ) = Σ [log(rate / 2) − rate |θ|], and P₀ = 0 almost everywhere.

    With it the parameter regularizer of Eq. 18 only changes the rate. The data alone must make P
    invertible, since this prior adds no curvature.
    """

    rate: float

    def __post_init__(self) -> None:
        """Refuse a rate that is not positive."""
        require(self.rate > 0, "rate", "positive", self.rate, "It is 1 / scale of the prior.")

    def check(self, parameters: Mapping[str, Tensor]) -> None:
        """Nothing to refuse."""

    def log_prob(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """log p(θ)."""
        total = [
            p.numel() * math.log(self.rate / 2)
            - self.rate * p.to(params.work_dtype(p.dtype)).abs().sum()
            for p in parameters.values()
        ]
        whole = [full(t) for t in total]
        return torch.stack([t.to(whole[0].device) for t in whole]).sum()

    def curvature(self, v: Mapping[str, Tensor]) -> Params:
        """Zero."""
        return {k: torch.zeros_like(x) for k, x in v.items()}

    def noise(self, xi: Mapping[str, Tensor]) -> Params:
        """Zero."""
        return {k: torch.zeros_like(x) for k, x in xi.items()}

    def draw(self, xi: Mapping[str, Tensor]) -> Params | None:
        """`None`: P₀ has no inverse."""
        return None
