"""One task and seed of the synthetic study: its data, and the network at its MAP.

The observation variance is chosen as the paper does it: one network for each σ² of the grid,
trained by Adam, and the validation NLL of N(f(x), σ²) decides. The chosen network goes on to a
stationary point (`polish`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from regvar.data import synthetic
from regvar.errors import DataError
from regvar.experiments.synthetic.config import Config
from regvar.experiments.synthetic.polish import polish
from regvar.likelihoods import Gaussian
from regvar.log_joint import LogJoint
from regvar.map_fit import MapFit, fit_map, stationarity
from regvar.metrics import NLL
from regvar.priors import GaussianPrior

Data = tuple[Tensor, Tensor]  # x and y, both [n, 1] in double precision


@dataclass(frozen=True)
class Problem:
    """What every method of one task and seed starts from."""

    config: Config
    task: synthetic.Task
    seed: int
    joint: LogJoint = field(repr=False)  # at θ̂, with the chosen σ²
    sigma2: float  # σ², chosen
    sweep: Mapping[str, list[float]]  # {"sigma2", "nll"}
    fit: MapFit
    data: Mapping[str, Data] = field(repr=False)  # by split

    @property
    def evaluation(self) -> Tensor:
        """The inputs that methods are judged on, in and out of distribution: [n, 1]."""
        return torch.cat([self.data[split][0] for split in ("id", "ood")])

    def score(self, split: str, mean: Tensor, variance: Tensor) -> float:
        """NLL of N(mean, variance + σ²); infinite where that is no distribution."""
        if not bool(torch.isfinite(mean).all() and torch.isfinite(variance).all()):
            return math.inf
        nll = NLL()
        nll.update_gaussian(mean, variance + self.sigma2, self.data[split][1])
        return nll.compute().value


def prepare(config: Config, name: str, seed: int) -> Problem:
    """Draw the data, choose σ², and fit the network to its MAP."""
    task = synthetic.task(name)
    data = {split: task.draw(seed, split) for split in synthetic.SPLITS}
    best: tuple[float, float, LogJoint] | None = None
    scores: list[float] = []
    for sigma2 in config.sigma2:
        joint = log_joint(config, data["train"], sigma2, seed)
        fit_map(joint, torch.optim.Adam, config.adam_epochs, lr=config.adam_lr)
        scores.append(_validation_nll(joint, sigma2, data["validation"]))
        if math.isfinite(scores[-1]) and (best is None or scores[-1] < best[0]):
            best = (scores[-1], sigma2, joint)
    if best is None:
        raise DataError(
            f"validation NLL of {name} must be finite for some sigma2 of {config.sigma2}, but is "
            "not. Lower adam_lr."
        )
    _, sigma2, joint = best
    steps = polish(joint, config.polish_steps)
    fit = stationarity(joint, steps, steps < config.polish_steps)
    sweep = {"sigma2": list(config.sigma2), "nll": scores}
    return Problem(config, task, seed, joint, sigma2, sweep, fit, data)


def log_joint(config: Config, train: Data, sigma2: float, seed: int) -> LogJoint:
    """The untrained network; the same initial weights for every σ²."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        units = config.hidden
        net = nn.Sequential(nn.Linear(1, units), nn.Tanh(), nn.Linear(units, 1)).double()
    return LogJoint(
        net.eval(),
        [train],
        likelihood=Gaussian(sigma=math.sqrt(sigma2)),
        prior=GaussianPrior(precision=1 / config.prior_variance),
    )


def _validation_nll(joint: LogJoint, sigma2: float, data: Data) -> float:
    with torch.no_grad():
        mean = joint.model(data[0])
    nll = NLL()
    nll.update_gaussian(mean, torch.full_like(mean, sigma2), data[1])
    return nll.compute().value
