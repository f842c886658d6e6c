"""The regularizers t(θ): one small class for each variant of the method.

| class | t(θ) | paper |
|---|---|---|
| `OutputAt` | f_c(x) | pointwise, Eq. 8 |
| `MeanAbsOutput` | (1/m) Σ_j |f(x̂_j)|₁ | amortized, Eq. 15; over the training inputs, Eq. 16 |
| `ShiftedTargets` | what shifting targets by λσ² sign(f)/n adds | data augmentation, App. B |
| `AbsParameters` | ‖θ‖₁ | parameter, Eq. 18 |
| `RandomLinear` | Σ_i (Λ_i^½ ε_i)ᵀ f(x_i) + (P₀^½ ξ)ᵀ θ | sampled |

A tangent solver asks for `gradient`, ∇t(θ̂). A refit asks for `stochastic`: a term t_b for each of
the N training batches with Σ_b t_b = t. Signs move with θ in a refit and are frozen at θ̂ in a
gradient; both have the same derivative at λ = 0.
"""

from regvar.regularizers.outputs import MeanAbsOutput, OutputAt
from regvar.regularizers.parameters import AbsParameters
from regvar.regularizers.protocol import Regularizer, Term
from regvar.regularizers.random_linear import RandomLinear
from regvar.regularizers.targets import ShiftedTargets, shifted_targets

__all__ = [
    "AbsParameters",
    "MeanAbsOutput",
    "OutputAt",
    "RandomLinear",
    "Regularizer",
    "ShiftedTargets",
    "Term",
    "shifted_targets",
]
