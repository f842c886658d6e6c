"""DTensors, which FSDP2 makes of parameters; recognized by what they can do."""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn


def is_sharded(tensor: Tensor) -> bool:
    """Whether this is one process's part of a tensor."""
    return hasattr(tensor, "to_local") and hasattr(tensor, "device_mesh")


def local(tensor: Tensor) -> Tensor:
    """This process's own part; a plain tensor is all its own."""
    return cast("Any", tensor).to_local() if is_sharded(tensor) else tensor


def full(tensor: Tensor) -> Tensor:
    """The whole tensor in every process; differentiable. All processes must call it."""
    return cast("Any", tensor).full_tensor() if is_sharded(tensor) else tensor


def placed(tensor: Tensor, like: Tensor) -> Tensor:
    """The part of a whole tensor that this process holds of `like`; plain for a plain one."""
    if not is_sharded(like) or is_sharded(tensor):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    held = cast("Any", like)
    return distribute_tensor(tensor, held.device_mesh, held.placements, src_data_rank=None)


def gathered(value: float, of: Tensor) -> float:
    """Σ over the processes that hold a part of `of`; the value itself for a plain tensor."""
    if not is_sharded(of):
        return value
    held = torch.tensor(value, dtype=torch.float64, device=local(of).device)
    dist.all_reduce(held, group=cast("Any", of).device_mesh.get_group())
    return float(held)


def regathered(model: nn.Module) -> None:
    """Let go of gathered weights, so that the next pass gathers what the parts hold by now."""
    for module in model.modules():
        reshard = getattr(module, "reshard", None)
        if callable(reshard) and hasattr(module, "set_requires_gradient_sync"):
            reshard()
