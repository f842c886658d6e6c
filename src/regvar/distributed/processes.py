"""The processes that share one network's work, and what they tell each other."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from regvar.distributed.shards import is_sharded, local
from regvar.errors import DataError, ModelError

_BUCKET = 2**22  # numbers that travel together


@dataclass(frozen=True)
class Processes:
    """One process among `count`, which make the same calls and share the rows of each batch."""

    rank: int = 0
    count: int = 1
    group: dist.ProcessGroup | None = field(default=None, repr=False)
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    sharded: bool = False  # each holds a part of the parameters (FSDP2)

    @property
    def alone(self) -> bool:
        """Whether there is nobody to talk to."""
        return self.count == 1

    @property
    def hushed(self) -> bool | None:
        """What tqdm's `disable` should be: one bar for all."""
        return None if self.rank == 0 else True

    def span(self, rows: int) -> tuple[int, int]:
        """This process's own rows; the first processes take one more where it does not divide."""
        each, rest = divmod(rows, self.count)
        start = each * self.rank + min(self.rank, rest)
        return start, start + each + (self.rank < rest)

    @property
    def share(self) -> float:
        """This process's weight of what is no sum over rows: the sum over processes holds it once.

        All of it is process 0's. Sharded weights are gathered by all processes or none, so there
        each has an equal part.
        """
        return 1 / self.count if self.sharded else float(self.rank == 0)

    def once(self, value: Callable[[], Tensor]) -> Tensor:
        """A term of a loss that is no sum over rows: this process's share of it."""
        if self.alone:
            return value()
        return self.share * value() if self.share else torch.zeros(())

    def total(self, value: float) -> float:
        """Σ over processes."""
        if self.alone:
            return value
        held = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.all_reduce(held, group=self.group)
        return float(held)

    def agreed(self, value: float) -> float:
        """Process 0's value: rounding must not steer two processes apart."""
        if self.alone:
            return value
        held = torch.tensor(value, dtype=torch.float64, device=self.device)
        self.from_first_([held])
        return float(held)

    def same(self, numbers: Sequence[float]) -> bool:
        """Whether all processes hold these numbers, but for the last digits of a sum."""
        if self.alone:
            return True
        held = torch.tensor([len(numbers), *numbers], dtype=torch.float64, device=self.device)
        sizes = torch.tensor([len(held), -len(held)], device=self.device)
        dist.all_reduce(sizes, dist.ReduceOp.MAX, group=self.group)
        if int(sizes.sum()):
            return False
        both = torch.cat([held, -held])
        dist.all_reduce(both, dist.ReduceOp.MAX, group=self.group)
        high, low = both[: len(held)], -both[len(held) :]
        return bool((high - low <= 1e-10 * high.abs() + 1e-30).all())

    @contextmanager
    def summed(self, *vectors: Mapping[str, Tensor]) -> Generator[None]:
        """Add up what each process has added to `vectors` inside the block.

        If one process fails inside, all do: nobody waits for ever.
        """
        if self.alone:
            yield
            return
        try:
            yield
        except Exception:
            self.total(1.0)
            raise
        if self.total(0.0):
            raise DataError("another process failed in this pass over the data: see its message.")
        self.sum_([v for vector in vectors for v in vector.values()])

    def sum_(self, tensors: Iterable[Tensor]) -> None:
        """Σ over processes, in place, in buckets; a sharded gradient is their mean so far."""
        if self.alone:
            return
        buckets: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
        for tensor in tensors:
            if is_sharded(tensor):
                tensor.mul_(self.count)
                continue
            bucket = buckets.setdefault((tensor.device, tensor.dtype), [])
            if bucket and sum(t.numel() for t in bucket) + tensor.numel() > _BUCKET:
                self._reduce(bucket)
                bucket.clear()
            bucket.append(tensor)
        for bucket in buckets.values():
            self._reduce(bucket)

    def _reduce(self, tensors: list[Tensor]) -> None:
        if len(tensors) == 1 and tensors[0].is_contiguous():
            dist.all_reduce(tensors[0], group=self.group)
            return
        flat = torch.cat([t.reshape(-1) for t in tensors])
        dist.all_reduce(flat, group=self.group)
        for tensor, part in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
            tensor.copy_(part.reshape(tensor.shape))

    def from_first_(self, tensors: Iterable[Tensor]) -> None:
        """Process 0's values, in place."""
        if self.alone:
            return
        first = dist.get_global_rank(self.group or dist.group.WORLD, 0)  # pyright: ignore[reportArgumentType]
        for tensor in tensors:
            dist.broadcast(tensor, first, group=self.group)


ALONE = Processes()


def unwrapped(model: nn.Module) -> tuple[nn.Module, Processes]:
    """The module inside its wrapper, with the processes that share it."""
    group: dist.ProcessGroup | None = None
    while isinstance(model, DistributedDataParallel):
        group = model.process_group
        model = model.module
    for name, module in model.named_modules():
        if type(module).__name__ == "FullyShardedDataParallel":
            raise ModelError(
                f"model must be sharded by torch.distributed.fsdp.fully_shard, but {name!r} is "
                "wrapped in FullyShardedDataParallel. Use FSDP2 (accelerate: fsdp_version=2)."
            )
    first = next(model.parameters(), torch.empty(0))
    pieces = [p for p in model.parameters() if is_sharded(p)]
    if pieces:
        _check_digits(model, pieces)
        return model, _sharing(_mesh_group(pieces), local(pieces[0]).device, sharded=True)
    if group is None:
        return model, ALONE
    return model, _sharing(group, first.device)


def _check_digits(model: nn.Module, pieces: Sequence[Tensor]) -> None:
    """Weights that are rounded before they are gathered have lost their displacement."""
    states = [m._get_fsdp_state() for m in model.modules() if hasattr(m, "_get_fsdp_state")]  # pyright: ignore[reportCallIssue]
    policies = [getattr(getattr(s, "_mp_policy", None), "param_dtype", None) for s in states]
    for dtype in (*policies, *(p.dtype for p in pieces)):
        if dtype in (torch.float16, torch.bfloat16):
            raise ModelError(
                f"parameters of a sharded model must be gathered in float32, but are in {dtype}: "
                "a displacement would be rounded away. Load the weights in float32 and call "
                "fully_shard without mp_policy."
            )


def _sharing(group: dist.ProcessGroup, device: torch.device, sharded: bool = False) -> Processes:
    count = dist.get_world_size(group)
    return Processes(dist.get_rank(group), count, group, device, sharded)


def _mesh_group(pieces: Sequence[Tensor]) -> dist.ProcessGroup:
    meshes = {piece.device_mesh for piece in pieces}  # pyright: ignore[reportAttributeAccessIssue]
    mesh = next(iter(meshes))
    if len(meshes) > 1 or mesh.ndim != 1:
        raise ModelError(
            f"model must be sharded over one mesh of one dimension, but it is over {meshes}. "
            "Call fully_shard without replication or tensor parallelism."
        )
    return mesh.get_group()
