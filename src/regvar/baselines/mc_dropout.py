"""Monte Carlo dropout (Gal and Ghahramani, 2016) on any network, without editing it.

    f_k(x) = network with mask z_k,   mean = (1/K) Σ_k f_k(x),   σ²_f(x) = (1/K) Σ_k (f_k − mean)²

Where the network has dropout layers these drop; otherwise the input of every linear, convolution
and recurrent layer does, but for the one that is called first, which sees the data. A mask is
drawn for the features (the last dimension; dimension 1 of convolutions and of channel-wise
dropout) and shared by all rows and positions, so each pass is one draw of a sub-network: the
answer depends on neither the batch size nor the order of rows, and repeats.

The modules stay in eval mode throughout. The mean is that of the passes, not f_θ̂(x).
"""

# torch names the base classes of its dropout and convolution layers with an underscore.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.utils.rnn import PackedSequence

from regvar import noise, params
from regvar.batches import Batch
from regvar.errors import ModelError, require
from regvar.estimators import protocol
from regvar.log_joint import LogJoint
from regvar.network import Fingerprint, Network
from regvar.results import Moments, Packed, Solution

_LAYERS = (nn.Linear, _ConvNd, nn.RNNBase, nn.RNNCellBase)
_BY_CHANNEL = (_ConvNd, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.FeatureAlphaDropout)


def mc_dropout(
    joint: LogJoint, rate: float = 0.1, passes: int = 10, seed: int = 0
) -> MonteCarloDropout:
    """Mean and variance of the outputs over random sub-networks.

    Args:
        joint: network, data, likelihood and prior, at the MAP.
        rate: the probability that a feature is dropped; a dropout layer's own is ignored.
        passes: K, the number of sub-networks.
        seed: same seed, same sub-networks.

    >>> import torch, regvar
    >>> from regvar import baselines
    >>> x = torch.linspace(-1, 1, 8)[:, None]
    >>> model = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    >>> joint = regvar.LogJoint(model, [(x, x)], likelihood=regvar.Gaussian(sigma=1.0),
    ...                         prior=regvar.GaussianPrior(precision=1.0))
    >>> uq = baselines.mc_dropout(joint, rate=0.2)
    >>> uq.places
    ('2',)
    >>> bool((uq.moments(x).variance > 0).all())
    True
    """
    protocol.check_joint(joint)
    require(0.0 < rate < 1.0, "rate", "between 0 and 1", rate)
    require(passes >= 2, "passes", "at least 2", passes, "One pass has no variance.")
    joint.check()
    places = _places(joint)
    return MonteCarloDropout(
        joint.network, rate, passes, seed, places, None, joint.network.fingerprint(), joint
    )


