"""What RegVar is compared with: each an estimator like ours, for any network that it can take."""

from regvar.baselines.dense import DenseLaplace
from regvar.baselines.eigenvectors import Eigenvectors, eigenvectors
from regvar.baselines.ensemble import LastLayerEnsemble, last_layer_ensemble
from regvar.baselines.exact_hessian import exact_hessian
from regvar.baselines.ggn import ggn
from regvar.baselines.gradient_norm import GradientNorm, gradient_norm
from regvar.baselines.laplace_diag import LastLayerDiag, laplace_last_layer_diag
from regvar.baselines.laplace_full import LastLayerFull, laplace_last_layer_full
from regvar.baselines.laplace_torch import LaplaceTorch, laplace_torch
from regvar.baselines.map import PointEstimate, drift, map_only, pretrained, temperature
from regvar.baselines.mc_dropout import MonteCarloDropout, mc_dropout

__all__ = [
    "DenseLaplace",
    "Eigenvectors",
    "GradientNorm",
    "LaplaceTorch",
    "LastLayerDiag",
    "LastLayerEnsemble",
    "LastLayerFull",
    "MonteCarloDropout",
    "PointEstimate",
    "drift",
    "eigenvectors",
    "exact_hessian",
    "ggn",
    "gradient_norm",
    "laplace_last_layer_diag",
    "laplace_last_layer_full",
    "laplace_torch",
    "last_layer_ensemble",
    "map_only",
    "mc_dropout",
    "pretrained",
    "temperature",
]
