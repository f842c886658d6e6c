"""A network's head: its last linear layer, and how the outputs depend on it.

    h_r = W φ_r + b,   f_q = Σ_r S_qr h_r + rest   ⇒   φ̃_q = Σ_r S_qr φ_r,   s_q = Σ_r S_qr

so that ∂f_qc / ∂W_c = φ̃_q and ∂f_qc / ∂b_c = s_q. A row r is one place where the head runs (an
example, a token, a pixel), a row q one place of the outputs. S is read off by backward passes from
the outputs to h alone: the last token of a sequence classifier, every token of a language model,
a mean over patches, an input-dependent scale are all the same to it. `rest` is what the head has no
part in, such as a skip connection or the mean of unscaled targets.

A weight that is tied to an embedding is treated in its role as the head only.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regvar import params
from regvar.batches import Batch
from regvar.errors import ArgumentError, ModelError
from regvar.network import Network

Layer = nn.Linear | nn.Conv2d
_BASE = 32  # digits of a row's number: small enough to pass through half precision unharmed


@dataclass(frozen=True)
class Head:
    """Which module it is, and where its units lie in the outputs."""

    name: str
    classes: int  # C, the units of the layer
    channels: bool  # classes along dimension 1 of the outputs; otherwise in their last dimensions

    def layer(self, network: Network) -> Layer:
        """The module itself."""
        return layer_of(network, self.name)

    def matrix(self, network: Network) -> Tensor:
        """W with b as its last column: [C, D (+ 1)], in working precision."""
        layer = self.layer(network)
        return as_matrix(layer.weight.detach(), None if layer.bias is None else layer.bias.detach())

    def rows(self, outputs: Tensor) -> Tensor:
        """The outputs as [rows, C]; an example's rows stand together."""
        return (outputs.movedim(1, -1) if self.channels else outputs).reshape(-1, self.classes)

    def unrows(self, rows: Tensor, like: Tensor) -> Tensor:
        """The inverse of `rows` for outputs shaped like `like`."""
        if self.channels:
            return rows.reshape(like.movedim(1, -1).shape).movedim(-1, 1)
        return rows.reshape(like.shape)


@dataclass(frozen=True)
class Reading:
    """One batch seen from the head."""

    outputs: Tensor  # f(x), [batch, outputs...]
    targets: Any
    features: Tensor  # φ̃, with s as its last column where the head has a bias: [rows, D (+ 1)]


@dataclass(frozen=True)
class Call:
    """What one run of the head was given and gave."""

    features: Tensor  # φ, with a last column of ones where the head has a bias: [places, D (+ 1)]
    places: Tensor  # h, from which gradients are taken: [places, C]
    passed: Tensor  # what the network got to see in its stead
    shift: Tensor  # what was added to h on the way: [places, C]


@dataclass(frozen=True)
class Routes:
    """S: each place of the head goes to one row of the outputs."""

    row: Tensor  # [places]
    weight: Tensor  # [places], zero where the place is not used

    def gather(self, values: Tensor, rows: int) -> Tensor:
        """Σ_r S_qr values_r: [rows, ...]."""
        total = values.new_zeros(rows, values.shape[1])
        return total.index_add_(0, self.row, self.weight.to(values)[:, None] * values)


def read(network: Network, head: Head, batch: Batch) -> Reading:
    """f and φ̃ on a batch; call it under `network.guard()` and `torch.no_grad()`."""
    with traced(network, head.layer(network)) as calls:
        outputs, targets = network.outputs_and_targets(batch)
        routes = route(head, outputs, calls)
    features = torch.cat([call.features for call in calls])
    if routes is not None:
        features = routes.gather(features, head.rows(outputs).shape[0])
    return Reading(outputs.detach(), targets, features)


