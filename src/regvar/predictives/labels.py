"""Labels given logits: what `Probit` and `MonteCarlo` share for `Categorical` and `Bernoulli`."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from regvar.errors import require
from regvar.likelihoods import Bernoulli, Categorical

LabelModel = Categorical | Bernoulli


def check_likelihood(likelihood: object) -> None:
    """Refuse a likelihood whose targets are not labels."""
    ok = isinstance(likelihood, Categorical | Bernoulli)
    require(ok, "likelihood", "regvar.Categorical() or regvar.Bernoulli()", likelihood)


def probabilities(likelihood: LabelModel, logits: Tensor) -> Tensor:
    """Softmax over the classes, or sigmoid, shaped like the logits."""
    if isinstance(likelihood, Categorical):
        return logits.softmax(likelihood.class_dim)
    return logits.sigmoid()


def entropy(likelihood: LabelModel, probs: Tensor) -> Tensor:
    """H[p] in nats, one per label."""
    surprise = torch.special.entr(probs)
    if isinstance(likelihood, Categorical):
        return surprise.sum(likelihood.class_dim)
    return surprise + torch.special.entr((1 - probs).clamp(min=0))


def log_prob(likelihood: LabelModel, logits: Tensor, targets: Tensor) -> Tensor:
    """Log p(y | logits), one per label; 0 where it is ignored."""
    if isinstance(likelihood, Bernoulli):
        return -functional.binary_cross_entropy_with_logits(
            logits, targets.to(logits), reduction="none"
        )
    last = logits.movedim(likelihood.class_dim, -1)
    flat = functional.cross_entropy(
        last.reshape(-1, last.shape[-1]),
        targets.reshape(-1).long(),
        ignore_index=likelihood.ignore_index,
        reduction="none",
    )
    return -flat.reshape(targets.shape)


def per_datum(likelihood: LabelModel, values: Tensor, targets: Tensor) -> Tensor:
    """The data's own values, [data]: scored labels, or examples with their outputs summed."""
    if isinstance(likelihood, Categorical):
        return values[targets != likelihood.ignore_index]
    return values.reshape(values.shape[0], -1).sum(1)
