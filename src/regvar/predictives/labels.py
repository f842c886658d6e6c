"""Labels given logits: what `Probit` and `MonteCarlo` share for `Categorical` and `Bernoulli`.

Inside, classes always lie along the last dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regvar import params
from regvar.errors import require
from regvar.likelihoods import Bernoulli, Categorical
from regvar.likelihoods.protocol import full_precision
from regvar.predictives.prediction import Classification
from regvar.results import Moments

LabelModel = Categorical | Bernoulli

# Logits scored at a time. A batch over a vocabulary of 50k holds hundreds of times as many: parts
# that fit the processor's cache are several times as fast, and temporaries stay small.
_AT_A_TIME = 1 << 17


def check_likelihood(likelihood: object) -> None:
    """Refuse a likelihood whose targets are not labels."""
    ok = isinstance(likelihood, Categorical | Bernoulli)
    require(ok, "likelihood", "regvar.Categorical() or regvar.Bernoulli()", likelihood)


def scored(
    likelihood: LabelModel, moments: Moments, targets: Any
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Logits, variances and labels of the data that count, some at a time.

    `Categorical`: [labels, classes] without the ignored ones; `Bernoulli`: [examples, outputs...].
    """
    y = likelihood.check(moments.mean, targets)
    f, variance = (_rows(likelihood, t) for t in (moments.mean, moments.variance))
    categorical = isinstance(likelihood, Categorical)
    y = y.flatten() if categorical else y
    for part in _parts(f):
        chosen = (f[part], variance[part], y[part])
        if categorical:
            kept = chosen[2] != likelihood.ignore_index
            chosen = chosen if bool(kept.all()) else tuple(t[kept] for t in chosen)
        yield full_precision(chosen[0]), full_precision(chosen[1]), chosen[2]


def predicted(
    likelihood: LabelModel,
    moments: Moments,
    reading: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
) -> Classification:
    """Probabilities and their entropy split in two, some at a time.

    `reading(f, variance)` gives the probabilities and the mutual information of a few labels.
    """
    f, variance = (_rows(likelihood, t) for t in (moments.mean, moments.variance))
    probs = torch.empty_like(f, dtype=params.work_dtype(f.dtype))
    splits: list[Tensor] = []
    for part in _parts(f):
        p, information = reading(full_precision(f[part]), full_precision(variance[part]))
        total = entropy(likelihood, p)
        epistemic = torch.minimum(information.clamp(min=0), total)
        probs[part] = p
        splits.append(torch.stack((total - epistemic, epistemic)))
    split = torch.cat(splits, 1).to(probs)
    if isinstance(likelihood, Categorical):
        shape = moments.mean.movedim(likelihood.class_dim, -1).shape
        probs = probs.reshape(shape).movedim(-1, likelihood.class_dim)
        split = split.reshape(2, *shape[:-1])
    return Classification(probs, aleatoric=split[0], epistemic=split[1])


def _rows(likelihood: LabelModel, values: Tensor) -> Tensor:
    """[labels, classes], or [examples, outputs...]."""
    if isinstance(likelihood, Categorical):
        return values.movedim(likelihood.class_dim, -1).flatten(0, -2)
    return values


def _parts(rows: Tensor) -> Iterator[slice]:
    """Slices of a few rows; one empty slice of nothing."""
    step = max(1, _AT_A_TIME // max(1, math.prod(rows.shape[1:])))
    return (slice(start, start + step) for start in range(0, max(1, len(rows)), step))


def probabilities(likelihood: LabelModel, logits: Tensor) -> Tensor:
    """Softmax over the classes, or sigmoid, shaped like the logits."""
    return logits.softmax(-1) if isinstance(likelihood, Categorical) else logits.sigmoid()


def entropy(likelihood: LabelModel, probs: Tensor) -> Tensor:
    """H[p] in nats, one per label."""
    surprise = torch.special.entr(probs)
    if isinstance(likelihood, Categorical):
        return surprise.sum(-1)
    return surprise + torch.special.entr((1 - probs).clamp(min=0))


def log_prob(likelihood: LabelModel, logits: Tensor, labels: Tensor) -> Tensor:
    """Log p(y | logits), one per label."""
    if isinstance(likelihood, Categorical):
        chosen = logits.gather(-1, labels.long().unsqueeze(-1)).squeeze(-1)
        return chosen - logits.logsumexp(-1)
    return -functional.binary_cross_entropy_with_logits(logits, labels.to(logits), reduction="none")


def per_datum(values: Tensor) -> Tensor:
    """[scales, data, outputs...] with the outputs summed: [scales, data]."""
    return values.unsqueeze(-1).flatten(2).sum(2)