@contextmanager
def traced(
    network: Network, layer: Layer, shifts: torch.Generator | None = None
) -> Generator[list[Call]]:
    """Catch what the layer sees and gives, and make its output the only source of gradients.

    With a generator, the network gets to see that output with a large random shift.
    """
    calls: list[Call] = []

    def hook(module: nn.Module, args: Any, kwargs: Any, output: Tensor) -> Tensor:
        image = isinstance(layer, nn.Conv2d)
        last = output.detach().movedim(1, -1) if image else output.detach()
        places = last.reshape(-1, last.shape[-1]).requires_grad_()
        shift = torch.zeros_like(places[:1])
        if shifts is not None:
            noise = torch.randn(places.shape, generator=shifts)
            shift = noise.to(places) * 10 * (1 + last.square().mean().sqrt())
        moved = (places if shifts is None else places + shift).reshape(last.shape)
        passed = (moved.movedim(-1, 1) if image else moved).clone(
            memory_format=torch.contiguous_format
        )
        features = _features(layer, args[0] if args else kwargs["input"])
        calls.append(Call(features, places, passed, shift))
        return passed

    flags = [(p, p.requires_grad) for p in network.model.parameters()]
    handle = layer.register_forward_hook(hook, with_kwargs=True)
    try:
        for p, _ in flags:
            p.requires_grad_(False)
        with torch.enable_grad():
            yield calls
    finally:
        handle.remove()
        for p, requires_grad in flags:
            p.requires_grad_(requires_grad)


def _features(layer: Layer, inputs: Tensor) -> Tensor:
    phi = inputs.detach().to(params.work_dtype(inputs.dtype))
    if isinstance(layer, nn.Conv2d):
        if layer.groups != 1 or layer.padding_mode != "zeros" or isinstance(layer.padding, str):
            raise ModelError(
                "head must be an nn.Conv2d with groups=1 and zero padding given in numbers, to be "
                f"a linear layer over patches, but is {layer}. Pass head= with another's name."
            )
        patches = nn.functional.unfold(
            phi, layer.kernel_size, layer.dilation, layer.padding, layer.stride
        )
        phi = patches.movedim(1, -1)
    phi = phi.reshape(-1, phi.shape[-1])
    if layer.bias is None:
        return phi
    return torch.cat([phi, torch.ones_like(phi[:, :1])], 1)


def route(head: Head, outputs: Tensor, calls: list[Call]) -> Routes | None:
    """S by backward passes that count in digits; `None`: the outputs are h itself."""
    if len(calls) == 1 and outputs is calls[0].passed and outputs._version == 0:
        return None
    if not outputs.requires_grad:
        raise ModelError(
            f"outputs of model must depend on its head {head.name!r}, but on a batch they do not. "
            "Pass head= with the name of the layer that they depend on."
        )
    count = head.rows(outputs).shape[0]

    def pulled(values: Tensor) -> Tensor:
        seed = head.unrows(values.to(outputs)[:, None].expand(-1, head.classes), outputs)
        grads = torch.autograd.grad(
            outputs, [c.places for c in calls], seed, retain_graph=True, materialize_grads=True
        )
        return torch.cat(grads)

    number = torch.arange(count, device=outputs.device)
    whole = pulled(torch.ones_like(number))
    weight = whole[:, 0]
    spread = float((whole - whole[:, :1]).abs().max())
    if not spread <= tolerance(whole) * float(whole.abs().max()):
        raise ModelError(
            f"outputs of model must treat all units of its head {head.name!r} alike, but they "
            "weigh them differently. Pass head= with the name of another layer."
        )
    row, place = torch.zeros_like(weight, dtype=torch.long), 1
    safe = torch.where(weight == 0, 1, weight)
    while place < count:
        digit = (pulled(number // place % _BASE)[:, 0] / safe).round().long()
        row += digit.clamp(0, _BASE - 1) * place
        place *= _BASE
    return Routes(row.clamp(max=count - 1), weight)


def layer_of(network: Network, name: str) -> Layer:
    """The head's module by its name."""
    layer = network.model.get_submodule(name)
    if not isinstance(layer, Layer):
        raise ArgumentError(f"head {name!r} must be nn.Linear or nn.Conv2d, but is {type(layer)}.")
    return layer


def as_matrix(weight: Tensor, bias: Tensor | None) -> Tensor:
    """W, patches flattened, with b as its last column: [C, D (+ 1)], in working precision."""
    columns = [weight.flatten(1)] if bias is None else [weight.flatten(1), bias[:, None]]
    return torch.cat(columns, 1).to(params.work_dtype(weight.dtype))


def tolerance(like: Tensor) -> float:
    """How far rounding takes a linear map of numbers like these, generously."""
    return 2e3 * torch.finfo(like.dtype).eps if like.dtype.itemsize > 2 else 0.05
