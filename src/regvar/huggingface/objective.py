"""Eq. 15 and 16 for training loops that cut a step into micro-batches and epochs into steps.

    one step's loss = −(S/n) Σ_b [ℓ_b + λ t_b] − (1/n) [log p(θ) + λ t′]

with S optimizer steps an epoch, ℓ_b the log likelihood of a micro-batch's rows, t_b what the
regularizer takes from these rows and t′ what it takes from elsewhere, once a step. The mean over
an epoch is −(L + λ t)/n exactly: whatever the sizes of the micro-batches, a short last one
included, their number in a step, a short last step included, and the number of padded or ignored
labels in each. It is `LogJoint.loss` of the whole step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from regvar import batches, noise, params
from regvar.batches import IGNORED, Batch
from regvar.log_joint import LogJoint
from regvar.params import Params
from regvar.regularizers import MeanAbsOutput, RandomLinear

_FROZEN_NUMBERS = 2**28  # 1 GiB in single precision


class Pull(Protocol):
    """t(θ) as a loop over micro-batches needs it: Σ_b t_b and the mean over steps of t′."""

    def rows(self, first_row: int, outputs: Tensor, targets: Any) -> Tensor:
        """t_b, the part of a micro-batch's rows."""
        ...

    def step(self) -> Tensor:
        """t′, the part that belongs to no row of the data, once a step."""
        ...


@dataclass(frozen=True)
class Objective:
    """−(L + λ t)/n, a micro-batch at a time."""

    joint: LogJoint
    pull: Pull | None = None  # None: λ = 0
    lam: float = 0.0

    def loss(
        self, first_row: int, outputs: Tensor, targets: Any, steps: float, opening: bool
    ) -> Tensor:
        """What one micro-batch adds to the loss of its step.

        Args:
            first_row: the number of the micro-batch's first row in a pass.
            outputs: f_θ(x), [rows, outputs...].
            targets: as the likelihood wants them (a causal language model's already moved).
            steps: S; W processes that average their gradients pass W · S.
            opening: whether it is the first of its step, which carries the prior and t′.
        """
        n = self.joint.size
        total, targets = self.joint.score(outputs, targets)
        if self.pull is not None:
            total = total + self.lam * self.pull.rows(first_row, outputs, targets)
        loss = -(steps / n) * total
        if not opening:
            return loss
        once = self.joint.log_prior()
        if self.pull is not None:
            once = once + self.lam * self.pull.step().to(once.device)
        return loss - once.to(loss.device) / n


class InSample:
    """Eq. 16: t_b = (1/m) Σ_i |f(x_i)|₁ over the rows of a micro-batch, ignored places left out."""

    def __init__(self, joint: LogJoint) -> None:
        """For the training inputs of `joint`."""
        self._term = MeanAbsOutput().stochastic(joint, 1.0)

    def rows(self, first_row: int, outputs: Tensor, targets: Any) -> Tensor:
        """(1/m) Σ_i |f(x_i)|₁."""
        return self._term(first_row, outputs, targets)

    def step(self) -> Tensor:
        """Nothing."""
        return torch.zeros(())


class Probes:
    """Eq. 15: t′ = (B/m) Σ_j |f(x̂_j)|₁ over the rows of one of B batches of probes, in turn."""

    def __init__(self, joint: LogJoint, probes: Any) -> None:
        """For a re-iterable of batches; ignored places of those with labels are left out."""
        self._joint = joint
        sizes = [batches.length(batch) or 1 for batch in batches.pinned(probes, 0)]
        self._weight = len(sizes) / sum(sizes)
        self._endless = self._turns(probes)

    def rows(self, first_row: int, outputs: Tensor, targets: Any) -> Tensor:
        """Nothing."""
        return outputs.new_zeros(())

    def step(self) -> Tensor:
        """(B/m) Σ_j |f(x̂_j)|₁ of the next batch."""
        outputs, targets = self._joint.network.outputs_and_targets(next(self._endless))
        mask = None
        if targets is not None:
            targets = self._joint.likelihood.check(outputs, targets)
            mask = self._joint.likelihood.mask(outputs, targets)
        scored = outputs if mask is None else outputs * mask
        return self._weight * scored.abs().sum()

    @staticmethod
    def _turns(probes: Any) -> Iterator[Batch]:
        while True:
            yield from batches.pinned(probes, 0)


class Noise:
    """Sampled: t_b = Σ_i (Λ_i^½ ε_i)ᵀ f(x_i), t′ = (P₀^½ ξ)ᵀ θ, the draw of `RandomLinear`."""

    def __init__(self, joint: LogJoint, draw: RandomLinear) -> None:
        """Drawn at θ̂, where the network must be now."""
        self._joint, self._draw = joint, draw
        xi = params.randn(joint.parameters, noise.generator((draw.seed, draw.index), -1))
        self._weights: Params = joint.prior.noise(xi)
        self._frozen = self._freeze()

    def rows(self, first_row: int, outputs: Tensor, targets: Any) -> Tensor:
        """Σ_i (Λ_i^½ ε_i)ᵀ f(x_i)."""
        held = self._frozen.get(first_row)
        if held is None:
            held = self._draw.noise(self._joint, first_row, outputs.detach(), targets)
        return (held.to(outputs) * outputs).sum()

    def step(self) -> Tensor:
        """(P₀^½ ξ)ᵀ θ."""
        pulls = [(self._weights[k] * p).sum() for k, p in self._joint.parameters.items()]
        return torch.stack([pull.to(pulls[0].device) for pull in pulls]).sum()

    def _freeze(self) -> dict[int, Tensor]:
        """Λ^½ ε at θ̂ by first row, as far as it fits in memory; the rest moves with θ."""
        held: dict[int, Tensor] = {}
        room = _FROZEN_NUMBERS
        with torch.no_grad(), self._joint.network.guard():
            for row, batch in self._joint.numbered():
                outputs, targets = self._joint.network.outputs_and_targets(batch)
                room -= outputs.numel()
                if room < 0:
                    break
                _, targets = self._joint.score(outputs, targets)
                held[row] = self._draw.noise(self._joint, row, outputs, targets).cpu()
        return held


def aligned(model: nn.Module, labels: Any, outputs: Tensor) -> Any:
    """Labels as the likelihood wants them: for a causal language model one to the left.

    >>> import torch
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> tiny = GPT2Config(vocab_size=5, n_embd=4, n_layer=1, n_head=1, n_positions=4)
    >>> aligned(GPT2LMHeadModel(tiny), torch.tensor([[1, 2, 3]]), torch.zeros(1, 3, 5))
    tensor([[   2,    3, -100]])
    """
    if isinstance(labels, Tensor) and is_causal(model) and labels.shape == outputs.shape[:-1]:
        return nn.functional.pad(labels[..., 1:], (0, 1), value=IGNORED)
    return labels


def is_causal(model: nn.Module) -> bool:
    """Whether outputs at one place predict the label at the next."""
    loss = getattr(model, "loss_function", None)
    return getattr(loss, "__name__", "") == "ForCausalLMLoss"
