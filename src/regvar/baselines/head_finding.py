"""Finding a network's head on the user's own data, and making sure that it is read rightly."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regvar.baselines.head import Head, Layer, layer_of, route, tolerance, traced
from regvar.batches import Batch
from regvar.errors import ArgumentError, ModelError
from regvar.log_joint import LogJoint
from regvar.network import Network


def head_of(joint: LogJoint, name: str | None = None) -> Head:
    """`find` on the first batch of a joint."""
    return find(joint.network, next(joint.batches()), name)


def find(network: Network, batch: Batch, name: str | None = None) -> Head:
    """The head that the outputs depend on linearly, checked on the user's own batch.

    Args:
        network: the network.
        batch: a batch of the user's data.
        name: the module's name; `None`: the last `nn.Linear` or `nn.Conv2d` to run of which the
            outputs know.
    """
    name = locate(network, batch, name)
    layer = layer_of(network, name)
    classes = layer.weight.shape[0]
    outputs = network.outputs(batch)
    found: list[str] = []
    by_class = outputs.dim() > 2 and outputs.shape[1] == classes
    for channels in (True, False) if isinstance(layer, nn.Conv2d) else (False, True):
        head = Head(name, classes, channels)
        if by_class if channels else outputs[0].numel() % classes == 0:
            fault = _fault(network, head, batch)
            if fault is None:
                return head
            found.append(fault)
    reason = found[0] if found else f"their shape is {tuple(outputs.shape)}"
    raise ModelError(
        f"outputs of model must be sums, over places, of the {classes} units of its head {name!r} "
        f"(each output of one unit, all units alike), but {reason}. Pass head= with the name of "
        "another nn.Linear or nn.Conv2d, or apply the function that follows it in the likelihood."
    )


def locate(network: Network, batch: Batch, name: str | None = None) -> str:
    """The head's name: the one given, checked, or the last layer to run that is seen."""
    ran = _running(network, batch)
    if name is not None:
        if name in ran:
            return name
        raise ArgumentError(
            f"head must name an nn.Linear or nn.Conv2d that runs, but {name!r} does not. "
            f"The last ones to run are {ran[-3:]}."
        )
    for candidate in reversed(ran):
        with traced(network, layer_of(network, candidate)):
            if network.outputs(batch).requires_grad:
                return candidate
    raise ModelError(
        "model must have an nn.Linear or nn.Conv2d that its outputs depend on to have a head, but "
        f"none was found among {ran[-3:]}. Use an estimator over all layers, such as sampled."
    )


def _running(network: Network, batch: Batch) -> list[str]:
    """The names of all linear layers that run, in the order of their last calls."""
    order: dict[str, None] = {}

    def note(name: str) -> Any:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            order.pop(name, None)
            order[name] = None

        return hook

    named = [(k, m) for k, m in network.model.named_modules() if isinstance(m, Layer)]
    handles = [m.register_forward_hook(note(k)) for k, m in named]
    try:
        network.outputs(batch)
    finally:
        for handle in handles:
            handle.remove()
    return list(order)


def _fault(network: Network, head: Head, batch: Batch) -> str | None:
    """What is wrong with this reading of the outputs, found out by shifting h."""
    layer = head.layer(network)
    try:
        with traced(network, layer) as calls:
            outputs = network.outputs(batch)
            routes = route(head, outputs, calls)
    except ModelError:
        return "they weigh its units differently, as functions that are not linear do"
    matrix = head.matrix(network)
    for call in calls:
        own = call.places.detach().to(matrix)
        if not _close(call.features @ matrix.mT, own, call.places):
            return "the module computes more than W φ + b"
    with traced(network, layer, torch.Generator().manual_seed(0)) as moved:
        there = network.outputs(batch)
    if [c.places.shape for c in moved] != [c.places.shape for c in calls]:
        return "they feed back into it"
    change = (head.rows(there) - head.rows(outputs)).detach()
    shift = torch.cat([c.shift for c in moved])
    expected = shift if routes is None else routes.gather(shift, len(change))
    return None if _close(change, expected, change) else "they depend on it in another way"


def _close(actual: Tensor, expected: Tensor, like: Tensor) -> bool:
    error = float((actual - expected).abs().max())
    return error <= tolerance(like) * (1e-30 + float(expected.abs().max()))
