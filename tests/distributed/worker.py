"""One of several processes: `python -m tests.distributed.worker WHAT OUT RANK COUNT MEETING`."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import regvar

from .answers import (
    SOLVERS,
    batched,
    joint_of,
    network,
    queries,
    read,
    replicated_answers,
    rows,
    sharded_answers,
)


def sharded(model: nn.Module) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for module in model.modules():
        if isinstance(module, nn.Linear):
            fully_shard(module, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def refusal(attempt: Callable[[], Any]) -> str:
    """The error of ours that an attempt ends in, or nothing."""
    try:
        attempt()
    except regvar.RegvarError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def replicated() -> dict[str, Any]:
    rank = dist.get_rank()
    found: dict[str, Any] = dict(replicated_answers(DistributedDataParallel))
    found["names"] = list(joint_of(DistributedDataParallel).parameters)

    counted = joint_of(DistributedDataParallel)
    seen: list[int] = []
    counted.check()
    handle = counted.model.register_forward_hook(lambda m, x, y: seen.append(len(y)))
    counted.likelihood_gradient()
    handle.remove()
    found["rows seen"] = seen

    trained = DistributedDataParallel(network())
    trained(queries()).sum()  # a forward whose backward never comes leaves DDP waiting for hooks
    joint = joint_of(lambda _: trained)
    found["after a forward"] = read(regvar.amortized(joint, solver=SOLVERS["finetune"]))
    loss = trained(queries()[rank : rank + 1]).square().sum()
    loss.backward()
    found["gradients still averaged"] = torch.cat([p.grad.flatten() for p in trained.parameters()])

    def own_rows() -> list[tuple[Tensor, ...]]:
        return [tuple(part[rank::2] for part in rows(12))]

    found["own data"] = refusal(lambda: joint_of(DistributedDataParallel, own_rows()).check())
    one = joint_of(DistributedDataParallel)
    found["own queries"] = refusal(lambda: regvar.pointwise(one).moments(queries()[rank:][:1]))
    found["own probes"] = refusal(lambda: regvar.amortized(one, probes=queries()[rank:][:1]))

    def moved() -> None:
        wrapped = DistributedDataParallel(network())
        with torch.no_grad():
            next(wrapped.parameters()).add_(float(rank))
        joint_of(lambda _: wrapped).check()

    found["own weights"] = refusal(moved)

    def broken() -> None:
        joint = joint_of(DistributedDataParallel)
        joint.check()
        if rank == 1:
            joint.model[2].register_forward_hook(lambda m, x, y: y * float("nan"))
        regvar.sampled(joint, 1)

    found["another fails"] = refusal(broken)
    bare = joint_of(lambda model: model)
    if rank == 0:  # alone, while the other does something else
        found["alone"] = read(regvar.sampled(bare, 3, SOLVERS["cg"], seed=5))
    return found


def sharded_() -> dict[str, Any]:
    found: dict[str, Any] = dict(sharded_answers(sharded))
    joint = joint_of(sharded)
    found["short batch"] = refusal(joint.likelihood_gradient)
    found["half"] = refusal(lambda: joint_of(lambda model: sharded(model.bfloat16())))
    forward = regvar.ForwardMode()
    found["forward mode"] = refusal(lambda: joint_of(sharded, batched(14), jvp=forward))
    own = joint_of(sharded, batched(14))
    found["mode"] = regvar.amortized(own).network.mode
    nystrom = regvar.ConjugateGradient(preconditioner=regvar.Nystrom(rank=3))
    found["nystrom"] = refusal(lambda: regvar.amortized(own, solver=nystrom))
    exact = regvar.Minres(regvar.Hessian(), max_iterations=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", regvar.SolverWarning)
        found["exact hessian"] = read(regvar.amortized(own, solver=exact))
    with torch.no_grad():
        next(iter(own.model.parameters())).add_(1.0)
    uq = regvar.amortized(own)
    with torch.no_grad():
        next(iter(own.model.parameters())).add_(1.0)
    found["stale"] = refusal(lambda: uq.moments(queries()))
    return found


def main(what: str, out: str, rank: int, count: int, meeting: str) -> None:
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=count)
    torch.save({"replicated": replicated, "sharded": sharded_}[what](), f"{out}.{rank}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
