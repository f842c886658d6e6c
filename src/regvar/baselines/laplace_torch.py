"""Laplace approximations of the laplace-torch package, all-layer KFAC among them.

    σ²_f(x) = J(x) P⁻¹ J(x)ᵀ,   P = structure(Σ_i J_iᵀ Λ_i J_i) + P₀          (Eq. 5, 7)

The package is an option (`pip install laplace-torch`) and is imported when asked for. It works on a
copy of the network, because its fit switches modes, clears gradients and leaves an attribute.
It takes what it knows: one row of outputs per input, a Gaussian likelihood with a single σ or
labels, a Gaussian prior with a single precision, layers that its Jacobians and KFAC can trace.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn

from regvar import batches, params
from regvar.batches import Batch
from regvar.errors import ArgumentError, DataError, ModelError, RegvarError, require
from regvar.estimators import protocol
from regvar.likelihoods import Categorical, Gaussian
from regvar.linearize import differentiable_ops
from regvar.log_joint import LogJoint
from regvar.network import Fingerprint, Network
from regvar.priors import GaussianPrior
from regvar.results import Moments, Packed, Solution

SUBSETS, STRUCTURES = ("all", "last_layer"), ("diag", "kron", "full")
_TENSORS = ("mean", "H", "prior_mean", "prior_precision", "sigma_noise")


def laplace_torch(joint: LogJoint, subset: str = "all", structure: str = "kron") -> LaplaceTorch:
    """Linearized Laplace as laplace-torch computes it.

    Args:
        joint: network, data, likelihood and prior, at the MAP.
        subset: the package's `subset_of_weights`: "all" or "last_layer".
        structure: its `hessian_structure`: "diag", "kron" (KFAC) or "full".

    >>> import torch, regvar
    >>> from regvar import baselines
    >>> x = torch.linspace(-1, 1, 8)[:, None]
    >>> joint = regvar.LogJoint(torch.nn.Linear(1, 1), [(x, x)],
    ...                         likelihood=regvar.Gaussian(sigma=1.0),
    ...                         prior=regvar.GaussianPrior(precision=1.0))
    >>> baselines.laplace_torch(joint, subset="some")
    Traceback (most recent call last):
    regvar.errors.ArgumentError: subset must be one of ('all', 'last_layer'), but it is 'some'.
    """
    protocol.check_joint(joint)
    require(subset in SUBSETS, "subset", f"one of {SUBSETS}", subset)
    require(structure in STRUCTURES, "structure", f"one of {STRUCTURES}", structure)
    settings = {"subset": subset, "structure": structure, **_settings(joint)}
    package = _package()
    joint.check()
    fitted = joint.network.fingerprint()
    data = _Data(joint)
    try:
        approximation = _build(package, joint.network, settings, data.key)
        with joint.network.guard(), differentiable_ops(), torch.enable_grad():
            approximation.fit(data)
    except RegvarError:
        raise
    except (AttributeError, NotImplementedError, TypeError, ValueError) as error:
        raise ModelError(
            f"model must suit laplace-torch ({subset}, {structure}), but it says: {error!s:.200} "
            "Take another structure, or an estimator of ours."
        ) from error
    return LaplaceTorch(joint.network, approximation, settings, None, fitted, joint)


@dataclass(frozen=True)
class LaplaceTorch:
    """The package's approximation, read through its own Jacobians."""

    network: Network = field(repr=False)
    approximation: Any = field(repr=False)  # a laplace.ParametricLaplace
    settings: Mapping[str, Any]  # subset, structure, likelihood, σ and prior precision
    solution: Solution | None
    fitted: Fingerprint = field(repr=False)
    joint: LogJoint | None = field(default=None, repr=False)

    def moments(self, x: Batch) -> Moments:
        """f(x) and the diagonal of the package's functional variance: [batch, outputs]."""
        self.network.require_unchanged(self.fitted)
        with torch.no_grad(), self.network.guard():
            mean = self.network.outputs(x)
            rows = [self._variance(batches.rows(x, row, row + 1)) for row in range(mean.shape[0])]
        variance = torch.cat(rows).reshape(mean.shape)
        return Moments(mean, variance.to(params.work_dtype(mean.dtype)))

    def _variance(self, query: Batch) -> Tensor:
        inputs = batches.to_device(batches.split(query)[0], self.network.device)
        backend = self.approximation.backend
        last = self.settings["subset"] == "last_layer"
        with differentiable_ops(), torch.enable_grad():
            jacobian, _ = (backend.last_layer_jacobians if last else backend.jacobians)(inputs)
        variance: Tensor = self.approximation.functional_variance(jacobian)
        return variance.diagonal(dim1=-2, dim2=-1).detach()

    def pack(self) -> Packed:
        """The package's own state: the curvature, whole or in factors, and its numbers."""
        state = dict(self.approximation.state_dict())
        tensors: dict[str, Tensor] = {}
        for name in _TENSORS:
            value = state.pop(name)
            if isinstance(value, Tensor):
                tensors[name] = value
            else:
                blocks = cast("Sequence[Sequence[Tensor]]", value)
                tensors |= {
                    f"{name}.{i:04d}.{j}": t
                    for i, ts in enumerate(blocks)
                    for j, t in enumerate(ts)
                }
        state |= {"loss": float(state["loss"]), "data": None, "_last_layer_name": self._layer()}
        return Packed({**self.settings, "state": state}, tensors)

    def _layer(self) -> str | None:
        """The name that the package found for the last layer."""
        if self.settings["subset"] != "last_layer":
            return None
        extractor = self.approximation.model
        return next(k for k, m in extractor.model.named_modules() if m is extractor.last_layer)

    @classmethod
    def unpack(
        cls,
        packed: Packed,
        network: Network,
        fitted: Fingerprint,
        solution: Solution | None,
        joint: LogJoint | None,
    ) -> LaplaceTorch:
        """What `pack` gave, for the same network."""
        settings = dict(packed.settings)
        state = settings.pop("state")
        tensors = dict(packed.tensors)
        if "H" not in tensors:
            factors: dict[str, list[Tensor]] = {}
            for name in sorted(n for n in tensors if n.startswith("H.")):
                factors.setdefault(name.split(".")[1], []).append(tensors.pop(name))
            state["H"] = list(factors.values())
        approximation = _build(_package(), network, settings, None, state["_last_layer_name"])
        approximation.load_state_dict({**state, **tensors})
        return cls(network, approximation, settings, solution, fitted, joint)


