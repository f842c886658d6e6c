"""How every experiment runs: build what is missing, one record at a time, and nothing twice.

An experiment has cells (what is compared within: a task, a data set), methods and seeds. The
network of a cell and seed is prepared once and kept for its methods; each method's record is
written as soon as it is known. A second run builds what is missing, or what was made under other
settings, and a run that is interrupted loses no record that it has written.
"""

from __future__ import annotations

import difflib
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from tqdm import tqdm

from regvar import records
from regvar.errors import ArgumentError, require
from regvar.experiments.memory import peak_mib
from regvar.metrics import Estimate
from regvar.records import Record

if TYPE_CHECKING:
    from regvar.report import Page

Context = TypeVar("Context")
Result = TypeVar("Result")
_A = TypeVar("_A")
_B = TypeVar("_B")


@dataclass(frozen=True)
class Outcome:
    """What one method made of one cell and seed: a record without its provenance."""

    metrics: Mapping[str, Mapping[str, Estimate]]  # split → metric → estimate
    extra: Mapping[str, Any]  # JSON types
    seconds: Mapping[str, float]  # {"fit", "inference"}


@dataclass(frozen=True)
class Experiment(Generic[Context]):
    """One frozen configuration for each cell, and how to run it."""

    name: str
    summary: str  # one line
    methods: tuple[str, ...]
    seeds: tuple[int, ...]  # unless others are asked for
    configs: Mapping[str, Any] = field(repr=False)  # cell → a frozen dataclass of JSON types
    prepare: Callable[[str, int], Context] = field(repr=False)  # (cell, seed): the fitted network
    run: Callable[[Context, str], Outcome] = field(repr=False)  # (context, method)
    page: Callable[[Sequence[Record]], Page] = field(repr=False)  # what people look at
    threads: int | None = None  # of torch; None leaves them: small networks want one
    without: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {})
    # cell → methods that it does without, for want of memory or time

    @property
    def cells(self) -> tuple[str, ...]:
        """What is compared within."""
        return tuple(self.configs)

    def methods_of(self, cell: str) -> tuple[str, ...]:
        """The methods that a cell has."""
        return tuple(m for m in self.methods if m not in self.without.get(cell, ()))


@dataclass(frozen=True)
class Tally:
    """What a run did."""

    built: int
    kept: int  # records that were there already


def build(
    experiment: Experiment[Any],
    directory: Path | str,
    *,
    seeds: Sequence[int] | None = None,
    cells: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
) -> Tally:
    """Write every record that is missing or was made under another configuration.

    Args:
        experiment: what to run.
        directory: where its records are kept.
        seeds: the experiment's own unless given.
        cells: all unless given; an unknown name is an error with a suggestion.
        methods: likewise.
    """
    cells = choose("cells", cells, experiment.cells)
    methods = choose("methods", methods, experiment.methods)
    seeds = experiment.seeds if seeds is None else tuple(dict.fromkeys(seeds))
    require(len(seeds) > 0, "seeds", "one or more whole numbers", seeds)
    configs = {cell: asdict(experiment.configs[cell]) for cell in cells}
    digests = {cell: records.config_hash(config) for cell, config in configs.items()}

    def current(cell: str, method: str, seed: int) -> bool:
        found = records.find(directory, experiment.name, cell, method, seed)
        return found is not None and found.config_hash == digests[cell]

    wanted = {cell: [m for m in experiment.methods_of(cell) if m in methods] for cell in cells}
    missing = {
        (seed, cell): absent
        for seed in seeds
        for cell in cells
        if (absent := [m for m in wanted[cell] if not current(cell, m, seed)])
    }
    count = sum(len(absent) for absent in missing.values())
    bar = tqdm(total=count, desc=experiment.name, unit="record", disable=None)
    with bar, _threads(experiment.threads):
        for (seed, cell), absent in missing.items():
            bar.set_postfix_str(f"{cell}, seed {seed}: network")
            start = time.perf_counter()
            context, said = _quietly(experiment.prepare, cell, seed)
            taken = time.perf_counter() - start
            before = _Before(cell, seed, configs[cell], digests[cell], taken, said)
            for method in absent:
                bar.set_postfix_str(f"{cell}, seed {seed}: {method}")
                records.write(_record(experiment, before, context, method), directory)
                bar.update()
    return Tally(count, len(seeds) * sum(map(len, wanted.values())) - count)


@dataclass(frozen=True)
class _Before:
    """What is known of a cell and seed before any method runs."""

    cell: str
    seed: int
    config: Mapping[str, Any]
    digest: str
    seconds: float  # of the network
    said: list[str]  # the warnings


def _record(
    experiment: Experiment[Context], before: _Before, context: Context, method: str
) -> Record:
    outcome, said = _quietly(experiment.run, context, method)
    return Record(
        experiment=experiment.name,
        cell=before.cell,
        method=method,
        seed=before.seed,
        config=before.config,
        config_hash=before.digest,
        metrics={
            split: {name: asdict(estimate) for name, estimate in found.items()}
            for split, found in outcome.metrics.items()
        },
        extra={**outcome.extra, "warnings": [*before.said, *said]},
        seconds={"map": before.seconds, **outcome.seconds},
        peak_mib=peak_mib(),
        **asdict(records.provenance()),
    )


def choose(argument: str, asked: Sequence[str] | None, known: Sequence[str]) -> tuple[str, ...]:
    """The names asked for, in the order they are known in; `None` is all of them.

    >>> from regvar.experiments import pipeline
    >>> pipeline.choose("methods", ["ggn"], ["exact_hessian", "ggn"])
    ('ggn',)
    """
    if asked is None:
        return tuple(known)
    require(len(asked) > 0, argument, "one or more names", asked)
    for name in asked:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            guess = f" Did you mean {close[0]!r}?" if close else ""
            raise ArgumentError(
                f"{argument} must be among {', '.join(known)}, but {name!r} is not.{guess}"
            )
    return tuple(name for name in known if name in asked)


@contextmanager
def _threads(count: int | None) -> Generator[None]:
    """So many threads inside the block, the old number afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _quietly(call: Callable[[_A, _B], Result], a: _A, b: _B) -> tuple[Result, list[str]]:
    """A call and what it warned of: the record keeps it, the progress bar stays whole."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call(a, b)
    return result, list(dict.fromkeys(str(w.message) for w in caught))
