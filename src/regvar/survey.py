"""A first look at a joint: counts its data and finds out what would waste a solve.

Every tangent solve multiplies with P = −∇²L once per pass, so L must be the same function on
every pass. A shuffling loader is harmless (its order is pinned); new content on every pass, live
dropout and batch statistics are not.
"""

# torch's common bases of all dropout and all batch norm layers are private classes.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from regvar import batches
from regvar.batches import Batch
from regvar.errors import DataError, ModelError

if TYPE_CHECKING:
    from regvar.log_joint import LogJoint


@dataclass(frozen=True)
class Survey:
    """Counts of one pass."""

    size: int  # n
    examples: int  # rows
    num_batches: int  # N
    divisible: bool = True  # whether several processes may each take some rows of a batch

    def recheck(self, joint: LogJoint) -> None:
        """What can change between two solves: the module's state."""
        _check_module(joint)


def survey(joint: LogJoint) -> Survey:
    """One pass of the network over the data, and two of the loader alone."""
    processes = joint.processes
    with processes.summed():
        _check_module(joint)
        _check_repeats(joint.data)
    _check_same(joint)
    size = examples = count = 0
    divisible = True
    with torch.no_grad(), joint.network.guard(), processes.summed():
        for batch in joint.batches():
            own = processes.sharded or count % processes.count == processes.rank
            if own or count == 0:
                outputs, targets = joint.network.outputs_and_targets(batch)
                if not joint.network.custom:
                    _check_outputs(outputs, batch)
                _, targets = joint.score(outputs, targets)
                if count == 0:
                    _check_deterministic(joint, batch, outputs)
                    divisible = processes.alone or _divides(joint, batch, outputs)
                size += own * joint.likelihood.count(outputs, targets)
                examples += own * outputs.shape[0]
            count += 1
    if not processes.sharded:
        size, examples = int(processes.total(size)), int(processes.total(examples))
    if size == 0:
        raise DataError(
            "data must hold at least one scored example, but the loader is empty or every label "
            "is ignored. Check the data set, drop_last and ignore_index."
        )
    return Survey(size, examples, count, divisible)


def _check_module(joint: LogJoint) -> None:
    if not joint.parameters:
        raise ModelError(
            "model must have a trainable parameter, but requires_grad is False for all. "
            "Set requires_grad_(True) on what should be uncertain."
        )
    for name, module in joint.model.named_modules():
        if not module.training:
            continue
        if isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0:
            raise ModelError(
                f"model must be deterministic, but dropout {name!r} is live (p={module.p}). "
                "Call model.eval() first."
            )
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            raise ModelError(
                f"model must treat examples one by one, but BatchNorm {name!r} is in train mode. "
                "Call model.eval() first."
            )


def _check_deterministic(joint: LogJoint, batch: Batch, first: Tensor) -> None:
    second = joint.network.outputs(batch)
    if not torch.equal(first, second):
        raise ModelError(
            f"model must be deterministic, but two calls on one batch differ by "
            f"{float((first - second).abs().max()):.3g}. Call model.eval(), or switch off its "
            "sampling."
        )


def _check_same(joint: LogJoint) -> None:
    """Processes that share the work must hold the same weights and read the same data."""
    if joint.processes.alone:
        return
    sums = joint.network.fingerprint().sums.values()
    if not joint.processes.same([norm for _, norm in sums]):
        raise ModelError(
            "model must have the same parameters in every process, but they differ. Wrap it anew "
            "(accelerator.prepare, DistributedDataParallel), which makes them equal."
        )
    joint.require_same(joint.data, "data")


def _divides(joint: LogJoint, batch: Batch, outputs: Tensor) -> bool:
    """Whether the first rows of a batch have the same outputs alone as within it."""
    rows = batches.length(batch)
    if rows is None or rows != outputs.shape[0]:
        return False
    try:
        alone = joint.network.outputs(batches.rows(batch, 0, (rows + 1) // 2))
    except (RuntimeError, ValueError, TypeError, IndexError):
        return False
    expected = outputs[: len(alone)]
    return alone.shape == expected.shape and torch.allclose(
        alone, expected, rtol=0.0, atol=0.05 * float(outputs.abs().max())
    )


def _check_outputs(outputs: Tensor, batch: Batch) -> None:
    rows = batches.length(batch) or outputs.shape[:1].numel()
    if outputs.dim() == 0 or outputs.shape[0] != rows:
        raise ModelError(
            f"outputs of model must have one row per example ({rows}), but have "
            f"the shape {tuple(outputs.shape)}. Pass forward=f with f(model, batch) -> "
            "(outputs, targets)."
        )


def _check_repeats(data: Iterable[Batch]) -> None:
    """Two passes over the loader must hold the same examples, in whatever order."""
    first, second = (_contents(data, order) for order in (0, 1))
    for values, again in zip_longest(first, second, fillvalue=Counter[int]()):
        if values is None or again is None:
            continue
        changed = sum((values - again).values()) + sum((again - values).values())
        if changed:
            raise DataError(
                f"data must hold the same examples on every pass, but {changed} of "
                f"{sum(values.values())} differ in a second one (random augmentation, a one-shot "
                "iterator, or drop_last with shuffling). Pass list(loader), or switch it off."
            )


def _contents(data: Iterable[Batch], order: int) -> list[Counter[int] | None]:
    """For each tensor of the batches its examples, or `None` where batches pad to own lengths."""
    shapes: dict[int, set[torch.Size]] = {}
    values: dict[int, list[int]] = {}
    for batch in batches.pinned(data, order):
        for place, (shape, numbers) in enumerate(batches.digests(batch)):
            shapes.setdefault(place, set()).add(shape)
            values.setdefault(place, []).extend(numbers)
    return [Counter(values[k]) if len(shapes[k]) == 1 else None for k in sorted(values)]
