"""Ensemble of last layers: several heads on one shared network (the paper's baseline).

Each head starts from its own random weights; of each training example one head, drawn at random,
receives the update. With k(i) the head of example i, the objective is the joint's own,

    Σ_i [log p(y_i | f_{θ, head k(i)}(x_i)) + (1/n) log p(θ, head k(i))],

so that each head heads for the MAP, on its share of the data. Mean and variance are those of the
population of heads.
"""

# torch registers a module's parameters in `_parameters`.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from tqdm import tqdm

from regvar import batches, noise, params, training
from regvar.baselines.head import Head, Layer, as_matrix, layer_of, read
from regvar.baselines.head_finding import find, locate
from regvar.baselines.head_members import fresh, installed, prior_names
from regvar.batches import Batch
from regvar.errors import ModelError, require
from regvar.estimators import protocol
from regvar.log_joint import LogJoint
from regvar.network import Fingerprint, Network
from regvar.params import Params
from regvar.results import Displacement, Moments, Packed, Solution

_STREAM = 0x4EAD  # apart from the random numbers of other methods


def last_layer_ensemble(
    joint: LogJoint,
    heads: int = 10,
    *,
    epochs: int = 1,
    lr: float | None = 1e-3,
    optimizer: Callable[..., Optimizer] = torch.optim.Adam,
    trunk: bool = True,
    seed: int = 0,
    head: str | None = None,
) -> LastLayerEnsemble:
    """Train several heads, and the network below them along, from the fitted network.

    The network itself stays as it is; kept are the heads and how far the trunk moved. Training
    runs in eval mode, as all refits do: with batch norm, whose running means stand still there,
    take a small `lr` or `trunk=False`. Memory: `heads` times the head, and the optimizer's state.

    Args:
        joint: network, data, likelihood and prior.
        heads: K.
        epochs: passes over the data.
        lr: the optimizer's learning rate, for a loss that is a mean (−L/n); `None` is its own.
        optimizer: called `optimizer(parameters, lr=lr)`.
        trunk: train the rest of the network too, starting at θ̂; otherwise it stays at θ̂.
        seed: of the initial heads, of the draws of heads, and of a shuffling loader's order.
        head: the head's module name, where the last `nn.Linear` or `nn.Conv2d` is not it.

    >>> import torch, regvar
    >>> from regvar import baselines
    >>> x = torch.linspace(-1, 1, 8)[:, None]
    >>> joint = regvar.LogJoint(torch.nn.Linear(1, 1), [(x, x)],
    ...                         likelihood=regvar.Gaussian(sigma=1.0),
    ...                         prior=regvar.GaussianPrior(precision=1.0))
    >>> uq = baselines.last_layer_ensemble(joint, heads=3)
    >>> uq.heads, uq.moments(torch.zeros(5, 1)).variance.shape
    (3, torch.Size([5, 1]))
    """
    protocol.check_joint(joint)
    require(heads >= 1, "heads", "at least 1", heads)
    require(epochs >= 1, "epochs", "at least 1", epochs)
    joint.check()
    with torch.no_grad(), joint.network.guard(parameters=True):
        batch = next(joint.batches())
        name = locate(joint.network, batch, head)
        try:
            found = find(joint.network, batch, name)
        except ModelError:
            found = None
        layer = layer_of(joint.network, name)
        members = [fresh(layer, name, (_STREAM, seed), k) for k in range(heads)]
        moved = _train(joint, layer, members, epochs, lr, optimizer, trunk, seed)
    weights = {slot: torch.stack([m[slot].detach() for m in members]) for slot in members[0]}
    fitted = joint.network.fingerprint()
    return LastLayerEnsemble(joint.network, name, found, weights, moved, None, fitted, joint)


