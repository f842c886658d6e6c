"""Algebra on parameter vectors, held as `{name: tensor}`.

A vector has one tensor per trainable parameter, in the parameter's shape and on its device, so
that a network spread over several devices needs nothing special; of a sharded parameter (FSDP2)
it is sharded alike, and sums are over all parts. Half-precision parameters get
float32 vectors (`work_dtype`): differences of two networks are lost below that.
"""

# torch registers parameters in `_parameters`, recurrent layers also in `_flat_weights`.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regvar.distributed import full, gathered, is_sharded, local, placed

Params = dict[str, Tensor]


def work_dtype(dtype: torch.dtype) -> torch.dtype:
    """The precision in which vectors of parameters of this precision are kept."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def zeros(like: Mapping[str, Tensor]) -> Params:
    """The zero vector in the space of `like`."""
    return {k: torch.zeros_like(v, dtype=work_dtype(v.dtype)) for k, v in like.items()}


def copy(vector: Mapping[str, Tensor]) -> Params:
    """A copy in working precision, cut off from any graph."""
    return {k: v.detach().to(work_dtype(v.dtype), copy=True) for k, v in vector.items()}


def dot(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> float:
    """⟨a, b⟩, partial sums added in double precision."""
    terms = [
        (v, float(torch.dot(local(v).reshape(-1), local(b[k]).reshape(-1)))) for k, v in a.items()
    ]
    return _over_shards(terms)


def norm(a: Mapping[str, Tensor]) -> float:
    """‖a‖₂."""
    return math.sqrt(max(dot(a, a), 0.0))


def _over_shards(terms: Iterable[tuple[Tensor, float]]) -> float:
    """Σ of what each process has found in its part of each tensor."""
    own = list(terms)
    total = math.fsum(value for v, value in own if not is_sharded(v))
    sharded = [(v, value) for v, value in own if is_sharded(v)]
    if not sharded:
        return total
    return total + gathered(math.fsum(value for _, value in sharded), sharded[0][0])


def add_(y: Params, x: Mapping[str, Tensor], alpha: float = 1.0) -> Params:
    """y ← y + α x, in place."""
    for k, v in y.items():
        v.add_(x[k].to(v.dtype), alpha=alpha)
    return y


def scale_(y: Params, alpha: float) -> Params:
    """y ← α y, in place."""
    for v in y.values():
        v.mul_(alpha)
    return y


def combine(a: float, x: Mapping[str, Tensor], b: float, y: Mapping[str, Tensor]) -> Params:
    """a x + b y, as a new vector."""
    return {k: a * v + b * y[k] for k, v in x.items()}


def isfinite(a: Mapping[str, Tensor]) -> bool:
    """Whether every entry is finite."""
    return not _over_shards([(v, 1.0 - float(torch.isfinite(local(v)).all())) for v in a.values()])


def size(a: Mapping[str, Tensor]) -> int:
    """dim θ."""
    return sum(v.numel() for v in a.values())


def flatten(a: Mapping[str, Tensor]) -> Tensor:
    """One long vector, for dense algebra on small nets."""
    return torch.cat([full(v).reshape(-1) for v in a.values()])


def unflatten(vector: Tensor, like: Mapping[str, Tensor]) -> Params:
    """The inverse of `flatten` in the space of `like`."""
    parts = vector.split([v.numel() for v in like.values()])
    return {k: placed(p.reshape(v.shape), v) for (k, v), p in zip(like.items(), parts, strict=True)}


def randn(like: Mapping[str, Tensor], generator: torch.Generator) -> Params:
    """ξ ~ N(0, I); drawn on the CPU in double precision: one seed, the same numbers everywhere."""

    def draw(v: Tensor) -> Tensor:
        whole = torch.randn(v.shape, generator=generator, dtype=torch.float64)
        return placed(whole.to(v.device, work_dtype(v.dtype)), v)

    return {k: draw(v) for k, v in like.items()}


def write_(parameters: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    """Put `values` into the parameters' own storage.

    `.data` keeps autograd from noticing, so a graph built before stays usable once the old
    values are back.
    """
    for k, p in parameters.items():
        p.data.copy_(values[k])


@contextmanager
def displaced(
    parameters: Mapping[str, Tensor], steps: list[tuple[float, Mapping[str, Tensor]]]
) -> Generator[None]:
    """θ̂ + Σ αᵢ vᵢ inside the block; the old bits again afterwards, whatever happens."""
    before = {k: p.detach().clone() for k, p in parameters.items()}
    try:
        for k, p in parameters.items():
            moved = before[k].to(work_dtype(p.dtype), copy=True)
            for alpha, vector in steps:
                moved.add_(vector[k].to(moved.dtype), alpha=alpha)
            p.data.copy_(moved)
        yield
    finally:
        write_(parameters, before)


@contextmanager
def substituted(model: nn.Module, values: Mapping[int, Tensor]) -> Generator[None]:
    """Let every module see `values[id(p)]` in place of its parameter `p` inside the block.

    Tied parameters are replaced wherever they are registered. Recurrent layers keep a second
    list of their weights, which is replaced too.
    """
    slots = [
        (module, name, p)
        for module in model.modules()
        for name, p in module._parameters.items()
        if p is not None and id(p) in values
    ]
    rnns = [(m, m._flat_weights) for m in model.modules() if isinstance(m, nn.RNNBase)]
    try:
        for module, name, p in slots:
            module._parameters[name] = values[id(p)]  # pyright: ignore[reportArgumentType]
        for module, weights in rnns:
            module._flat_weights = [values.get(id(w), w) for w in weights]  # pyright: ignore[reportAttributeAccessIssue]
        yield
    finally:
        for module, name, p in slots:
            module._parameters[name] = p
        for module, weights in rnns:
            module._flat_weights = weights