@dataclass(frozen=True)
class MonteCarloDropout:
    """K sub-networks of the fitted one, made anew at each query."""

    network: Network = field(repr=False)
    rate: float
    passes: int  # K
    seed: int
    places: tuple[
        str, ...
    ]  # names of the modules whose input (or, of dropout layers, output) drops
    solution: Solution | None
    fitted: Fingerprint = field(repr=False)
    joint: LogJoint | None = field(default=None, repr=False)

    def moments(self, x: Batch) -> Moments:
        """Mean and population variance over the passes, streamed: [batch, outputs...]."""
        mean = self._outputs(x, 0)
        total = torch.zeros_like(mean)
        for index in range(1, self.passes):
            outputs = self._outputs(x, index)
            change = outputs - mean
            mean = mean + change / (index + 1)
            total = total + change * (outputs - mean)
        return Moments(mean, total / self.passes)

    def draws(self, x: Batch) -> Tensor:
        """The outputs of each sub-network: [K, batch, outputs...]."""
        return torch.stack([self._outputs(x, index) for index in range(self.passes)])

    def _outputs(self, x: Batch, index: int) -> Tensor:
        """The outputs of one pass's sub-network."""
        self.network.require_unchanged(self.fitted)
        with torch.no_grad(), self.network.guard(), self._dropping(index):
            outputs = self.network.outputs(x)
        return outputs.to(params.work_dtype(outputs.dtype))

    @contextmanager
    def _dropping(self, index: int) -> Generator[None]:
        """One pass's masks inside the block; the hooks are gone afterwards, whatever happens."""
        modules = dict(self.network.model.named_modules())
        with ExitStack() as stack:
            for place, name in enumerate(self.places):
                mask = _Mask((self.seed, index, place), self.rate, _dimension(modules[name]))
                if isinstance(modules[name], _DropoutNd):
                    handle = modules[name].register_forward_hook(_after(mask))
                else:
                    hook = _before(mask)
                    handle = modules[name].register_forward_pre_hook(hook, with_kwargs=True)
                stack.callback(handle.remove)
            yield

    def pack(self) -> Packed:
        """Its numbers and places; the masks follow from the seed."""
        return Packed(
            {
                "rate": self.rate,
                "passes": self.passes,
                "seed": self.seed,
                "places": list(self.places),
            }
        )

    @classmethod
    def unpack(
        cls,
        packed: Packed,
        network: Network,
        fitted: Fingerprint,
        solution: Solution | None,
        joint: LogJoint | None,
    ) -> MonteCarloDropout:
        """What `pack` gave, for the same network."""
        s = packed.settings
        places: Sequence[str] = s["places"]
        numbers = float(s["rate"]), int(s["passes"]), int(s["seed"])
        return cls(network, *numbers, tuple(places), solution, fitted, joint)


def _dimension(module: nn.Module) -> int:
    return 1 if isinstance(module, _BY_CHANNEL) else -1


@dataclass(frozen=True)
class _Mask:
    """z/(1 − rate) for the features of one place in one pass, z ~ Bernoulli(1 − rate)."""

    key: tuple[int, int, int]  # seed, pass, place
    rate: float
    dimension: int

    def __call__(self, values: Tensor) -> Tensor:
        size = values.shape[self.dimension]
        generator = noise.generator(self.key, -1)
        kept = torch.rand(size, generator=generator, dtype=torch.float64) >= self.rate
        shape = [1] * values.dim()
        shape[self.dimension] = size
        return values * (kept / (1.0 - self.rate)).to(values).reshape(shape)


def _after(mask: _Mask) -> Callable[[nn.Module, Any, Tensor], Tensor]:
    def hook(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        return mask(output)

    return hook


def _before(
    mask: _Mask,
) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], tuple[Any, dict[str, Any]]]:
    def dropped(value: Any) -> Any:
        if isinstance(value, PackedSequence):
            order = value.batch_sizes, value.sorted_indices, value.unsorted_indices
            return PackedSequence(mask(value.data), *order)
        return mask(value)

    def hook(
        module: nn.Module, inputs: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        if inputs:
            return (dropped(inputs[0]), *inputs[1:]), keywords
        return inputs, {**keywords, "input": dropped(keywords["input"])}

    return hook


def _places(joint: LogJoint) -> tuple[str, ...]:
    """The modules that drop, in the order in which the first batch calls them."""
    names: dict[nn.Module, str] = {m: k for k, m in joint.model.named_modules()}
    called: dict[nn.Module, None] = {}

    def note(module: nn.Module, inputs: Any) -> None:
        called.setdefault(module)

    with torch.no_grad(), joint.network.guard(), ExitStack() as stack:
        for module in names:
            if isinstance(module, (*_LAYERS, _DropoutNd)):
                stack.callback(module.register_forward_pre_hook(note).remove)
        joint.network.outputs(next(iter(joint.batches())))
    dropouts = tuple(names[m] for m in called if isinstance(m, _DropoutNd))
    places = dropouts or tuple(names[m] for m in called)[1:]
    if not places:
        raise ModelError(
            "model must have a dropout layer, or a linear, convolution or recurrent layer after "
            "the first, for mc_dropout to drop its input, but it has none. Insert nn.Dropout."
        )
    return places
