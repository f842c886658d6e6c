"""A half-precision network evaluated in single precision, without a single-precision copy of it.

A displacement is a small difference of parameters, and its response a small difference of outputs.
bfloat16 has 8 significant bits, float16 has 11: written back into such parameters, or read off
outputs computed in them, both are lost in rounding. So wherever a difference, a product or a refit
is computed, every operation of the network takes its half-precision operands in float32 (exactly
the values they have) and is kept from handing on fewer digits; autocast is switched off, and
`dtype` reads as float32.

Frozen weights and buffers are widened an operation at a time. The trainable parameters become
float32 for as long as they are displaced or refitted: that one set is the only copy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regvar import params
from regvar.distributed import is_sharded
from regvar.errors import ModelError

T = TypeVar("T")
_HALF = (torch.float16, torch.bfloat16)
_UNTOUCHED = {"__get__", "__set__", "backward", "grad", "requires_grad_", "detach_"}


def is_narrow(model: nn.Module, device: torch.device) -> bool:
    """Whether anything in the network, or around it, computes in half precision."""
    if torch.is_autocast_enabled(device.type) or hasattr(model, "_original_forward"):
        return True  # the second: accelerate's mixed precision
    held = [*model.parameters(), *model.buffers()]
    return any(t.dtype in _HALF for t in held)


@contextmanager
def widened(model: nn.Module, parameters: Mapping[str, nn.Parameter]) -> Generator[None]:
    """Let the trainable half-precision parameters be float32 inside the block."""
    wide = {
        id(p): nn.Parameter(p.detach().float())
        for p in parameters.values()
        if p.dtype in _HALF and not is_sharded(p)
    }
    with params.substituted(model, wide):
        yield


def evaluated(call: Callable[[], T], device: torch.device) -> T:
    """What `call` computes, in single precision."""
    try:
        with Widening(device):
            return call()
    except (RuntimeError, TypeError) as error:
        if not re.search(r"half|bf16|fp16|float16|bfloat|dtype", str(error), re.IGNORECASE):
            raise
        raise ModelError(
            "model must be able to compute in float32, where small differences keep their digits, "
            f"but: {error} Use kernels that can (transformers: "
            'model.set_attn_implementation("sdpa")), or model.float().'
        ) from error


class Widening(TorchFunctionMode):
    """Every operation in at least single precision, whatever dtype its caller asks for."""

    def __init__(self, device: torch.device) -> None:
        """For a network on `device`."""
        super().__init__()
        self.device = device.type

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Widen the operands and the dtype asked for, then compute."""
        name = getattr(func, "__name__", "")
        if name in _UNTOUCHED:
            result = func(*args, **(kwargs or {}))
            return _wide(result) if isinstance(result, torch.dtype) else result
        if name in ("half", "bfloat16"):
            func = Tensor.float
        changes_first = name == "__setitem__" or (name.endswith("_") and name[:2] != "__")
        first = args[:1] if changes_first else cast("tuple[Any, ...]", _wide(args[:1]))
        wide = (*first, *_wide(args[1:]))
        options = cast("dict[str, Any]", _wide(kwargs or {}))
        if not torch.is_autocast_enabled(self.device):
            return func(*wide, **options)
        with torch.autocast(self.device, enabled=False):
            return func(*wide, **options)


def _wide(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.float() if value.dtype in _HALF else value
    if isinstance(value, torch.dtype):
        return torch.float32 if value in _HALF else value
    if isinstance(value, tuple | list):
        items = [_wide(v) for v in cast("list[Any]", value)]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {k: _wide(v) for k, v in cast("dict[Any, Any]", value).items()}
    return value
