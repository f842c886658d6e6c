"""Fit the MAP θ̂ = argmax L(θ) (Eq. 1, 2), and say how stationary it is.

Every estimate of the library leans on ∇L(θ̂) = 0, where the data's gradient and the prior's cancel.
`stationarity` is what is left over: ‖∇L‖ relative to the larger of the two.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.optim import Optimizer

from regvar import params, training
from regvar.errors import SolverWarning, require
from regvar.log_joint import LogJoint
from regvar.randomness import undisturbed
from regvar.training import Plan, Schedule, Walk


@dataclass(frozen=True)
class MapFit:
    """A fitted MAP; `print(fit)` says in words how far to trust it."""

    value: float  # L(θ̂)
    gradient_norm: float  # ‖∇L(θ̂)‖
    data_gradient_norm: float  # ‖∇ Σ log p(y_i | f(x_i))‖
    prior_gradient_norm: float  # ‖∇ log p(θ̂)‖
    epochs: int
    converged: bool

    @property
    def stationarity(self) -> float:
        """‖∇L‖ / max(‖data part‖, ‖prior part‖): 0 at a MAP, about 1 far from one."""
        scale = max(self.data_gradient_norm, self.prior_gradient_norm)
        return self.gradient_norm / scale if scale else 0.0

    def __str__(self) -> str:
        """One sentence a person can act on."""
        ratio = self.stationarity
        if ratio < 1e-2:
            verdict = "stationary: tangent solves and refits at finite λ both apply"
        elif ratio < 0.3:
            verdict = "nearly stationary: pair refits (paired=True) to cancel the drift"
        else:
            verdict = (
                "not stationary: training would go on. Train longer, or use tangent solves, or "
                "refits with control=True"
            )
        numbers = f"L = {self.value:.6g}, ‖∇L‖ ratio {ratio:.2g}"
        return f"MAP after {self.epochs} epochs: {numbers}: {verdict}."


def fit_map(
    joint: LogJoint,
    optimizer: Optimizer | Callable[..., Optimizer] | None = None,
    epochs: int = 100,
    *,
    lr: float | None = None,
    schedule: Schedule | None = None,
    full_batch: bool = False,
    tolerance: float | None = None,
    seed: int = 0,
) -> MapFit:
    """Train the network to the MAP, θ̂ = argmax Σ log p(y_i | f_θ(x_i)) + log p(θ), in place.

    Training runs in train mode; the network is handed back in eval mode, as estimators want it.

    Args:
        joint: the log joint to maximize.
        optimizer: an optimizer of the network's parameters, or a factory such as
            `torch.optim.Adam`; Adam by default.
        epochs: passes over the data.
        lr: the factory's learning rate; `None` is its own default. Steps are on −L/n.
        schedule: `schedule(optimizer, total_steps)` returns a learning rate scheduler.
        full_batch: one step per pass on the whole sum, as `torch.optim.LBFGS` wants.
        tolerance: stop when an epoch moves θ by less than this fraction of the way come.
        seed: fixes the order of a shuffling loader, and dropout; the global random numbers go on
            as if nothing had happened.

    >>> import torch, regvar
    >>> x = torch.linspace(-1, 1, 8)[:, None]
    >>> joint = regvar.LogJoint(torch.nn.Linear(1, 1), [(x, 2 * x)],
    ...                         likelihood=regvar.Gaussian(sigma=0.1),
    ...                         prior=regvar.GaussianPrior(precision=1.0))
    >>> fit = regvar.fit_map(joint, torch.optim.LBFGS, epochs=20, lr=1.0, full_batch=True)
    >>> fit.stationarity < 1e-2
    True
    """
    require(epochs >= 1, "epochs", "at least 1", epochs)
    if isinstance(optimizer, Optimizer):
        require(lr is None, "lr", "None with a built optimizer", lr)
        built = optimizer
    else:
        built = training.build(optimizer or torch.optim.Adam, [*joint.parameters.values()], lr)
    joint.model.eval()
    joint.check()
    walk = _climbed(joint, built, Plan(epochs, schedule, full_batch, tolerance, seed))
    joint.processes.from_first_(joint.model.buffers())  # running means, each of its own rows
    built.zero_grad(set_to_none=True)
    return stationarity(joint, walk.epochs, walk.converged)


def _climbed(joint: LogJoint, optimizer: Optimizer, plan: Plan) -> Walk:
    """Train under the plan's seed; say so if that ends below where it began."""
    before = joint.value()  # in eval mode, as afterwards: dropout and batch norm differ in training
    joint.model.train()
    try:
        with undisturbed():
            torch.manual_seed(plan.order)
            walk = training.maximize(joint, optimizer, plan, "MAP")
    finally:
        joint.model.eval()
    if not math.isfinite(walk.loss) or joint.value() < before:
        lag = any(name.endswith("running_mean") for name, _ in joint.model.named_buffers())
        warnings.warn(
            f"training ended below where it began (L was {before:.6g}): lower lr, or give LBFGS "
            'line_search_fn="strong_wolfe"'
            + (", or take more steps: running means come after the weights." if lag else "."),
            SolverWarning,
            stacklevel=3,
        )
    return walk


def stationarity(joint: LogJoint, epochs: int = 0, converged: bool = False) -> MapFit:
    """The same report for a network that the user brings already trained."""
    data, prior = joint.likelihood_gradient(), joint.prior_gradient()
    return MapFit(
        value=joint.value(),
        gradient_norm=params.norm(params.combine(1.0, data, 1.0, prior)),
        data_gradient_norm=params.norm(data),
        prior_gradient_norm=params.norm(prior),
        epochs=epochs,
        converged=converged,
    )
