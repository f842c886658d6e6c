"""The user's module, called but never changed.

`Network` runs the module on a batch, multiplies with its Jacobian, and guarantees that whatever
was done inside `guard()` leaves no trace: parameters, buffers, `.grad`, modes and `requires_grad`
come back bit for bit, also when an exception passes.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regvar import batches, distributed, linearize, params, widening
from regvar.batches import Batch, Forward
from regvar.errors import ModelError, StaleError
from regvar.linearize import JvpMode
from regvar.params import Params
from regvar.results import Displacement


@dataclass(frozen=True)
class Fingerprint:
    """Enough of θ̂, and of the buffers beside it, to tell whether the network has changed since."""

    sums: dict[str, tuple[float, float]]

    def matches(self, other: Fingerprint) -> bool:
        """Whether both were taken of the same values, up to a device's order of summation."""
        if self.sums.keys() != other.sums.keys():
            return False
        return all(
            a == b or abs(a - b) <= 1e-9 * (1e-30 + self.sums[k][1])  # a mask's sum is −∞
            for k in self.sums
            for a, b in zip(self.sums[k], other.sums[k], strict=True)
        )


class Network:
    """f_θ(x) and its products J(x) v and J(x)ᵀ u for one user's module."""

    def __init__(
        self, model: nn.Module, forward: Forward | None = None, jvp: JvpMode | None = None
    ) -> None:
        """Wrap `model`; `forward` and `jvp` as in `LogJoint`."""
        self.model, self.processes = distributed.unwrapped(model)
        self.custom = forward is not None
        self._forward = forward or batches.default_forward
        if self.processes.sharded and jvp is not None and jvp.name == "forward":
            raise ModelError(
                "jvp must be CentralDifferences() for a sharded model, but is ForwardMode(): "
                "gathered weights lose tangents. Leave jvp=None."
            )
        self._jvp = jvp
        self._verified: tuple[object, Fingerprint] | None = None
        self._wide = False

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        """The trainable parameters by name, tied ones once: only what trains is Bayesian."""
        return {k: p for k, p in self.model.named_parameters() if p.requires_grad}

    @property
    def device(self) -> torch.device:
        """Where batches go: the device of the first parameter."""
        return next((p.device for p in self.model.parameters()), torch.device("cpu"))

    @property
    def mode(self) -> str:
        """How J·v is obtained: "forward", "central", or "undecided" before the first product."""
        return self._jvp.name if self._jvp else "undecided"

    def outputs_and_targets(self, batch: Batch) -> tuple[Tensor, object]:
        """f_θ̂ on a batch, with whatever targets it carries."""
        batch = batches.to_device(batch, self.device)
        if self.processes.sharded:
            distributed.regathered(self.model)
        if not self._wide:
            return self._forward(self.model, batch)
        return widening.evaluated(lambda: self._forward(self.model, batch), self.device)

    def targets(self, batch: Batch, outputs: Tensor) -> Any:
        """The batch's targets; the module runs again only where the user's `forward` makes them."""
        if not self.custom:
            return batches.targets_of(self.model, batches.to_device(batch, self.device), outputs)
        with torch.no_grad(), self.guard():
            return self.outputs_and_targets(batch)[1]

    def outputs(self, batch: Batch) -> Tensor:
        """f_θ̂ on a batch: [batch, outputs...]."""
        outputs = self.outputs_and_targets(batch)[0]
        if outputs.dim() == 0:
            raise ModelError(
                "model must return one row per example, but its output is a scalar. "
                "Return the predictions, not the loss."
            )
        return outputs

    def jvp(self, batch: Batch, v: Mapping[str, Tensor]) -> Tensor:
        """J(x) v, shaped like the outputs."""
        parameters = self.parameters

        def call() -> Tensor:
            return self.outputs(batch)

        if self._jvp is None:
            self._jvp = linearize.choose(self.model, parameters, call)
        return self._jvp.product(self.model, parameters, call, v)

    def vjp(self, batch: Batch, u: Tensor) -> Params:
        """J(x)ᵀ u, by one backward pass that leaves `.grad` alone."""
        with torch.enable_grad():
            outputs = self.outputs(batch)
            return self.pull_back(outputs, u)

    def pull_back(self, outputs: Tensor, u: Tensor | None = None, keep: bool = False) -> Params:
        """The gradient of ⟨outputs, u⟩, zero for parameters that the outputs do not reach.

        Of sharded parameters it is the mean over processes: their gradients are reduced as they
        are computed.
        """
        parameters = self.parameters
        if not outputs.requires_grad:
            return params.zeros(parameters)
        if self.processes.sharded:
            return self._backward(outputs, u, keep)
        grads: Any = torch.autograd.grad(
            outputs, list(parameters.values()), u, retain_graph=keep, allow_unused=True
        )
        return self._as_vector(grads)

    def gradient_of(self, value: Tensor) -> Params:
        """The gradient of a function of the parameters alone, such as the prior."""
        grads: Any = torch.autograd.grad(value, list(self.parameters.values()), allow_unused=True)
        return self._as_vector(grads)

    def _backward(self, outputs: Tensor, u: Tensor | None, keep: bool) -> Params:
        """FSDP2 reduces gradients on their way to `.grad`, and nowhere else."""
        parameters = self.parameters.values()
        for p in parameters:
            p.grad = None
        distributed.regathered(self.model)
        torch.autograd.backward(outputs, u, retain_graph=keep)
        found = self._as_vector([p.grad for p in parameters])
        for p in parameters:
            p.grad = None
        return found

    def _as_vector(self, grads: Sequence[Tensor | None]) -> Params:
        return {
            k: torch.zeros_like(p, dtype=params.work_dtype(p.dtype))
            if g is None
            else g.detach().to(params.work_dtype(p.dtype))
            for (k, p), g in zip(self.parameters.items(), grads, strict=True)
        }

    def responses(
        self, batch: Batch, moves: tuple[Displacement, ...], mean: Tensor | None = None
    ) -> Iterator[Tensor]:
        """The signed response of the outputs per unit λ, for each displacement in turn.

        In at least single precision: half-precision outputs are widened before any difference.

        Tangent: J(x) δ. Refit: (f_high(x) − f_low(x)) / width, Eq. 11; a shared lower end, such
        as the control of several refits, is evaluated once, and not at all where it is θ̂ itself
        and `mean` brings f_θ̂(x).
        """
        low: tuple[object, Tensor] | None = None if mean is None else (None, _widened(mean))
        for move in moves:
            if move.width is None:
                yield _widened(self.jvp(batch, move.delta))
                continue
            if low is None or low[0] is not move.origin:
                base = [] if move.origin is None else [(1.0, move.origin)]
                low = (move.origin, self._outputs_at(batch, base))
            ends = [] if move.origin is None else [(1.0, move.origin)]
            high = self._outputs_at(batch, [*ends, (move.width, move.delta)])
            yield (high - low[1]) / move.width

    def _outputs_at(self, batch: Batch, steps: list[tuple[float, Mapping[str, Tensor]]]) -> Tensor:
        with torch.no_grad():
            if not steps:
                return _widened(self.outputs(batch))
            with params.displaced(self.parameters, steps):
                return _widened(self.outputs(batch)).clone()

    @contextmanager
    def guard(self, parameters: bool = False) -> Generator[None]:
        """Leave no trace of the block on the module; `parameters` also restores their values.

        Inside, a half-precision network computes in single precision (`regvar.widening`).
        """
        modules = list(self.model.modules())
        modes = [m.training for m in modules]
        flags = [(p, p.requires_grad, p.grad) for p in self.model.parameters()]
        kept = {k: p.detach().clone() for k, p in self.parameters.items()} if parameters else {}
        buffers = [(b, b.detach().clone()) for b in self.model.buffers()]
        try:
            with self._in_single_precision():
                yield
        finally:
            params.write_({k: p for k, p in self.parameters.items() if k in kept}, kept)
            for p, requires_grad, grad in flags:
                p.requires_grad_(requires_grad)
                p.grad = grad
            for buffer, before in buffers:
                buffer.data.copy_(before)
            for module, training in zip(modules, modes, strict=True):
                module.training = training

    @contextmanager
    def _in_single_precision(self) -> Generator[None]:
        if self._wide or not widening.is_narrow(self.model, self.device):
            yield
            return
        self._wide = True
        try:
            with widening.widened(self.model, self.parameters):
                yield
        finally:
            self._wide = False

    def _state(self) -> dict[str, Tensor]:
        """What the outputs depend on and may change: what trains, and saved buffers of numbers.

        Running means of batch norm are such. Buffers that `state_dict` leaves out can be made
        anew, and some networks do so in every call.
        """
        found: dict[str, Tensor] = dict(self.parameters)
        for place, module in self.model.named_modules():
            passing: set[str] = getattr(module, "_non_persistent_buffers_set", set())
            for name, buffer in module.named_buffers(recurse=False):
                if buffer.is_floating_point() and name not in passing:
                    found[f"{place}.{name}" if place else name] = buffer
        return found

    def fingerprint(self) -> Fingerprint:
        """Two sums over each parameter and each buffer."""
        sums: dict[str, tuple[float, float]] = {}
        for k, p in self._state().items():
            flat = distributed.local(p.detach()).reshape(-1)
            total = float(flat.sum(dtype=torch.float64))
            norm = float(torch.linalg.vector_norm(flat, dtype=torch.float64))
            if self.processes.sharded:
                total = distributed.gathered(total, p)
                norm = math.sqrt(distributed.gathered(norm**2, p))
            sums[k] = (total, norm)
        return Fingerprint(sums)

    def require_unchanged(self, fitted: Fingerprint) -> None:
        """Raise `StaleError` unless parameters and buffers are those of the fit."""
        glance = self._glance()
        known = self._verified == (glance, fitted)
        if self.processes.sharded:  # all processes look again if one must
            known = not self.processes.total(not known)
        if known:
            return
        if not self.fingerprint().matches(fitted):
            raise StaleError(
                "model must have the parameters and buffers it was fitted with, but they have "
                "changed since. Fit the estimator again, or put the fitted weights back "
                "(load_state_dict holds both)."
            )
        self._verified = (glance, fitted)

    def _glance(self) -> object:
        """Cheap enough for every call: storage, version and three values of each parameter."""
        found: list[tuple[int, int, list[float]]] = []
        for p in self._state().values():
            flat = distributed.local(p.detach()).reshape(-1)
            places = [0, flat.numel() // 2, -1] if flat.numel() else []
            found.append((flat.data_ptr(), p._version, flat[places].tolist()))
        return found


def _widened(outputs: Tensor) -> Tensor:
    return outputs.to(params.work_dtype(outputs.dtype))
