"""Other heads in the place of the head: how they begin, and how they are put in."""

# torch registers a module's parameters in `_parameters`.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import copy
from collections.abc import Generator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regvar import noise
from regvar.baselines.head import Layer
from regvar.errors import ModelError
from regvar.log_joint import LogJoint
from regvar.params import Params


def fresh(layer: Layer, name: str, key: tuple[int, ...], k: int) -> Params:
    """A head as the layer itself would begin; one key, the same numbers on every device."""
    if any(not isinstance(layer._parameters.get(slot), Tensor) for slot in slots(layer)):
        raise ModelError(
            f"head {name!r} must own its weight to be replaced, but it is computed from other "
            "parameters. Pass head= with the name of another layer."
        )
    clone = copy.deepcopy(layer).to("cpu", torch.float64)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(noise.generator(key, k).initial_seed())
        clone.reset_parameters()
    return {
        slot: getattr(clone, slot).detach().to(layer.weight).requires_grad_()
        for slot in slots(layer)
    }


def slots(layer: Layer) -> list[str]:
    """The layer's parameters by their own names."""
    return ["weight"] if layer.bias is None else ["weight", "bias"]


@contextmanager
def installed(layer: nn.Module, values: Mapping[str, Tensor]) -> Generator[None]:
    """Other tensors in the layer's own slots; the parameters themselves are not touched."""
    before = {slot: layer._parameters[slot] for slot in values}
    try:
        for slot, value in values.items():
            layer._parameters[slot] = value  # pyright: ignore[reportArgumentType]
        yield
    finally:
        layer._parameters.update(before)


def prior_names(joint: LogJoint, layer: Layer) -> dict[str, str]:
    """By which names the prior knows the head's weight and bias."""
    names = {id(p): name for name, p in joint.model.named_parameters()}
    return {slot: names[id(getattr(layer, slot))] for slot in slots(layer)}
