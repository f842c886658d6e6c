"""Metrics that stream and merge: the same result however the data are split, up to rounding.

Each accumulator has `update(...)`, which adds a batch, `merge(other)`, which gives a new one over
both's data, and `compute()`, an `Estimate` with its standard error and Wald interval. Beneath each
is a pure function. No metric keeps logits or probabilities.
"""

from regvar.metrics.auroc import AUROC, auroc
from regvar.metrics.bootstrap import Bootstrapped, bootstrap
from regvar.metrics.calibration_error import ECE, AdaptiveECE, Reliability, calibration_error
from regvar.metrics.densities import (
    gaussian_coverage,
    gaussian_crps,
    gaussian_log_density,
    sample_crps,
)
from regvar.metrics.estimate import Estimate
from regvar.metrics.labels import LabelScores, label_log_probs, label_scores
from regvar.metrics.means import CRPS, NLL, PICP, Accuracy, Brier
from regvar.metrics.ranks import rank_correlation
from regvar.metrics.risk_coverage import RiskCoverage, RiskCurve, risk_coverage

__all__ = [
    "AUROC",
    "CRPS",
    "ECE",
    "NLL",
    "PICP",
    "Accuracy",
    "AdaptiveECE",
    "Bootstrapped",
    "Brier",
    "Estimate",
    "LabelScores",
    "Reliability",
    "RiskCoverage",
    "RiskCurve",
    "auroc",
    "bootstrap",
    "calibration_error",
    "gaussian_coverage",
    "gaussian_crps",
    "gaussian_log_density",
    "label_log_probs",
    "label_scores",
    "rank_correlation",
    "risk_coverage",
    "sample_crps",
]
