"""A loader that was cut up for several processes is read as the one it was cut from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    TensorDataset,
)

from regvar import batches

accelerate = pytest.importorskip("accelerate")

ROWS = TensorDataset(torch.arange(13), torch.arange(13) + 100)
PROCESSES = 3


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter([(torch.tensor(i), torch.tensor(i + 100)) for i in range(13)])


LOADERS: dict[str, Callable[[], DataLoader[Any]]] = {
    "in order": lambda: DataLoader(ROWS, batch_size=4),
    "shuffled": lambda: DataLoader(ROWS, batch_size=4, shuffle=True),
    "generator": lambda: DataLoader(
        ROWS, batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(7)
    ),
    "drop_last": lambda: DataLoader(ROWS, batch_size=4, drop_last=True),
    "batch sampler": lambda: DataLoader(
        ROWS, batch_sampler=BatchSampler(RandomSampler(ROWS), 4, False)
    ),
    "workers": lambda: DataLoader(ROWS, batch_size=4, shuffle=True, num_workers=1),
    "stream": lambda: DataLoader(Stream(), batch_size=4),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "uneven": {"even_batches": False},
    "seedable": {"use_seedable_sampler": True, "data_seed": 3},
    "rng": {"rng_types": ["generator"]},
}


def prepared(loader: DataLoader[Any], count: int, index: int, **settings: Any) -> Any:
    from accelerate.data_loader import prepare_data_loader

    return prepare_data_loader(loader, num_processes=count, process_index=index, **settings)


def read(loader: Any, order: int) -> list[list[int]]:
    return [torch.stack(list(batch)).tolist() for batch in batches.pinned(loader, order)]


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=list(SETTINGS))
@pytest.mark.parametrize("loader", LOADERS.values(), ids=list(LOADERS))
def test_each_process_reads_what_one_would(
    loader: Callable[[], DataLoader[Any]], settings: dict[str, Any]
) -> None:
    alone = prepared(loader(), 1, 0, **settings)
    for index in range(PROCESSES):
        cut = prepared(loader(), PROCESSES, index, **settings)
        for order in (0, 1, 0):
            assert read(cut, order) == read(alone, order)


@pytest.mark.parametrize("loader", LOADERS.values(), ids=list(LOADERS))
def test_its_own_batches_are_still_its_own_afterwards(
    loader: Callable[[], DataLoader[Any]],
) -> None:
    """Reading it whole leaves no trace on the loader: training goes on as if nobody had."""
    first, second = (prepared(loader(), 2, 1, use_seedable_sampler=True) for _ in range(2))
    runs: list[list[list[Any]]] = []
    for cut, disturbed in ((first, False), (second, True)):
        torch.manual_seed(11)
        epochs: list[list[Any]] = []
        for _ in range(2):
            if disturbed:
                read(cut, 5)
            epochs.append([torch.stack(list(batch)).tolist() for batch in cut])
        runs.append(epochs)
    assert runs[0] == runs[1]


def test_a_seedable_sampler_repeats_its_order() -> None:
    """Its order depends on a count of epochs that every pass moves on."""
    loader = prepared(LOADERS["shuffled"](), 1, 0, use_seedable_sampler=True, data_seed=0)
    assert read(loader, 0) == read(loader, 0)
    assert read(loader, 0) != read(loader, 1)


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_distributed_sampler_repeats_no_row(shuffle: bool) -> None:
    def loader(count: int, rank: int) -> DataLoader[Any]:
        sampler = DistributedSampler(ROWS, count, rank, shuffle=shuffle, seed=2)
        return DataLoader(ROWS, batch_size=4, sampler=sampler)

    for rank in range(PROCESSES):
        cut = loader(PROCESSES, rank)
        for order in (0, 1, 0):
            assert read(cut, order) == read(loader(1, 0), order)
        seen = [row for batch in read(cut, 0) for row in batch[0]]
        assert sorted(seen) == list(range(13))
        assert len(list(cut)) == 2  # its own part still, with the repeats that even it out


def test_a_loader_that_does_not_batch_is_read_whole() -> None:
    def loader(count: int) -> DataLoader[Any]:
        return DataLoader(ROWS, sampler=DistributedSampler(ROWS, count, 0, seed=2), batch_size=None)

    whole = list(batches.pinned(loader(1), 4))
    assert list(batches.pinned(loader(2), 4)) == whole and len(whole) == len(ROWS)
