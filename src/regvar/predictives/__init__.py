"""From moments of the outputs to a distribution of the next observation, at a variance scale."""

from regvar.predictives.gaussian import GaussianPredictive
from regvar.predictives.monte_carlo import MonteCarlo
from regvar.predictives.prediction import Classification, Prediction, Regression
from regvar.predictives.probit import Probit
from regvar.predictives.protocol import Predictive, default_predictive, scaled

__all__ = [
    "Classification",
    "GaussianPredictive",
    "MonteCarlo",
    "Prediction",
    "Predictive",
    "Probit",
    "Regression",
    "default_predictive",
    "scaled",
]
