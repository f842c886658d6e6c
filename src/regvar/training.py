"""One training loop for the MAP and for the paper's refits: maximize L(θ) + λ t(θ) (Eq. 8, 15).

Every optimizer of torch works, those with a closure included. `full_batch` takes one step per
pass on the whole sum; otherwise every minibatch takes one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from tqdm import tqdm

from regvar import params
from regvar.batches import Batch
from regvar.log_joint import LogJoint

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
    with tqdm(total=steps, desc=label, leave=False, disable=None) as bar:
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
                moved = params.norm(params.combine(1.0, now, -1.0, before))
                travelled = params.norm(params.combine(1.0, now, -1.0, start))
                if moved <= plan.tolerance * max(travelled, 1e-300):
                    return Walk(epoch + 1, True, loss)
    return Walk(plan.epochs, False, loss)


Rows = Callable[[], Iterator[tuple[int, Batch]]]


def _strides(joint: LogJoint, order: int, full_batch: bool) -> Iterator[Rows]:
    """What each optimizer step sums over: a batch with its first row, or a whole pass."""
    if full_batch:
        yield lambda: joint.numbered(order)
        return
    for row, batch in joint.numbered(order):
        yield lambda row=row, batch=batch: iter([(row, batch)])


def _step(
    joint: LogJoint, optimizer: Optimizer, rows: Rows, extra: Extra | None, whole: bool
) -> float:
    weight = 1 / joint.num_batches if whole else 1.0

    def closure() -> float:
        optimizer.zero_grad()
        total = 0.0
        for row, batch in rows():
            outputs, targets = joint.network.outputs_and_targets(batch)
            value, targets = joint.score(outputs, targets)
            loss = weight * joint.loss(value, extra(row, outputs, targets) if extra else 0.0)
            loss.backward()
            total += float(loss.detach())
        return total

    with torch.enable_grad():
        return float(optimizer.step(closure))  # pyright: ignore[reportArgumentType]
