"""Ways to obtain δ = P⁻¹ ∇t(θ̂): by refitting at finite λ as the paper does, or in the tangent."""

from regvar.solvers.conjugate_gradient import ConjugateGradient
from regvar.solvers.direct import Direct
from regvar.solvers.finetune import Finetune
from regvar.solvers.minres import Minres
from regvar.solvers.preconditioners import Jacobi, Nystrom
from regvar.solvers.protocol import Solver
from regvar.solvers.stochastic import Stochastic

__all__ = [
    "ConjugateGradient",
    "Direct",
    "Finetune",
    "Jacobi",
    "Minres",
    "Nystrom",
    "Solver",
    "Stochastic",
]
