"""A small cell of the synthetic study in dense algebra, and its scores by SciPy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy import stats
from scipy.integrate import quad
from torch import Tensor

from regvar.data import synthetic as data
from regvar.experiments import synthetic

TASK, SEED = "quadratic-inbetween", 2
CONFIG = synthetic.Config(
    hidden=6,
    sigma2=(0.005, 0.02, 0.5),
    adam_epochs=800,
    lam=(1e-4, 3.0),
    parameter_lam=1e-3,
    samples=64,
    audit_points=1000,
    band_points=17,
    shown_parameters=9,
)
CURVED = ("exact_hessian", "ggn", "eigenvectors")


@dataclass(frozen=True)
class Oracle:
    """The study's network as functions of one flat vector θ."""

    theta: Tensor
    sigma2: float

    @staticmethod
    def output(theta: Tensor, x: Tensor) -> Tensor:
        h = CONFIG.hidden
        inner, bias, outer, last = theta.split([h, h, h, 1])
        return torch.tanh(x * inner + bias) @ outer + last

    @cached_property
    def train(self) -> tuple[Tensor, Tensor]:
        return data.task(TASK).draw(SEED)

    def log_joint(self, theta: Tensor) -> Tensor:
        x, y = self.train
        errors = self.output(theta, x) - y[:, 0]
        return -0.5 * (errors**2).sum() / self.sigma2 - 0.5 * (theta**2).sum() / 3.0

    @cached_property
    def hessian(self) -> Tensor:
        assert len(self.train[0]) == 32  # drawn here: nothing random under vmap
        return -torch.func.hessian(self.log_joint)(self.theta)

    @cached_property
    def ggn(self) -> Tensor:
        rows = self.jacobian(self.train[0])
        return rows.T @ rows / self.sigma2 + torch.eye(len(self.theta)) / 3.0

    def jacobian(self, x: Tensor) -> Tensor:
        return torch.func.jacrev(lambda theta: self.output(theta, x))(self.theta)

    @cached_property
    def eigen(self) -> Tensor:
        values, vectors = torch.linalg.eigh(self.ggn)
        k = round(math.log(len(self.theta)))
        top = vectors[:, -k:]
        return top / values[-k:] @ top.T

    def inverse(self, method: str) -> Tensor:
        if method == "eigenvectors":
            return self.eigen
        return torch.linalg.inv(self.ggn if method == "ggn" else self.hessian)

    def variance(self, method: str, x: Tensor) -> Tensor:
        rows = self.jacobian(x)
        if method in ("map_only", "temperature"):
            return torch.full((len(x),), float(method == "temperature"), dtype=torch.float64)
        if method.startswith("amortized"):
            probes = evaluation() if method == "amortized_eval" else self.train[0]
            signs = self.output(self.theta, probes).sign()
            pull = self.jacobian(probes).T @ signs / len(probes)
            return (rows @ torch.linalg.solve(self.hessian, pull)).abs()
        return ((rows @ self.inverse(method)) * rows).sum(1)


def evaluation() -> Tensor:
    return torch.cat([data.task(TASK).draw(SEED, split)[0] for split in ("id", "ood")])


def scores(mean: np.ndarray, variance: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    sd = np.sqrt(variance)
    low, high = stats.norm.interval(0.95, mean, sd)

    def crps(m: float, s: float, target: float) -> float:
        def below(u: float) -> float:
            return stats.norm.cdf(u, m, s) ** 2

        def above(u: float) -> float:
            return stats.norm.sf(u, m, s) ** 2

        reach = 10 * s + abs(target - m)
        left = quad(below, m - reach, target, points=[m], epsabs=1e-12, limit=200)[0]
        return left + quad(above, target, m + reach, points=[m], epsabs=1e-12, limit=200)[0]

    return {
        "PICP": ((low <= y) & (y <= high)).astype(float),
        "NLL": -stats.norm.logpdf(y, mean, sd),
        "CRPS": np.array([crps(*row) for row in zip(mean, sd, y, strict=True)]),
    }
