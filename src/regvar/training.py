"""One training loop for the MAP and for the paper's refits: maximize L(θ) + λ t(θ) (Eq. 8, 15).

Every optimizer of torch works, those with a closure included. `full_batch` takes one step per
pass on the whole sum; otherwise every minibatch takes one. Several processes add up their rows'
gradients, so that each step is that of one process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from tqdm import tqdm

from regvar import params
from regvar.batches import Batch
from regvar.log_joint import LogJoint
from regvar.params import Params

Extra = Callable[[int, Tensor, Any], Tensor]
Schedule = Callable[[Optimizer, int], LRScheduler]


@dataclass(frozen=True)
class Plan:
    """How long and how to walk."""

    epochs: int
    schedule: Schedule | None = None
    full_batch: bool = False
    tolerance: float | None = None  # stop when an epoch moves θ by less than this, relatively
    order: int = 0
    same_order: bool = False


@dataclass(frozen=True)
class Walk:
    """What happened."""

    epochs: int
    converged: bool
    loss: float  # of the last step


def build(
    optimizer: Callable[..., Optimizer], parameters: list[Tensor], lr: float | None
) -> Optimizer:
    """An optimizer over `parameters`; `lr=None` leaves its own default."""
    return optimizer(parameters) if lr is None else optimizer(parameters, lr=lr)


def maximize(
    joint: LogJoint, optimizer: Optimizer, plan: Plan, label: str, extra: Extra | None = None
) -> Walk:
    """Move the network's own parameters uphill; the caller restores what must be restored."""
    steps = plan.epochs * (1 if plan.full_batch else joint.num_batches)
    scheduler = plan.schedule(optimizer, steps) if plan.schedule else None
    loss = math.nan
    start = params.copy(joint.parameters) if plan.tolerance is not None else {}
    with tqdm(total=steps, desc=label, leave=False, disable=joint.processes.hushed) as bar:
        for epoch in range(plan.epochs):
            before = params.copy(joint.parameters) if plan.tolerance is not None else None
            order = plan.order if plan.same_order else plan.order + epoch
            for rows in _strides(joint, order, plan.full_batch):
                loss = _step(joint, optimizer, rows, extra, plan.full_batch)
                if scheduler is not None:
                    scheduler.step()
                bar.update()
                bar.set_postfix(loss=f"{loss:.4g}", refresh=False)
                if not math.isfinite(loss):
                    return Walk(epoch + 1, False, loss)
            if before is not None and plan.tolerance is not None:
                now = params.copy(joint.parameters)
                moved = _distance(joint, now, before)
                travelled = _distance(joint, now, start)
                if moved <= plan.tolerance * max(travelled, 1e-300):
                    return Walk(epoch + 1, True, loss)
    return Walk(plan.epochs, False, loss)


def _distance(joint: LogJoint, a: Params, b: Params) -> float:
    return joint.processes.agreed(params.norm(params.combine(1.0, a, -1.0, b)))


Rows = Callable[[], Iterable[tuple[int, Batch]]]


def _strides(joint: LogJoint, order: int, full_batch: bool) -> Iterator[Rows]:
    """What each optimizer step sums over: a batch with its first row, or a whole pass."""
    if full_batch:
        yield lambda: chain.from_iterable(joint.parts(order))
        return
    for part in joint.parts(order):
        yield lambda part=part: part


def _step(
    joint: LogJoint, optimizer: Optimizer, rows: Rows, extra: Extra | None, whole: bool
) -> float:
    weight = 1 / joint.num_batches if whole else 1.0

    def losses() -> Iterator[Tensor]:
        for row, batch in rows():
            outputs, targets = joint.network.outputs_and_targets(batch)
            value, targets = joint.score(outputs, targets)
            yield weight * joint.loss(value, extra(row, outputs, targets) if extra else 0.0)

    seen: list[float] = []

    def closure() -> float:
        optimizer.zero_grad()
        if joint.processes.alone:
            total = 0.0
            for loss in losses():
                loss.backward()
                total += float(loss.detach())
        else:
            total = _summed(joint, losses())
        seen.append(total)
        return total

    with torch.enable_grad():
        if joint.processes.alone or joint.processes.sharded or not whole:
            optimizer.step(closure)  # pyright: ignore[reportArgumentType]
        else:
            _led(joint, optimizer, closure)
    return joint.processes.agreed(seen[0])


def _summed(joint: LogJoint, losses: Iterable[Tensor]) -> float:
    """The loss of all processes' rows, with its gradient put where an optimizer looks for it."""
    total, gradient = 0.0, params.zeros(joint.parameters)
    with joint.summed(gradient):
        for loss in losses:
            params.add_(gradient, joint.network.pull_back(loss))
            total += float(loss.detach())
    for k, p in joint.parameters.items():
        p.grad = gradient[k].to(p.dtype)
    return joint.processes.total(total)


def _led(joint: LogJoint, optimizer: Optimizer, closure: Callable[[], float]) -> None:
    """Process 0 alone takes the step; the others evaluate wherever it asks.

    A line search decides by comparing sums, and rounding must not let two processes decide apart.
    """
    processes = joint.processes
    weights = [p.data for p in joint.parameters.values()]

    def asked(more: bool) -> bool:
        going_on = processes.agreed(float(more)) > 0.0
        processes.from_first_(weights)
        return going_on

    def evaluate() -> float:
        asked(True)
        return closure()

    if processes.rank == 0:
        optimizer.step(evaluate)  # pyright: ignore[reportArgumentType]
        asked(False)
    else:
        while asked(True):
            closure()
