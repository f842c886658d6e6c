"""Batches: what users' loaders yield, in whatever form, and passes over them that repeat exactly.

A batch is `(inputs, targets)`, a dict with `labels`, or anything at all for a user's own
`forward(model, batch) -> (outputs, targets)`.
"""

from __future__ import annotations

import inspect
import random
import sys
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn

from regvar.distributed import loaders
from regvar.errors import DataError, ModelError

Batch = Any
Forward = Callable[[nn.Module, Batch], tuple[Tensor, Any]]

IGNORED = -100


def split(batch: Batch) -> tuple[Any, Any]:
    """A batch's inputs and its targets (`None` where it has none)."""
    if isinstance(batch, Mapping):
        fields = dict(cast("Mapping[str, Any]", batch))
        labels = fields.pop("labels", None)
        return fields, labels
    if isinstance(batch, tuple | list):
        parts = cast("Sequence[Any]", batch)
        if len(parts) in (1, 2):
            return parts[0], parts[1] if len(parts) == 2 else None
        raise DataError(
            f"data must yield (inputs, targets) or dicts, but a batch has {len(parts)} parts. "
            "Pass LogJoint(..., forward=f) with f(model, batch) -> (outputs, targets)."
        )
    return batch, None


def default_forward(model: nn.Module, batch: Batch) -> tuple[Tensor, Any]:
    """Run `model` on a batch as its training loop would: `(outputs, targets)`.

    Hugging Face outputs are read from `.logits`. For a causal language model the labels are moved
    one to the left, as its own loss does, and the last place is padded with −100.
    """
    outputs = _tensor_of(_call(model, split(batch)[0]))
    return outputs, targets_of(model, batch, outputs)


def targets_of(model: nn.Module, batch: Batch, outputs: Tensor) -> Any:
    """The batch's targets for outputs that are known, as `default_forward` gives them."""
    targets = split(batch)[1]
    if isinstance(targets, Tensor) and _is_causal(model) and targets.shape == outputs.shape[:-1]:
        return torch.nn.functional.pad(targets[..., 1:], (0, 1), value=IGNORED)
    return targets


def _call(model: nn.Module, inputs: Any) -> Any:
    if isinstance(inputs, Mapping):
        fields = cast("Mapping[str, Any]", inputs)
        return model(**fields) if _takes_keywords(model, fields) else model(inputs)
    if isinstance(inputs, tuple | list):
        return model(*cast("Sequence[Any]", inputs))
    return model(inputs)


def _takes_keywords(model: nn.Module, fields: Mapping[str, Any]) -> bool:
    try:
        inspect.signature(model.forward).bind(**fields)
    except TypeError:
        return False
    return True


def _tensor_of(outputs: Any) -> Tensor:
    if isinstance(outputs, Tensor):
        return outputs
    logits = (
        cast("Mapping[str, Any]", outputs).get("logits")
        if isinstance(outputs, Mapping)
        else getattr(outputs, "logits", None)
    )
    if isinstance(logits, Tensor):
        return logits
    raise ModelError(
        f"model must return a tensor or an output with .logits, but it returned "
        f"{type(outputs).__name__}. Pass forward=f with f(model, batch) -> (outputs, targets)."
    )


def _is_causal(model: nn.Module) -> bool:
    loss = getattr(model, "loss_function", None)
    return getattr(loss, "__name__", "") == "ForCausalLMLoss"


def to_device(tree: Batch, device: torch.device) -> Batch:
    """The same batch with its tensors on `device`."""
    return _map(tree, lambda t: t.to(device))


def length(tree: Batch) -> int | None:
    """How many examples a batch holds: the first tensor's leading size."""
    for leaf in _leaves(tree):
        if leaf.dim():
            return leaf.shape[0]
    return None


def rows(tree: Batch, start: int, stop: int) -> Batch:
    """Examples `start:stop` of a batch."""
    count = length(tree)
    return _map(tree, lambda t: t[start:stop] if t.dim() and t.shape[0] == count else t)


def take(tree: Batch, index: Tensor) -> Batch:
    """The examples at `index`."""
    count = length(tree)
    return _map(tree, lambda t: t[index.to(t.device)] if t.dim() and t.shape[0] == count else t)


