"""The settings of the synthetic study: the paper's where it gives them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    """Everything that a number of the study depends on, apart from task, method and seed."""

    revision: int = 1  # raised when the code changes what a number means
    hidden: int = 50  # tanh units
    prior_variance: float = 3.0
    sigma2: tuple[float, ...] = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0)  # observation variances tried
    adam_lr: float = 0.005
    adam_epochs: int = 2000  # the paper does not say
    polish_steps: int = 400  # at the most, of Newton's method after Adam
    lam: tuple[float, ...] = (1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # tried, amortized
    parameter_lam: float = 0.1  # λ of Algorithm 3, which no validation set chooses
    refit_passes: int = 1000  # at the most, of L-BFGS in a refit
    samples: int = 32  # K
    level: float = 0.95  # of PICP
    audit_points: int = 40
    band_points: int = 121
    shown_parameters: int = 30
