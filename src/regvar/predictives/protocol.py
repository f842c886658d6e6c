"""What calibration and metrics ask of a predictive, and which one suits a likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from regvar.errors import ArgumentError, require
from regvar.likelihoods import Bernoulli, Categorical, Gaussian
from regvar.predictives.gaussian import GaussianPredictive
from regvar.predictives.prediction import Prediction
from regvar.predictives.probit import Probit
from regvar.results import Moments


@runtime_checkable
class Predictive(Protocol):
    """The distribution of an observation whose outputs are f ~ N(mean, scale · variance)."""

    def log_prob(self, moments: Moments, targets: Any, scales: Sequence[float] = (1.0,)) -> Tensor:
        """Log p(y_i | x_i) at each variance scale: [scales, data], ignored labels left out.

        A datum is what the likelihood counts: a label for `Categorical`, else an example.
        """
        ...

    def predict(self, moments: Moments) -> Prediction:
        """The prediction at these moments; `scaled` applies a variance scale to them."""
        ...


def scaled(moments: Moments, scale: float) -> Moments:
    """The same mean with `scale` times the variance.

    >>> import torch, regvar
    >>> from regvar.predictives import scaled
    >>> scaled(regvar.Moments(torch.zeros(1), torch.ones(1)), 3.0).variance
    tensor([3.])
    """
    require(scale >= 0, "scale", "0 or larger", scale)
    return Moments(moments.mean, scale * moments.variance)


def default_predictive(likelihood: object) -> Predictive:
    """`GaussianPredictive` for `Gaussian`, `Probit` for `Categorical` and `Bernoulli`.

    >>> import regvar
    >>> from regvar.predictives import default_predictive
    >>> default_predictive(regvar.Gaussian(sigma=0.5))
    GaussianPredictive(likelihood=Gaussian(sigma=0.5))
    """
    if isinstance(likelihood, Gaussian):
        return GaussianPredictive(likelihood)
    if isinstance(likelihood, Categorical | Bernoulli):
        return Probit(likelihood)
    raise ArgumentError(
        "likelihood must be Gaussian, Categorical or Bernoulli to choose a predictive by itself, "
        f"but it is {likelihood!r}. Pass predictive=, an object with log_prob and predict."
    )