def concatenate(parts: Sequence[Batch]) -> Batch:
    """Several batches as one."""
    first = parts[0]
    if isinstance(first, Tensor):
        return torch.cat([cast("Tensor", p) for p in parts])
    if isinstance(first, Mapping):
        keys = list(cast("Mapping[str, Any]", first))
        return {k: concatenate([p[k] for p in parts]) for k in keys}
    if isinstance(first, tuple | list):
        items = cast("Sequence[Any]", first)
        return tuple(concatenate([p[k] for p in parts]) for k in range(len(items)))
    return first


def _map(tree: Any, f: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(tree, Tensor):
        return f(tree)
    if isinstance(tree, Mapping):
        return {k: _map(v, f) for k, v in cast("Mapping[str, Any]", tree).items()}
    if isinstance(tree, tuple | list):
        items = [_map(v, f) for v in cast("Sequence[Any]", tree)]
        return items if isinstance(tree, list) else tuple(items)
    return tree


def _leaves(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, Mapping):
        for v in cast("Mapping[str, Any]", tree).values():
            yield from _leaves(v)
    elif isinstance(tree, tuple | list):
        for v in cast("Sequence[Any]", tree):
            yield from _leaves(v)


def digests(tree: Batch) -> list[tuple[torch.Size, list[int]]]:
    """For each tensor of a batch its shape per example, and one number per example."""
    count = length(tree)
    found: list[tuple[torch.Size, list[int]]] = []
    for leaf in _leaves(tree):
        if leaf.dim() and leaf.shape[0] == count:
            examples = leaf.detach().to("cpu").contiguous()
            content = [row.reshape(-1).view(torch.uint8).numpy().tobytes() for row in examples]
            found.append((leaf.shape[1:], [hash(example) for example in content]))
    return found


def fingerprint(data: Iterable[Batch]) -> list[float]:
    """Two numbers for all tensors of a pass in their order, the same in every process."""
    count = content = 0
    for batch in pinned(data, 0):
        for leaf in _leaves(batch):
            plain = leaf.detach().to("cpu").contiguous().reshape(-1).view(torch.uint8)
            content = zlib.crc32(plain.numpy().tobytes(), content)
            count += leaf.numel()
    return [float(count), float(content)]


def pinned(data: Iterable[Batch], order: int) -> Iterator[Batch]:
    """One pass over `data` whose every random choice follows from `order`.

    The global generators and the loader's own are seeded inside and put back outside, batch by
    batch, so that a shuffling loader yields the same order every time and the user's random
    numbers are not touched. A loader that several processes have cut up is read whole.
    """
    data = loaders.whole(data)
    generators = _own_generators(data)
    before = [g.get_state() for g in generators]
    state = _Randomness()
    iterator: Iterator[Batch] | None = None
    try:
        with loaders.epoch(data, order):
            while True:
                with state.inside():
                    if iterator is None:
                        _seed_all(order)
                        for g in generators:
                            g.manual_seed(order)
                        iterator = iter(data)
                    batch = next(iterator, _END)
                if batch is _END:
                    return
                yield batch
    finally:
        for g, own in zip(generators, before, strict=True):
            g.set_state(own)


_END = object()


class _Randomness:
    """The global generators as the loader sees them, apart from the user's."""

    def __init__(self) -> None:
        self.state = _rng_state()

    @contextmanager
    def inside(self) -> Generator[None]:
        outside = _rng_state()
        _set_rng_state(self.state)
        try:
            yield
        finally:
            self.state = _rng_state()
            _set_rng_state(outside)


def _own_generators(data: object) -> list[torch.Generator]:
    found = (getattr(owner, "generator", None) for owner in loaders.samplers(data))
    unique = {id(g): g for g in found if isinstance(g, torch.Generator)}
    return list(unique.values())


def _seed_all(seed: int) -> None:
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


def _rng_state() -> tuple[Tensor, Any, Any]:
    numpy = sys.modules.get("numpy")
    return torch.get_rng_state(), random.getstate(), numpy.random.get_state() if numpy else None


def _set_rng_state(state: tuple[Tensor, Any, Any]) -> None:
    torch.set_rng_state(state[0])
    random.setstate(state[1])
    if state[2] is not None:
        sys.modules["numpy"].random.set_state(state[2])
