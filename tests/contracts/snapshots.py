"""What must be the same afterwards: all of the user's network, and the process's global state."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch import Tensor, nn

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def lived_in(model: nn.Module) -> nn.Module:
    """A network in mid-life: gradients on some parameters, one layer in train mode."""
    parameters = list(model.parameters())
    for p in (parameters[0], parameters[-1]):
        p.grad = torch.full_like(p, 3.0)
    layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    layers[-1].train()
    return model


def network_state(model: nn.Module) -> dict[str, Any]:
    """Values, gradients, flags, identities and modes of all that the network holds."""
    state: dict[str, Any] = {}
    for name, p in model.named_parameters(remove_duplicate=False):
        grad = None if p.grad is None else p.grad.clone()
        state[f"{name}: value"] = p.detach().clone()
        state[f"{name}: grad"] = grad
        state[f"{name}: kind"] = (type(p), id(p), p.data_ptr(), p.requires_grad, p.is_leaf)
    for name, b in model.named_buffers(remove_duplicate=False):
        state[f"{name}: buffer"] = b.clone()
        state[f"{name}: identity"] = id(b)
    for name, m in model.named_modules(remove_duplicate=False):
        state[f"{name}: mode"] = m.training
        state[f"{name}: hooks"] = [len(getattr(m, hooks)) for hooks in HOOKS]
        state[f"{name}: attributes"] = sorted(vars(m))
        state[f"{name}: forward"] = vars(m).get("forward")
    return state


def set_switches() -> None:
    """Put torch's switches where they are in a fresh process, whatever an earlier test did."""
    torch.backends.mha.set_fastpath_enabled(True)
    torch.backends.cuda.enable_flash_sdp(True)
    torch.backends.cuda.enable_mem_efficient_sdp(True)
    torch.backends.cuda.enable_math_sdp(True)
    torch.set_grad_enabled(True)


def global_state() -> dict[str, Any]:
    """The process's random numbers and torch's switches."""
    return {
        "torch random": torch.get_rng_state(),
        "python random": random.getstate(),
        "numpy random": [str(part) for part in numpy.random.get_state()],
        "gradients on": torch.is_grad_enabled(),
        "default dtype": torch.get_default_dtype(),
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "mkldnn": torch.backends.mkldnn.enabled,
        "fast path": torch.backends.mha.get_fastpath_enabled(),
        "flash attention": torch.backends.cuda.flash_sdp_enabled(),
        "efficient attention": torch.backends.cuda.mem_efficient_sdp_enabled(),
        "math attention": torch.backends.cuda.math_sdp_enabled(),
    }


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The names of all that changed."""
    assert before
    names = before.keys() | after.keys()
    return sorted(
        n for n in names if n not in before or n not in after or _differ(before[n], after[n])
    )


def _differ(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.dtype != b.dtype or not torch.equal(a, b)
    return bool(a != b) if not isinstance(a, Tensor) and not isinstance(b, Tensor) else True


class Fuse:
    """Counts the calls of a network, of its copies too, and raises at the `at`-th."""

    def __init__(self, model: nn.Module, error: type[BaseException] = ArithmeticError) -> None:
        self.calls = 0
        self.at: int | None = None
        self.error = error
        model.register_forward_pre_hook(self._counter())

    def _counter(self) -> Callable[[nn.Module, Any], None]:
        def count(module: nn.Module, inputs: Any) -> None:
            self.calls += 1
            if self.calls == self.at:
                raise self.error("the fuse blew")

        return count

    def arm(self, at: int) -> None:
        """Count from zero and raise at the given call."""
        self.calls, self.at = 0, at
