"""The precision P = −∇²L(θ̂) of Eq. 4, as an operator (never a matrix unless asked for)."""

from regvar.curvature.dense import dense
from regvar.curvature.ggn import GGN
from regvar.curvature.hessian import Hessian
from regvar.curvature.precision import Curvature, Precision

__all__ = ["GGN", "Curvature", "Hessian", "Precision", "dense"]