@dataclass(frozen=True)
class LastLayerEnsemble:
    """K heads on one network; mean and population variance over them."""

    network: Network = field(repr=False)
    name: str  # the head's module
    head: Head | None  # how the outputs depend on it; None: not linearly
    weights: Mapping[str, Tensor] = field(repr=False)  # "weight" and "bias", [K, ...]
    displacement: Displacement | None = field(repr=False)  # of the trunk; None: it is at θ̂
    solution: Solution | None
    fitted: Fingerprint = field(repr=False)
    joint: LogJoint | None = field(default=None, repr=False)

    @property
    def heads(self) -> int:
        """K."""
        return len(self.weights["weight"])

    def moments(self, x: Batch) -> Moments:
        """Mean and population variance of the heads' outputs: [batch, outputs...]."""
        self.network.require_unchanged(self.fitted)
        mean = spread = torch.zeros(())
        with torch.no_grad(), self.network.guard(), self._moved():
            for count, outputs in enumerate(self._outputs(x)):
                if count == 0:
                    mean, spread = outputs.clone(), torch.zeros_like(outputs)
                    continue
                step = outputs - mean
                mean += step / (count + 1)
                spread += step * (outputs - mean)
        return Moments(mean, spread / self.heads)

    def _moved(self) -> AbstractContextManager[None]:
        if self.displacement is None:
            return nullcontext()
        return params.displaced(self.network.parameters, [(1.0, self.displacement.delta)])

    def _outputs(self, x: Batch) -> Iterator[Tensor]:
        """Each head's outputs: products with φ̃ where they are linear in it, else whole passes."""
        if self.head is None:
            for k in range(self.heads):
                yield self._whole(x, k)
            return
        reading = read(self.network, self.head, x)
        own = self.head.matrix(self.network)
        biases = self.weights.get("bias", [None] * self.heads)
        for weight, bias in zip(self.weights["weight"], biases, strict=True):
            other = as_matrix(weight, bias).to(own)
            change = reading.features @ (other - own).mT
            yield reading.outputs.to(change) + self.head.unrows(change, reading.outputs)

    def _whole(self, x: Batch, k: int) -> Tensor:
        layer = layer_of(self.network, self.name)
        with installed(layer, {slot: v[k] for slot, v in self.weights.items()}):
            outputs = self.network.outputs(x)
        return outputs.to(params.work_dtype(outputs.dtype))

    def pack(self) -> Packed:
        """The heads, and how far the trunk moved."""
        head = None if self.head is None else asdict(self.head)
        moves = () if self.displacement is None else (self.displacement,)
        return Packed({"name": self.name, "head": head}, self.weights, moves)

    @classmethod
    def unpack(
        cls,
        packed: Packed,
        network: Network,
        fitted: Fingerprint,
        solution: Solution | None,
        joint: LogJoint | None,
    ) -> LastLayerEnsemble:
        """What `pack` gave, for the same network."""
        name, row = packed.settings["name"], packed.settings["head"]
        move = packed.displacements[0] if packed.displacements else None
        head = None if row is None else Head(**row)
        return cls(network, name, head, packed.tensors, move, solution, fitted, joint)


def _train(
    joint: LogJoint,
    layer: Layer,
    members: list[Params],
    epochs: int,
    lr: float | None,
    optimizer: Callable[..., Optimizer],
    trunk: bool,
    seed: int,
) -> Displacement | None:
    """Move the heads, and the network's own parameters; the caller restores the latter."""
    home = params.copy(joint.parameters)
    lower = _trunk(joint, layer) if trunk else []
    for p in joint.model.parameters():
        p.grad = None
    names = prior_names(joint, layer)
    joint.prior.check({name: members[0][slot] for slot, name in names.items()})
    built = training.build(optimizer, [*lower, *(t for m in members for t in m.values())], lr)
    cut = None if lower else layer.register_forward_pre_hook(_detach, with_kwargs=True)
    try:
        with (
            torch.enable_grad(),
            tqdm(
                total=epochs * joint.num_batches, desc="ensemble", leave=False, disable=None
            ) as bar,
        ):
            for epoch in range(epochs):
                for row, batch in joint.numbered(seed + epoch):
                    drawn = _draw(batch, len(members), (_STREAM, seed, epoch), row)

                    def closure(batch: Batch = batch, drawn: Tensor = drawn) -> float:
                        built.zero_grad()
                        loss = _loss(joint, layer, members, names, batch, drawn)
                        loss.backward()
                        return float(loss.detach())

                    built.step(closure)  # pyright: ignore[reportArgumentType]
                    bar.update()
    finally:
        if cut is not None:
            cut.remove()
    if not lower:
        return None
    return Displacement(params.add_(params.copy(joint.parameters), home, alpha=-1.0), 1.0)


def _detach(module: nn.Module, args: Any, kwargs: Any) -> Any:
    """Keep gradients from the trunk."""
    return tuple(a.detach() for a in args), {k: v.detach() for k, v in kwargs.items()}


def _draw(batch: Batch, heads: int, key: tuple[int, ...], row: int) -> Tensor:
    """The head of each example: it belongs to the row, not to the batch."""
    shape = torch.Size([batches.length(batch) or 1])
    uniform = noise.uniform(key, row, shape, torch.zeros((), dtype=torch.float64))
    return (uniform * heads).long()


def _loss(
    joint: LogJoint,
    layer: Layer,
    members: list[Params],
    names: Mapping[str, str],
    batch: Batch,
    drawn: Tensor,
) -> Tensor:
    """−L/n of one batch, each head on its own examples and with their share of its prior."""
    value: Any = 0.0
    prior: Any = 0.0
    for k in drawn.unique().tolist():
        mine = (drawn == k).nonzero()[:, 0]
        part = batch if len(mine) == len(drawn) else batches.take(batch, mine)
        with installed(layer, members[k]):
            value = value + joint.score(*joint.network.outputs_and_targets(part))[0]
        own = joint.prior.log_prob({name: members[k][slot] for slot, name in names.items()})
        prior = prior + own * (len(mine) / len(drawn))
    return joint.loss(value, prior / joint.num_batches)


def _trunk(joint: LogJoint, layer: Layer) -> list[Tensor]:
    """What trains besides the head; a weight tied to it stays, in its other role."""
    elsewhere = {
        id(p)
        for module in joint.model.modules()
        if module is not layer
        for p in module._parameters.values()
    }
    own = {id(p) for p in layer.parameters()} - elsewhere
    return [p for p in joint.parameters.values() if id(p) not in own]
