"""What needs no posterior: one network's outputs with the same variance everywhere, and drift.

| baseline | mean | σ²_f(x) |
|---|---|---|
| `map_only` | f_θ̂(x) | 0 |
| `pretrained` | f(x) at the weights before fine-tuning | 0 |
| `temperature` | f_θ̂(x) | 1, for calibration to scale: what every method must beat |
| `drift` | f_θ̂(x) | |f_θ̃(x) − f_θ̂(x)|, θ̃ = θ̂ after one more refit at λ = 0 |

`drift` is the control of the paper's Algorithm 1: what its difference of two networks (Eq. 11)
owes to training going on and not to the regularizer.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from regvar import params
from regvar.batches import Batch
from regvar.errors import ArgumentError
from regvar.estimators import Amortized, protocol
from regvar.log_joint import LogJoint
from regvar.network import Fingerprint, Network
from regvar.results import Moments, Packed, Solution
from regvar.solvers import Finetune


def map_only(joint: LogJoint) -> PointEstimate:
    """The fitted network alone: mean f_θ̂(x), variance 0.

    Args:
        joint: network, data, likelihood and prior, at the MAP.

    >>> import torch, regvar
    >>> from regvar import baselines
    >>> x = torch.linspace(-1, 1, 8)[:, None]
    >>> joint = regvar.LogJoint(torch.nn.Linear(1, 1), [(x, x)],
    ...                         likelihood=regvar.Gaussian(sigma=1.0),
    ...                         prior=regvar.GaussianPrior(precision=1.0))
    >>> baselines.map_only(joint).moments(torch.zeros(1, 1)).variance
    tensor([[0.]])
    """
    return _point_estimate(joint, 0.0)


def temperature(joint: LogJoint) -> PointEstimate:
    """Mean f_θ̂(x) and variance 1 for every output: after calibration one constant variance.

    Args:
        joint: network, data, likelihood and prior, at the MAP.

    >>> import torch, regvar
    >>> from regvar import baselines
    >>> x = torch.linspace(-1, 1, 8)[:, None]
    >>> joint = regvar.LogJoint(torch.nn.Linear(1, 1), [(x, x)],
    ...                         likelihood=regvar.Gaussian(sigma=1.0),
    ...                         prior=regvar.GaussianPrior(precision=1.0))
    >>> baselines.temperature(joint).moments(torch.zeros(1, 1)).variance
    tensor([[1.]])
    """
    return _point_estimate(joint, 1.0)


def pretrained(
    joint: LogJoint, pretrained_model: nn.Module | Mapping[str, Tensor]
) -> PointEstimate:
    """The network before fine-tuning: mean f(x) at its old weights, variance 0.

    Args:
        joint: network, data, likelihood and prior, at the MAP.
        pretrained_model: the same network with its old weights, or their state dict. Only what
            differs is kept, buffers such as BatchNorm's statistics among it.

    >>> import copy, torch, regvar
    >>> from regvar import baselines
    >>> x = torch.linspace(-1, 1, 8)[:, None]
    >>> model = torch.nn.Linear(1, 1)
    >>> old = copy.deepcopy(model)
    >>> joint = regvar.LogJoint(model, [(x, x)], likelihood=regvar.Gaussian(sigma=1.0),
    ...                         prior=regvar.GaussianPrior(precision=1.0))
    >>> _ = regvar.fit_map(joint, epochs=10)
    >>> bool((baselines.pretrained(joint, old).moments(x).mean == old(x)).all())
    True
    """
    protocol.check_joint(joint)
    given = pretrained_model
    state = dict(given.state_dict() if isinstance(given, nn.Module) else given)
    here = _tensors(joint.model)
    wrong = [
        k
        for k, t in here.items()
        if (k in joint.parameters and k not in state) or (k in state and state[k].shape != t.shape)
    ]
    if wrong:
        raise ArgumentError(
            f"pretrained_model must have the parameters of joint's model, but {wrong[0]!r} is "
            "missing or has another shape. Pass a copy.deepcopy of the model from before training."
        )
    old = {k: state[k].detach().to(t).clone() for k, t in here.items() if k in state}
    return _point_estimate(
        joint, 0.0, {k: t for k, t in old.items() if not torch.equal(t, here[k])}
    )


def drift(joint: LogJoint, solver: Finetune | None = None) -> Amortized:
    """One more refit at λ = 0: mean f_θ̂(x), variance |f_θ̃(x) − f_θ̂(x)|.

    Args:
        joint: network, data, likelihood and prior, at the MAP.
        solver: `Finetune()` by default; its λ plays no part.

    >>> import torch, regvar
    >>> from regvar import baselines
    >>> x = torch.linspace(-1, 1, 8)[:, None]
    >>> model = torch.nn.Linear(1, 1)
    >>> joint = regvar.LogJoint(model, [(x, x)], likelihood=regvar.Gaussian(sigma=1.0),
    ...                         prior=regvar.GaussianPrior(precision=1.0))
    >>> exact = dict(epochs=20, lr=1.0, full_batch=True)
    >>> fit = regvar.fit_map(joint, torch.optim.LBFGS, **exact)
    >>> uq = baselines.drift(joint, regvar.Finetune(optimizer=torch.optim.LBFGS, **exact))
    >>> bool((uq.moments(x).variance < 1e-3).all())
    True
    """
    solver = solver or Finetune()
    protocol.check(joint, solver)
    if not isinstance(solver, Finetune):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentError(
            f"solver of drift must be Finetune, but is {type(solver).__name__}. At λ = 0 there is "
            "nothing for a tangent solver to solve."
        )
    solution = solver.drift(joint)
    return Amortized(joint.network, solution.value[0], solution, joint.network.fingerprint(), joint)


@dataclass(frozen=True)
class PointEstimate:
    """The outputs of one network, all of them with the same variance."""

    network: Network = field(repr=False)
    constant: float  # σ²_f(x)
    weights: Mapping[str, Tensor] = field(repr=False)  # what differs from θ̂, by name
    solution: Solution | None
    fitted: Fingerprint = field(repr=False)
    joint: LogJoint | None = field(default=None, repr=False)

    def moments(self, x: Batch) -> Moments:
        """f(x) and the constant: [batch, outputs...]."""
        self.network.require_unchanged(self.fitted)
        with torch.no_grad(), self.network.guard(), _swapped(self.network.model, self.weights):
            mean = self.network.outputs(x).clone()
        dtype = params.work_dtype(mean.dtype)
        return Moments(mean, torch.full_like(mean, self.constant, dtype=dtype))

    def pack(self) -> Packed:
        """Its constant and the weights that differ."""
        return Packed({"constant": self.constant}, self.weights)

    @classmethod
    def unpack(
        cls,
        packed: Packed,
        network: Network,
        fitted: Fingerprint,
        solution: Solution | None,
        joint: LogJoint | None,
    ) -> PointEstimate:
        """What `pack` gave, for the same network."""
        constant = float(packed.settings["constant"])
        return cls(network, constant, packed.tensors, solution, fitted, joint)


def _point_estimate(
    joint: LogJoint, constant: float, weights: Mapping[str, Tensor] | None = None
) -> PointEstimate:
    protocol.check_joint(joint)
    joint.check()
    return PointEstimate(
        joint.network, constant, weights or {}, None, joint.network.fingerprint(), joint
    )


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """All parameters and buffers by name, shared ones once."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


@contextmanager
def _swapped(model: nn.Module, weights: Mapping[str, Tensor]) -> Generator[None]:
    """Other weights inside the block; the old bits again afterwards, whatever happens."""
    here = {k: t for k, t in _tensors(model).items() if k in weights}
    before = {k: t.detach().clone() for k, t in here.items()}
    try:
        params.write_(here, weights)
        yield
    finally:
        params.write_(here, before)
