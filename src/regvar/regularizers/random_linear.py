"""Random linear regularizers: what makes P⁻¹∇t a draw of the linearized posterior."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from regvar import noise, params
from regvar.distributed import full
from regvar.errors import ArgumentError
from regvar.likelihoods import LabelLikelihood
from regvar.log_joint import LogJoint
from regvar.params import Params
from regvar.regularizers.protocol import Term

_FROZEN_NUMBERS = 2**28  # 1 GiB in single precision


@dataclass(frozen=True)
class RandomLinear:
    """Σ_i (Λ_i^½ ε_i)ᵀ f(x_i) + (P₀^½ ξ)ᵀ θ with ε, ξ ~ N(0, I): P⁻¹∇t is a posterior draw.

    With `label_noise`, Λ^½ ε is ∇_f log p(ỹ | f) of a label ỹ drawn from the network's own
    prediction: the same covariance, and a refit is a refit on perturbed labels.
    """

    seed: int
    index: int
    label_noise: bool = False
    fixed_order: bool = True

    def gradient(self, joint: LogJoint) -> Params:
        """Σ_i J(x_i)ᵀ Λ_i^½ ε_i + P₀^½ ξ."""
        total = params.zeros(joint.parameters)
        with joint.network.guard(), torch.enable_grad(), joint.summed(total):
            for row, batch in chain.from_iterable(joint.parts()):
                outputs, targets = joint.network.outputs_and_targets(batch)
                _, targets = joint.score(outputs, targets)
                u = self.noise(joint, row, outputs.detach(), targets)
                params.add_(total, joint.network.pull_back(outputs, u.to(outputs.dtype)))
        return params.add_(total, joint.prior.noise(self._xi(joint)))

    def start(self, joint: LogJoint) -> Params | None:
        """P₀^−½ ξ: a draw from the prior, right wherever the data say nothing."""
        return joint.prior.draw(self._xi(joint))

    def stochastic(self, joint: LogJoint, lam: float, whole: bool = False) -> Term:
        """The batch's own noise times its outputs, and 1/N of the prior's."""
        weights = joint.prior.noise(self._xi(joint))
        frozen, once = self._frozen(joint), joint.processes.once

        def pulls(device: torch.device) -> Tensor:
            each = [full((weights[k] * p).sum()).to(device) for k, p in joint.parameters.items()]
            return torch.stack(each).sum()

        def term(row: int, outputs: Tensor, targets: Any) -> Tensor:
            held = frozen.get(row)
            u = self.noise(joint, row, outputs.detach(), targets) if held is None else held
            pull = once(lambda: pulls(outputs.device) / joint.num_batches)
            return (u.to(outputs) * outputs).sum() + pull

        return term

    def _frozen(self, joint: LogJoint) -> dict[int, Tensor]:
        """The noise at θ̂ by first row, as far as it fits in memory; the rest moves with θ."""
        held: dict[int, Tensor] = {}
        room = _FROZEN_NUMBERS
        with torch.no_grad():
            for row, batch in chain.from_iterable(joint.parts()):
                outputs, targets = joint.network.outputs_and_targets(batch)
                room -= outputs.numel()
                if room < 0:
                    break
                held[row] = self.noise(joint, row, outputs, joint.score(outputs, targets)[1]).cpu()
        return held

    def noise(self, joint: LogJoint, row: int, outputs: Tensor, targets: Any) -> Tensor:
        """Λ^½ ε for the rows of one batch, the same whatever the batch size."""
        likelihood = joint.likelihood
        if not self.label_noise:
            eps = noise.normal((self.seed, self.index), row, outputs.shape, outputs)
            return likelihood.noise(outputs, targets, eps)
        if not isinstance(likelihood, LabelLikelihood):
            raise ArgumentError(
                f"label_noise must be False for a likelihood without labels, but it is "
                f"{self.label_noise} with {likelihood!r}."
            )
        uniform = noise.uniform(
            (self.seed, self.index), row, likelihood.label_shape(outputs), outputs
        )
        return likelihood.label_noise(outputs, targets, uniform)

    def _xi(self, joint: LogJoint) -> Params:
        generator = noise.generator((self.seed, self.index), -1)
        return params.randn(joint.parameters, generator)
