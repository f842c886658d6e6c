"""The two parts of the head's precision: the prior's P₀ and the likelihood's Λ, row by row.

    P = Σ_i J_iᵀ Λ_i J_i + P₀,   J = (units) ⊗ φ̃ᵀ

Λ couples the units of one row, such as the classes of a softmax. Where it couples rows of one
example as well (one softmax over the scores of several choices), those rows form a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regvar import params
from regvar.baselines.head import Head, Reading, read
from regvar.errors import ArgumentError, require
from regvar.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood
from regvar.log_joint import LogJoint
from regvar.priors import GaussianPrior


@dataclass(frozen=True)
class OutputCurvature:
    """Λ of one batch, seen as rows of C units."""

    likelihood: Likelihood
    head: Head
    outputs: Tensor  # [batch, outputs...]
    targets: Any

    def product(self, rows: Tensor) -> Tensor:
        """Λ v for v of the form [rows, C]."""
        v = self.head.unrows(rows, self.outputs)
        return self.head.rows(self.likelihood.curvature(self.outputs, self.targets, v))

    def zeros(self) -> Tensor:
        """v = 0, [rows, C]."""
        dtype = params.work_dtype(self.outputs.dtype)
        return torch.zeros_like(self.head.rows(self.outputs), dtype=dtype)

    def block(self) -> int:
        """How many rows Λ couples: 1, or all rows of an example."""
        rows, examples = len(self.head.rows(self.outputs)), self.outputs.shape[0]
        if rows <= examples or isinstance(self.likelihood, Gaussian | Bernoulli):
            return 1
        coupled = (
            self._softmax_crosses(self.likelihood.class_dim)
            if isinstance(self.likelihood, Categorical)
            else self._product_crosses()
        )
        return rows // examples if coupled else 1

    def _softmax_crosses(self, class_dim: int) -> bool:
        """Whether classes lie in several rows."""
        one = self.outputs[:1]
        number = torch.arange(len(self.head.rows(one)), device=one.device, dtype=torch.int32)
        row = self.head.unrows(number[:, None].expand(-1, self.head.classes), one)
        return bool((row.amin(class_dim) != row.amax(class_dim)).any())

    def _product_crosses(self) -> bool:
        """Whether rows multiplied by numbers of their own come out multiplied by something else."""
        noise = torch.randn(
            self.zeros().shape[0], self.head.classes + 1, generator=torch.Generator().manual_seed(0)
        ).to(self.zeros())
        color, z = noise[:, :1], noise[:, 1:]
        within = color * self.product(z)
        error = float((self.product(color * z) - within).abs().max())
        return error > 1e-4 * float(within.abs().max())

    def columns(self, block: int) -> Iterator[tuple[int, int, Tensor]]:
        """For each place and unit of a block its column of Λ: [blocks, block, C]."""
        for place in range(block):
            for unit in range(self.head.classes):
                v = self.zeros().reshape(-1, block, self.head.classes)
                v[:, place, unit] = 1
                column = self.product(v.reshape(-1, self.head.classes))
                yield place, unit, column.reshape(v.shape)

    def diagonal(self) -> Tensor:
        """Λ_cc of each output, [rows, C]; C products unless the likelihood is one of ours."""
        if isinstance(self.likelihood, Gaussian | Bernoulli):
            return self.product(self.zeros() + 1)
        if isinstance(self.likelihood, Categorical):
            p = self.outputs.to(self.zeros().dtype).softmax(self.likelihood.class_dim)
            mask = self.likelihood.mask(self.outputs, self.targets)
            variance = p * (1 - p)
            return self.head.rows(variance if mask is None else variance * mask)
        found = self.zeros()
        for _, unit, column in self.columns(1):
            found[:, unit] = column[:, 0, unit]
        return found


def stream(joint: LogJoint, head: Head) -> Iterator[tuple[Reading, OutputCurvature]]:
    """One pass over the data; call it under `network.guard()` and `torch.no_grad()`."""
    for batch in joint.batches():
        reading = read(joint.network, head, batch)
        _, targets = joint.score(reading.outputs, reading.targets)
        yield reading, OutputCurvature(joint.likelihood, head, reading.outputs, targets)


def head_precision(joint: LogJoint, head: Head, given: float | None) -> Tensor:
    """The diagonal of P₀ for the head: [C, D (+ 1)], in double precision where there is one.

    Numbers, one for each parameter, are not repeated in memory for each class.
    """
    if given is not None:
        require(given > 0, "prior_precision", "positive", given, "It is 1 / variance.")
    elif not isinstance(joint.prior, GaussianPrior):
        raise ArgumentError(
            f"prior must be a GaussianPrior for last-layer Laplace, but is {joint.prior!r}: it has "
            "no curvature to add. Pass prior_precision=."
        )
    layer = head.layer(joint.network)
    values: list[Tensor] = []
    for parameter in [layer.weight] if layer.bias is None else [layer.weight, layer.bias]:
        value = _precision(joint, parameter) if given is None else given
        rho = torch.as_tensor(value).to(parameter.device, wide(parameter.device))
        columns = parameter[0].numel()
        values.append(rho.expand(columns) if rho.dim() == 0 else rho.reshape(-1, columns))
    if all(rho.dim() == 1 for rho in values):
        return torch.cat(values).expand(head.classes, -1)
    return torch.cat([rho.expand(head.classes, -1) for rho in values], 1)


def wide(device: torch.device) -> torch.dtype:
    """The precision for factorizations: double wherever the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


def _precision(joint: LogJoint, parameter: Tensor) -> float | Tensor:
    assert isinstance(joint.prior, GaussianPrior)
    precision = joint.prior.precision
    if not isinstance(precision, Mapping):
        return precision
    named = joint.model.named_parameters(remove_duplicate=False)
    names = [k for k, p in named if p is parameter]
    for name in names:
        if name in precision:
            return precision[name]
    raise ArgumentError(
        f"precision of the prior must name the head's parameters, but lacks {names[:1]}. "
        "Name them too, or pass prior_precision=."
    )
