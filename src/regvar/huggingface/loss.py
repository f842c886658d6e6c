"""The paper's objective for a `transformers.Trainer` of one's own, as its `compute_loss_func`.

    loss of a micro-batch = −(S/n) [ℓ_b + λ t_b], and −log p(θ)/n once a step

S optimizer steps make an epoch. The Trainer passes every micro-batch of a step the same count of
its labels, `num_items_in_batch`: a new one begins a step. The count itself is not used, because it
does not always leave out what a causal language model's shift leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from regvar import batches
from regvar.errors import DataError, ModelError, require
from regvar.huggingface.objective import aligned, is_causal
from regvar.likelihoods import Categorical, Likelihood
from regvar.priors import Prior

Loss = Callable[..., Tensor]


def regvar_loss(
    model: nn.Module,
    *,
    n: int,
    steps: int,
    prior: Prior,
    lam: float = 0.0,
    rows: int | None = None,
    likelihood: Likelihood | None = None,
) -> Loss:
    """−(L + λ t)/n with the in-sample regularizer of Eq. 16: `Trainer(compute_loss_func=...)`.

    Train once with λ = 0 for the MAP, copy the model, train the copy on with λ, and read both:
    `regvar.from_refit(map_model, model, lam)`. Set weight decay and label smoothing to 0, and for
    the second training the network's dropout: the Trainer puts networks in train mode. Outside
    training it is the mean of −log p(y | f), a loss to watch. One such loss serves one Trainer.

    Args:
        model: the network that the Trainer trains.
        n: the number of data, as `count` finds it: tokens of a language model.
        steps: S, optimizer steps an epoch: ⌈batches / gradient_accumulation_steps⌉.
        prior: `GaussianPrior(precision=...)`.
        lam: λ, 0 for the MAP.
        rows: the number of training examples, where it is not n.
        likelihood: `Categorical()` by default.

    >>> import torch, regvar
    >>> model = torch.nn.Linear(2, 3)
    >>> loss = regvar_loss(model, n=8, steps=2, prior=regvar.GaussianPrior(precision=1.0), lam=0.5)
    >>> f, y = torch.ones(4, 3), torch.zeros(4, dtype=torch.long)
    >>> log_p = 4 * torch.log(torch.tensor(1 / 3)) + regvar.GaussianPrior(1.0).log_prob(
    ...     dict(model.named_parameters())) / 2
    >>> bool(torch.isclose(loss(f, y), -(2 / 8) * (log_p + 0.5 * 12 / 8)))
    True
    """
    require(n >= 1, "n", "at least 1", n)
    require(steps >= 1, "steps", "at least 1", steps)
    chosen, examples = likelihood or Categorical(), n if rows is None else rows
    last: Any = None  # the count of the step under way

    def loss(outputs: Any, labels: Any, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        nonlocal last
        logits = logits_of(outputs)
        targets = chosen.check(logits, aligned(model, labels, logits))
        total = chosen.log_prob(logits, targets)
        if not model.training:
            return -total / max(chosen.count(logits, targets), 1)
        if lam:
            mask = chosen.mask(logits, targets)
            scored = logits if mask is None else logits * mask
            total = total + lam * scored.abs().sum() / examples
        opening = num_items_in_batch is None or num_items_in_batch is not last
        last = num_items_in_batch
        if not opening:
            return -(steps / n) * total
        parameters = {k: p for k, p in model.named_parameters() if p.requires_grad}
        share = prior.log_prob(parameters).to(total.device) / _processes()
        return -(steps / n) * total - share / n

    return loss


def count(model: nn.Module, loader: Any, likelihood: Likelihood | None = None) -> tuple[int, int]:
    """n and the number of rows of a loader with labels: two counts that `regvar_loss` asks for.

    Args:
        model: a causal language model scores one label less in each row.
        loader: the training batches, dicts with `labels`; the network is not run.
        likelihood: `Categorical()` by default; others count rows.

    >>> import torch
    >>> batch = {"labels": torch.tensor([1, 0, -100])}
    >>> count(torch.nn.Linear(2, 2), [batch])
    (2, 3)
    """
    chosen = likelihood or Categorical()
    n = rows = 0
    for batch in batches.pinned(loader, 0):
        labels = batches.split(batch)[1]
        if not isinstance(labels, Tensor):
            raise DataError("loader must yield batches with tensors of labels, but one has none.")
        scored = labels[..., 1:] if is_causal(model) else labels
        like = scored.unsqueeze(-1) if isinstance(chosen, Categorical) else scored
        n += chosen.count(like, scored)
        rows += labels.shape[0]
    return n, rows


def logits_of(outputs: Any) -> Tensor:
    """The logits of a model's outputs, in any of the forms that a Trainer passes on."""
    if isinstance(outputs, Tensor):
        return outputs
    found = (
        cast("Mapping[str, Any]", outputs).get("logits")
        if isinstance(outputs, Mapping)
        else getattr(outputs, "logits", None)
    )
    if not isinstance(found, Tensor):
        raise ModelError(
            f"model must return outputs with .logits, but returned {type(outputs).__name__}. "
            "Use RegVarTrainer with forward=, which takes any network."
        )
    return found


def _processes() -> int:
    """How many add their gradients: the Trainer multiplies losses by it, DDP takes their mean."""
    together = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if together else 1
