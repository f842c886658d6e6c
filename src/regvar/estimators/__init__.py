"""One method, one file: what it computes, how it is fitted, its frozen result, its `moments`."""

from regvar.estimators.amortized import Amortized, amortized
from regvar.estimators.data_augmentation import data_augmentation
from regvar.estimators.parameter import Parameter, parameter
from regvar.estimators.pointwise import Pointwise, pointwise
from regvar.estimators.protocol import Estimator
from regvar.estimators.refit import from_refit, penalty
from regvar.estimators.sampled import Sampled, sampled

__all__ = [
    "Amortized",
    "Estimator",
    "Parameter",
    "Pointwise",
    "Sampled",
    "amortized",
    "data_augmentation",
    "from_refit",
    "parameter",
    "penalty",
    "pointwise",
    "sampled",
]
