"""J·v through any network: how the output moves when the parameters move along v.

    J(x) v = d/dh f_{θ̂ + h v}(x) at h = 0                          (used in Eq. 6, 7 and 10)

`ForwardMode` differentiates exactly and costs about two forward passes. Where an operation has no
forward-mode derivative, `CentralDifferences` takes (f(θ̂ + h v) − f(θ̂ − h v)) / 2h with a step h
scaled to the weights. `choose` tries the first on the user's own batch, checks it against the
second, and falls back, so an operation that silently drops tangents is found out too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from regvar import params
from regvar.distributed import is_sharded
from regvar.errors import require

Call = Callable[[], Tensor]


class JvpMode(Protocol):
    """A way to obtain J·v."""

    @property
    def name(self) -> str:
        """How it is called in reports."""
        ...

    def product(
        self,
        model: nn.Module,
        parameters: Mapping[str, Tensor],
        call: Call,
        v: Mapping[str, Tensor],
    ) -> Tensor:
        """J v for the outputs that `call()` computes with `model`."""
        ...


@contextmanager
def differentiable_ops() -> Generator[None]:
    """Use only kernels with forward-mode and second derivatives.

    Fused attention and fused recurrent layers have neither; their plain counterparts have both.
    """
    with ExitStack() as stack:
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of TF32 on devices that are not there
            stack.enter_context(torch.backends.mkldnn.flags(enabled=False))
        stack.enter_context(torch.backends.cudnn.flags(enabled=False))
        fast = torch.backends.mha.get_fastpath_enabled()
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast)
        torch.backends.mha.set_fastpath_enabled(False)
        yield


@dataclass(frozen=True)
class ForwardMode:
    """Forward-mode automatic differentiation: exact."""

    name: str = "forward"

    def product(
        self,
        model: nn.Module,
        parameters: Mapping[str, Tensor],
        call: Call,
        v: Mapping[str, Tensor],
    ) -> Tensor:
        """J v by dual numbers."""
        with differentiable_ops(), torch.no_grad(), forward_ad.dual_level():
            with warnings.catch_warnings():
                # torch compiles its forward-mode rules on first use with its own deprecated tool
                warnings.filterwarnings("ignore", message=".*torch.jit.script.*")
                duals = {
                    id(p): forward_ad.make_dual(p.detach(), v[k].to(p.dtype))
                    for k, p in parameters.items()
                }
            with params.substituted(model, duals):
                output = forward_ad.unpack_dual(call())
        if output.tangent is None:
            return torch.zeros_like(output.primal)
        return output.tangent.clone()


@dataclass(frozen=True)
class CentralDifferences:
    """(f(θ̂ + h v) − f(θ̂ − h v)) / 2h, with h‖v‖ = step · ‖θ̂‖.

    The default step balances rounding against curvature: the cube root of the machine precision
    in double precision, 5·10⁻⁴ in single, 5·10⁻² in half.
    """

    step: float | None = None
    name: str = "central"

    def __post_init__(self) -> None:
        """Refuse a step that is not positive."""
        require(self.step is None or self.step > 0, "step", "positive", self.step)

    def product(
        self,
        model: nn.Module,
        parameters: Mapping[str, Tensor],
        call: Call,
        v: Mapping[str, Tensor],
    ) -> Tensor:
        """J v by two forward passes."""
        h = self.width(parameters, v)
        with torch.no_grad():
            if h == 0.0:
                return torch.zeros_like(call())
            with params.displaced(parameters, [(h, v)]):
                high = call().clone()
            with params.displaced(parameters, [(-h, v)]):
                low = call()
        return (high - low) / (2 * h)

    def width(self, parameters: Mapping[str, Tensor], v: Mapping[str, Tensor]) -> float:
        """The h for this direction; 0 for the zero vector."""
        length = params.norm(v)
        if length == 0.0:
            return 0.0
        step = self.step or _relative_step(machine_epsilon(parameters))
        weights = params.norm({k: p.detach() for k, p in parameters.items()})
        return step * (weights or 1.0) / length


def machine_epsilon(parameters: Mapping[str, Tensor]) -> float:
    """The coarsest rounding among the parameters."""
    return max(torch.finfo(p.dtype).eps for p in parameters.values())


def _relative_step(epsilon: float) -> float:
    if epsilon < 1e-10:
        return epsilon ** (1 / 3)
    return 5e-4 if epsilon < 1e-4 else 5e-2


def choose(model: nn.Module, parameters: Mapping[str, Tensor], call: Call) -> JvpMode:
    """Forward mode if it works on this network and agrees with central differences."""
    central = CentralDifferences()
    if any(is_sharded(p) for p in parameters.values()):
        return central  # gathered weights know nothing of their parts' tangents
    generator = torch.Generator().manual_seed(0)
    v = {
        k: torch.randn(p.shape, generator=generator).to(p.device, params.work_dtype(p.dtype))
        for k, p in parameters.items()
    }
    try:
        exact = ForwardMode().product(model, parameters, call, v)
    except (NotImplementedError, RuntimeError):
        return central
    rough = central.product(model, parameters, call, v)
    error = float((exact - rough).norm())
    tolerance = 0.1 if machine_epsilon(parameters) < 1e-4 else 1.0
    return ForwardMode() if error <= tolerance * float(rough.norm()) + 1e-30 else central
