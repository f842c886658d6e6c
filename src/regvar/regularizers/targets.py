"""Appendix B: the in-sample regularizer as a shift of the targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regvar.errors import ArgumentError
from regvar.likelihoods import Gaussian
from regvar.log_joint import LogJoint
from regvar.params import Params
from regvar.regularizers.protocol import Term, gradient_of_terms


@dataclass(frozen=True)
class ShiftedTargets:
    """What the data-augmented likelihood of App. B adds to log p(y | f), per unit λ.

    λ t_b = Σ_i [log N(y_i + λ σ² sign(f_i)/n | f_i, σ²) − log N(y_i | f_i, σ²)], whose gradient is
    that of the in-sample λ/n |f_i|₁: the network is refitted on shifted targets and nothing else.
    """

    fixed_order: bool = False

    def gradient(self, joint: LogJoint) -> Params:
        """The same as in-sample."""
        return gradient_of_terms(joint, self.stochastic(joint, 1.0))

    def start(self, joint: LogJoint) -> Params | None:
        """Zero."""
        return None

    def stochastic(self, joint: LogJoint, lam: float, whole: bool = False) -> Term:
        """The likelihood's difference on shifted targets, divided by λ."""
        likelihood = joint.likelihood
        if not isinstance(likelihood, Gaussian):
            raise ArgumentError(
                f"likelihood of data_augmentation must be Gaussian, but is {likelihood!r}. "
                "Use amortized, which is the same method for any likelihood."
            )

        def term(row: int, outputs: Tensor, targets: Any) -> Tensor:
            shifted = shifted_targets(outputs, targets, lam, joint.examples, likelihood)
            moved = likelihood.log_prob(outputs, shifted)
            return (moved - likelihood.log_prob(outputs, targets)) / lam

        return term


def shifted_targets(
    outputs: Tensor, targets: Tensor, lam: float, n: int, likelihood: Gaussian
) -> Tensor:
    """y + λσ² sign(f)/n: all that a training loop of one's own needs for App. B."""
    return targets + lam * likelihood.variance(outputs) * outputs.detach().sign() / n
