"""regvar: how sure a neural network is, by variation due to regularization.

Fit a network; fit it again with an infinitesimal extra regularizer; the rescaled difference of
the two networks' outputs is the predictive variance of the linearized Laplace approximation over
all layers. `LogJoint` says what is being maximized, an estimator says which regularizer is
added, a solver says how the second fit is obtained.
"""

from regvar.audit import audit
from regvar.calibration import calibrate
from regvar.curvature import GGN, Hessian
from regvar.errors import CalibrationWarning, RegvarError, SolverWarning
from regvar.estimators import (
    amortized,
    data_augmentation,
    from_refit,
    parameter,
    penalty,
    pointwise,
    sampled,
)
from regvar.likelihoods import Bernoulli, Categorical, Custom, Gaussian
from regvar.linearize import CentralDifferences, ForwardMode
from regvar.log_joint import LogJoint
from regvar.map_fit import fit_map
from regvar.priors import GaussianPrior, LaplacePrior
from regvar.results import Moments, Status
from regvar.solvers import (
    ConjugateGradient,
    Direct,
    Finetune,
    Jacobi,
    Minres,
    Nystrom,
    Stochastic,
)
from regvar.storage import load, save
from regvar.tuning import tune
from regvar.version import __version__

__all__ = [
    "GGN",
    "Bernoulli",
    "CalibrationWarning",
    "Categorical",
    "CentralDifferences",
    "ConjugateGradient",
    "Custom",
    "Direct",
    "Finetune",
    "ForwardMode",
    "Gaussian",
    "GaussianPrior",
    "Hessian",
    "Jacobi",
    "LaplacePrior",
    "LogJoint",
    "Minres",
    "Moments",
    "Nystrom",
    "RegvarError",
    "SolverWarning",
    "Status",
    "Stochastic",
    "__version__",
    "amortized",
    "audit",
    "calibrate",
    "data_augmentation",
    "fit_map",
    "from_refit",
    "load",
    "parameter",
    "penalty",
    "pointwise",
    "sampled",
    "save",
    "tune",
]