def _package() -> Any:
    try:
        return importlib.import_module("laplace")
    except ModuleNotFoundError as error:
        raise ArgumentError(
            "baselines.laplace_torch must find the package laplace-torch, but there is no module "
            f"{error.name!r}. pip install laplace-torch, or take another baseline."
        ) from error


def _settings(joint: LogJoint) -> dict[str, Any]:
    """What the package must be told, as far as it can be told."""
    likelihood, prior = joint.likelihood, joint.prior
    number = isinstance(prior, GaussianPrior) and isinstance(prior.precision, int | float)
    require(number, "prior", "GaussianPrior(precision=number) for laplace-torch", prior)
    precision = float(cast("Any", prior).precision)
    require(not joint.network.custom, "forward", "None for laplace-torch", "a function")
    if isinstance(likelihood, Gaussian):
        sigma = torch.as_tensor(likelihood.sigma)
        require(sigma.numel() == 1, "sigma", "one number for laplace-torch", sigma.tolist())
        return {"likelihood": "regression", "sigma": float(sigma), "precision": precision}
    known = isinstance(likelihood, Categorical)
    require(known, "likelihood", "Gaussian or Categorical for laplace-torch", likelihood)
    return {"likelihood": "classification", "sigma": 1.0, "precision": precision}


def _build(
    package: Any,
    network: Network,
    settings: Mapping[str, Any],
    key: str | None,
    layer: str | None = None,
) -> Any:
    """The package's approximation of a copy of the network, not fitted yet."""
    last = settings["subset"] == "last_layer"
    return package.Laplace(
        _Outputs(copy.deepcopy(network.model)),
        settings["likelihood"],
        subset_of_weights=settings["subset"],
        hessian_structure=settings["structure"],
        sigma_noise=settings["sigma"],
        prior_precision=settings["precision"],
        **({"last_layer_name": layer} if last else {}),
        **({"dict_key_x": key} if key else {}),
    )


class _Outputs(nn.Module):
    """The network with a tensor for its output, whatever it returns itself."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Any) -> Tensor:
        return batches.default_forward(self.model, inputs)[0]


class _Data:
    """The joint's batches as the package reads them: `.dataset` is there for its length."""

    def __init__(self, joint: LogJoint) -> None:
        self.joint = joint
        self.dataset = range(joint.examples)
        inputs = batches.split(next(iter(joint.batches())))[0]
        self.key: str | None = None
        if isinstance(inputs, Mapping):
            self.key = next(iter(cast("Mapping[str, Any]", inputs)))

    def __iter__(self) -> Iterator[Any]:
        for batch in self.joint.batches():
            inputs, targets = batches.split(batch)
            outputs, _ = self.joint.network.outputs_and_targets(batch)
            if outputs.dim() != 2:
                raise DataError(
                    f"outputs must be [batch, outputs] for laplace-torch, but have shape "
                    f"{tuple(outputs.shape)}. Take an estimator of ours."
                )
            mask = self.joint.likelihood.mask(outputs, targets)
            if mask is not None:
                raise DataError(
                    "targets must all be scored for laplace-torch, but some are ignore_index. "
                    "Drop these rows."
                )
            if isinstance(inputs, Mapping):
                yield {**cast("Mapping[str, Any]", inputs), "labels": targets}
            else:
                yield inputs, targets
