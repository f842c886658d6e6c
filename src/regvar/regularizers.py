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

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, Protocol

import torch
from torch import Tensor

from regvar import batches, noise, params
from regvar.batches import Batch
from regvar.errors import ArgumentError, DataError
from regvar.likelihoods import Gaussian, LabelLikelihood
from regvar.log_joint import LogJoint
from regvar.params import Params

_FROZEN_NUMBERS = 2**28  # 1 GiB in single precision

Term = Callable[[int, Tensor, Any], Tensor]  # (first row of the batch, outputs, targets) -> t_b


class Regularizer(Protocol):
    """A scalar function t of the network."""

    @property
    def fixed_order(self) -> bool:
        """Whether its terms belong to rows of the data, so that epochs must not be reshuffled."""
        ...

    def gradient(self, joint: LogJoint) -> Params:
        """∇t(θ̂)."""
        ...

    def start(self, joint: LogJoint) -> Params | None:
        """A first guess at P⁻¹ ∇t, if there is a better one than zero."""
        ...

    def stochastic(self, joint: LogJoint, lam: float, whole: bool = False) -> Term:
        """The terms t_b of a refit at this λ, made while the network is at θ̂.

        `whole`: every evaluation sums a whole pass, so that nothing may be left to later batches.
        """
        ...


def _gradient_of_terms(joint: LogJoint, term: Term) -> Params:
    """∇ Σ_b t_b at θ̂, one pass."""
    total = params.zeros(joint.parameters)
    with joint.network.guard(), torch.enable_grad():
        for row, batch in joint.numbered():
            outputs, targets = joint.network.outputs_and_targets(batch)
            _, targets = joint.score(outputs, targets)
            params.add_(total, joint.network.pull_back(term(row, outputs, targets)))
    return total


@dataclass(frozen=True)
class OutputAt:
    """f_c(x) for one query x and one entry c of its (flattened) output."""

    query: Batch
    entry: int
    fixed_order: bool = False

    def value(self, joint: LogJoint) -> Tensor:
        """f_c(x), differentiable."""
        return joint.network.outputs(self.query).reshape(-1)[self.entry]

    def gradient(self, joint: LogJoint) -> Params:
        """J_c(x)ᵀ."""
        with joint.network.guard(), torch.enable_grad():
            return joint.network.pull_back(self.value(joint))

    def start(self, joint: LogJoint) -> Params | None:
        """Zero."""
        return None

    def stochastic(self, joint: LogJoint, lam: float, whole: bool = False) -> Term:
        """f_c(x) / N on each batch."""
        return lambda row, outputs, targets: self.value(joint) / joint.num_batches


@dataclass(frozen=True)
class MeanAbsOutput:
    """(1/m) Σ_j |f(x̂_j)|₁ over probes (Eq. 15), or over the training inputs (Eq. 16)."""

    probes: Iterable[Batch] | None = None
    fixed_order: bool = False

    def gradient(self, joint: LogJoint) -> Params:
        """(1/m) Σ_j J(x̂_j)ᵀ sign f(x̂_j)."""
        if self.probes is None:
            return _gradient_of_terms(joint, self.stochastic(joint, 1.0))
        total, count = params.zeros(joint.parameters), 0
        with joint.network.guard(), torch.enable_grad():
            for batch in batches.pinned(self.probes, 0):
                outputs = joint.network.outputs(batch)
                params.add_(total, joint.network.pull_back(outputs.abs().sum()))
                count += outputs.shape[0]
        if count == 0:
            raise DataError(
                "probes must hold at least one input, but the loader is empty. "
                "Pass probes=None to use the training inputs."
            )
        return params.scale_(total, 1 / count)

    def start(self, joint: LogJoint) -> Params | None:
        """Zero."""
        return None

    def stochastic(self, joint: LogJoint, lam: float, whole: bool = False) -> Term:
        """In-sample: the batch's own inputs. Otherwise one batch of probes a step, in turn."""
        if self.probes is None:
            return lambda row, outputs, targets: _absolute(joint, outputs, targets)
        sizes = [batches.length(b) or 1 for b in batches.pinned(self.probes, 0)]
        if not sizes:
            raise DataError("probes must hold at least one input, but the loader is empty.")
        if whole:
            return lambda row, outputs, targets: self._all(joint, outputs, skip=row > 0)
        weight = len(sizes) / (sum(sizes) * joint.num_batches)
        endless = chain.from_iterable(batches.pinned(probes, 0) for probes in repeat(self.probes))

        def term(row: int, outputs: Tensor, targets: Any) -> Tensor:
            return weight * joint.network.outputs(next(endless)).abs().sum()

        return term

    def _all(self, joint: LogJoint, like: Tensor, skip: bool) -> Tensor:
        """The whole of t, once a pass."""
        total, count = like.new_zeros(()), 0
        for batch in batches.pinned(() if skip else self.probes or (), 0):
            outputs = joint.network.outputs(batch)
            total = total + outputs.abs().sum()
            count += outputs.shape[0]
        return total / max(count, 1)


def _absolute(joint: LogJoint, outputs: Tensor, targets: Any) -> Tensor:
    mask = joint.likelihood.mask(outputs, targets)
    scored = outputs if mask is None else outputs * mask
    return scored.abs().sum() / joint.examples


@dataclass(frozen=True)
class ShiftedTargets:
    """What the data-augmented likelihood of App. B adds to log p(y | f), per unit λ.

    λ t_b = Σ_i [log N(y_i + λ σ² sign(f_i)/n | f_i, σ²) − log N(y_i | f_i, σ²)], whose gradient is
    that of the in-sample λ/n |f_i|₁: the network is refitted on shifted targets and nothing else.
    """

    fixed_order: bool = False

    def gradient(self, joint: LogJoint) -> Params:
        """The same as in-sample."""
        return _gradient_of_terms(joint, self.stochastic(joint, 1.0))

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


@dataclass(frozen=True)
class AbsParameters:
    """‖θ‖₁."""

    fixed_order: bool = False

    def gradient(self, joint: LogJoint) -> Params:
        """sign θ̂."""
        return {k: p.sign() for k, p in params.copy(joint.parameters).items()}

    def start(self, joint: LogJoint) -> Params | None:
        """Zero."""
        return None

    def stochastic(self, joint: LogJoint, lam: float, whole: bool = False) -> Term:
        """‖θ‖₁ / N on each batch."""

        def term(row: int, outputs: Tensor, targets: Any) -> Tensor:
            total = [p.abs().sum().to(outputs.device) for p in joint.parameters.values()]
            return torch.stack(total).sum() / joint.num_batches

        return term


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
        with joint.network.guard(), torch.enable_grad():
            for row, batch in joint.numbered():
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
        frozen = self._frozen(joint)

        def term(row: int, outputs: Tensor, targets: Any) -> Tensor:
            held = frozen.get(row)
            u = self.noise(joint, row, outputs.detach(), targets) if held is None else held
            pulls = [(weights[k] * p).sum().to(outputs.device) for k, p in joint.parameters.items()]
            return (u.to(outputs) * outputs).sum() + torch.stack(pulls).sum() / joint.num_batches

        return term

    def _frozen(self, joint: LogJoint) -> dict[int, Tensor]:
        """The noise at θ̂ by first row, as far as it fits in memory; the rest moves with θ."""
        held: dict[int, Tensor] = {}
        room = _FROZEN_NUMBERS
        with torch.no_grad():
            for row, batch in joint.numbered():
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
