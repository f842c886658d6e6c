"""Which refits follow the MAP: what is pulled, how often, and which estimator reads them.

| object | t(θ) | refits | estimator |
|---|---|---|---|
| `AmortizedRefit()` | (1/m) Σ_i |f(x_i)|₁ over the training inputs (Eq. 16) | 1 | `Amortized` |
| `AmortizedRefit(probes=…)` | the same over evaluation inputs (Eq. 15) | 1 | `Amortized` |
| `SampledRefit` | random linear, K draws | K and a control at λ = 0 | `Sampled` |
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from regvar.batches import Batch
from regvar.errors import require
from regvar.estimators.amortized import Amortized
from regvar.estimators.sampled import Sampled
from regvar.huggingface.objective import InSample, Noise, Probes, Pull
from regvar.log_joint import LogJoint
from regvar.regularizers import RandomLinear
from regvar.results import Solution


@dataclass(frozen=True)
class AmortizedRefit:
    """Algorithm 1: one refit for all inputs.

    Args:
        lam: λ.
        probes: a data set of evaluation inputs x̂, in the form of the training set; `None`:
            in-sample, Eq. 16.
        control: read against a second refit at λ = 0, so that what training goes on doing
            cancels; the paper reads against the MAP itself.

    >>> AmortizedRefit(lam=0.5).control
    False
    """

    lam: float = 1.0
    probes: Any = None
    control: bool = False

    def __post_init__(self) -> None:
        """Refuse λ = 0."""
        _check_lam(self.lam)

    def pulls(self, joint: LogJoint, probes: list[Batch] | Any) -> Iterator[Pull]:
        """One regularizer, made while the network is at θ̂."""
        yield InSample(joint) if self.probes is None else Probes(joint, probes)

    def estimator(self, joint: LogJoint, solution: Solution) -> Amortized:
        """The absolute response to one displacement."""
        fitted = joint.network.fingerprint()
        return Amortized(joint.network, solution.value[0], solution, fitted, joint)


@dataclass(frozen=True)
class SampledRefit:
    """K refits under random linear pulls, against one shared control at λ = 0.

    Args:
        samples: K; the variance has a relative standard error of √(2/K).
        lam: λ.
        seed: same seed, same draws.
        label_noise: perturb labels drawn from the network's own predictions, not the outputs.

    >>> SampledRefit(samples=6).control
    True
    """

    samples: int = 4
    lam: float = 1.0
    seed: int = 0
    label_noise: bool = False
    control: bool = True

    def __post_init__(self) -> None:
        """Refuse λ = 0 and K = 0."""
        _check_lam(self.lam)
        require(self.samples >= 1, "samples", "at least 1", self.samples)

    @property
    def probes(self) -> None:
        """The training data are what is pulled at."""

    def pulls(self, joint: LogJoint, probes: Any) -> Iterator[Pull]:
        """One regularizer a draw, each made while the network is at θ̂."""
        for k in range(self.samples):
            yield Noise(joint, RandomLinear(self.seed, k, self.label_noise))

    def estimator(self, joint: LogJoint, solution: Solution) -> Sampled:
        """The mean of squared responses to K displacements."""
        fitted = joint.network.fingerprint()
        return Sampled(joint.network, solution.value, solution, fitted, joint)


Refit = AmortizedRefit | SampledRefit


def _check_lam(lam: float) -> None:
    ok = math.isfinite(lam) and lam != 0
    require(ok, "lam", "finite and not 0", lam, "For λ → 0 solve in the tangent: regvar.sampled.")
