"""A user's loader as one process would read it, whoever has cut it up for several.

Accelerate's loaders are recognized by their attributes; the core does not import it.
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

_KEPT = (
    "num_workers",
    "collate_fn",
    "pin_memory",
    "timeout",
    "worker_init_fn",
    "multiprocessing_context",
    "generator",
    "prefetch_factor",
)
_COUNTERS = ("epoch", "iteration")


def whole(data: Iterable[Any]) -> Iterable[Any]:
    """`data` itself, or for one process's part of a loader the loader that was cut up."""
    if _parts(data, "state") and hasattr(data, "slice_fn"):
        return data.base_dataloader  # pyright: ignore[reportAttributeAccessIssue]  # a dispatcher
    if not isinstance(data, DataLoader):
        return data
    dataset, settings = data.dataset, {k: getattr(data, k) for k in _KEPT}
    if _parts(dataset):  # an iterable data set, cut up element by element
        settings.update(batch_size=dataset.batch_size, drop_last=dataset.drop_last)  # pyright: ignore[reportAttributeAccessIssue]
        return DataLoader(dataset.dataset, **settings)  # pyright: ignore[reportAttributeAccessIssue]
    if data.batch_sampler is None:
        sampler = _whole_sampler(data.sampler, data)
        if sampler is data.sampler:
            return data
        return DataLoader(dataset, sampler=sampler, batch_size=None, **settings)
    batch_sampler = _whole_sampler(data.batch_sampler, data)
    if batch_sampler is data.batch_sampler:
        return data
    return DataLoader(dataset, batch_sampler=batch_sampler, **settings)


def _parts(owner: object, state: str = "") -> bool:
    """Whether `owner` speaks of several processes."""
    source = getattr(owner, state, None) if state else owner
    count = getattr(source, "num_processes", 1)
    return isinstance(count, int) and count > 1 and hasattr(source, "process_index")


def _whole_sampler(sampler: Any, data: DataLoader[Any]) -> Any:
    """The sampler that was cut up, or `sampler` itself if none was."""
    if _parts(sampler) and hasattr(sampler, "batch_sampler"):
        return _as_given(sampler.batch_sampler, data)
    if isinstance(sampler, DistributedSampler) and sampler.num_replicas > 1:
        alone = copy.copy(sampler)
        alone.num_replicas, alone.rank = 1, 0
        alone.num_samples = alone.total_size = len(sampler.dataset)  # pyright: ignore[reportArgumentType]
        return alone
    inner: Any = getattr(sampler, "sampler", None)
    if isinstance(inner, DistributedSampler) and inner.num_replicas > 1:
        again: Any = copy.copy(sampler)
        again.sampler = _whole_sampler(inner, data)
        return again
    return sampler


def _as_given(sampler: Any, data: DataLoader[Any]) -> Any:
    """The sampler as the user made it: without the generator that accelerate lends to one.

    A random sampler without a generator of its own is lent one so that all processes agree. In
    one process it has none, and the order differs.
    """
    inner: Any = getattr(sampler, "sampler", None)
    lent = getattr(data, "synchronized_generator", None)
    if lent is None or data.generator is lent or getattr(inner, "generator", None) is not lent:
        return sampler
    again, inner = copy.copy(sampler), copy.copy(inner)
    inner.generator, again.sampler = None, inner
    return again


@contextmanager
def epoch(data: object, order: int) -> Generator[None]:
    """Let what counts epochs believe that this is epoch `order`; its own count again outside.

    Accelerate's seedable sampler and `DistributedSampler` shuffle by it.
    """
    counted = [(o, k) for o in samplers(data) if hasattr(o, "set_epoch") for k in _COUNTERS]
    before = [(o, k, vars(o)[k]) for o, k in counted if type(vars(o).get(k)) is int]
    for owner, name, _ in before:
        setattr(owner, name, order)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def samplers(data: object) -> list[Any]:
    """The loader and all samplers it draws from, each once."""
    found: list[Any] = []
    ahead: list[Any] = [data]
    while ahead:
        owner = ahead.pop(0)
        if owner is None or any(owner is o for o in found):
            continue
        found.append(owner)
        ahead += [getattr(owner, k, None) for k in ("sampler", "batch_sampler")]
    return found
