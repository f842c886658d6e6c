"""Per-datum scores of predicted class probabilities, read without copying the probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regvar.batches import IGNORED
from regvar.errors import ArgumentError, DataError
from regvar.likelihoods import Categorical
from regvar.likelihoods.protocol import full_precision


@dataclass(frozen=True)
class LabelScores:
    """A few numbers for each scored label, on the CPU; the probabilities are not kept.

    Over a vocabulary of 50k this is what may be stored: n numbers instead of 50,000 n.
    """

    target_prob: Tensor  # p(y), [scored], float64
    norm: Tensor  # Σ_c p_c², [scored], float64
    confidence: Tensor  # max_c p_c, [scored], in the dtype of the probabilities
    correct: Tensor  # argmax_c p_c = y, [scored], bool; the first of tied classes counts
    mask: Tensor  # which targets were scored, in their own shape, bool, to select others alike


def label_scores(probs: Tensor, targets: Tensor, ignore_index: int = IGNORED) -> LabelScores:
    """Score probabilities [batch, ..., classes] against labels [batch, ...].

    Labels equal to `ignore_index` are left out, whatever their probabilities are. Each reduction
    over classes runs once; there is no temporary of the size of `probs`.

    >>> import torch
    >>> from regvar.metrics import label_scores
    >>> scores = label_scores(torch.tensor([[0.7, 0.3], [0.6, 0.4]]), torch.tensor([0, 1]))
    >>> scores.correct
    tensor([ True, False])
    """
    if not torch.is_floating_point(probs) or probs.ndim < 2:
        raise DataError(
            f"probs must be floating-point probabilities [batch, ..., classes], but they are "
            f"{probs.dtype} of shape {tuple(probs.shape)}. For one yes/no output p, pass "
            "torch.stack((1 - p, p), -1)."
        )
    probs = probs.detach()
    y = Categorical(ignore_index).check(probs, targets).detach()
    mask = y != ignore_index
    wide = torch.float64 if probs.dtype is torch.float64 else torch.float32
    target = probs.gather(-1, y.where(mask, 0).long().unsqueeze(-1)).squeeze(-1)
    confidence, label = probs.max(-1)
    norm = torch.linalg.vector_norm(probs, dim=-1, dtype=wide)
    _require_probabilities(probs.sum(-1, dtype=wide)[mask], probs.amin(-1)[mask], probs.dtype)
    return LabelScores(
        target_prob=target[mask].cpu().double(),
        norm=norm[mask].cpu().double().square(),
        confidence=confidence[mask].cpu(),
        correct=(label == y)[mask].cpu(),
        mask=mask.cpu(),
    )


def label_log_probs(logits: Tensor, targets: Tensor, ignore_index: int = IGNORED) -> Tensor:
    """Log softmax(f)[y] of the labels that are not ignored, [scored], for `NLL.update_log_probs`.

    Exact where probabilities would round to zero.

    >>> import torch
    >>> from regvar.metrics import label_log_probs
    >>> label_log_probs(torch.tensor([[0.0, 200.0]]), torch.tensor([0]))
    tensor([-200.])
    """
    y = Categorical(ignore_index).check(logits, targets)
    mask = y != ignore_index
    losses = torch.nn.functional.cross_entropy(
        full_precision(logits.detach()).reshape(-1, logits.shape[-1]),
        y.reshape(-1).long(),
        ignore_index=ignore_index,
        reduction="none",
    )
    return -losses[mask.reshape(-1)]


def _require_probabilities(total: Tensor, smallest: Tensor, dtype: torch.dtype) -> None:
    tolerance = 1e-2 if dtype in (torch.float16, torch.bfloat16) else 1e-4
    bad = ~((total - 1).abs() <= tolerance) | ~(smallest >= 0)
    if bool(bad.any()):
        first = int(bad.nonzero()[0, 0])
        raise DataError(
            "probs must be non-negative and sum to 1 over the last dimension, but those of a "
            f"scored label sum to {float(total[first]):.6g} with smallest "
            f"{float(smallest[first]):.6g}. Pass logits.softmax(-1)."
        )


def require_confidence(confidence: Tensor, correct: Tensor) -> tuple[Tensor, Tensor]:
    """Flat confidences in [0, 1] and 0/1 correctness, one each per datum, on the CPU."""
    if confidence.shape != correct.shape:
        raise DataError(
            f"correct must have the shape of confidence, {tuple(confidence.shape)}, but has "
            f"{tuple(correct.shape)}. Give one of each per datum."
        )
    if not torch.is_floating_point(confidence):
        raise ArgumentError(
            f"confidence must be floating-point, but it is {confidence.dtype}. Pass the "
            "probability of the predicted class."
        )
    c, a = confidence.detach().cpu().flatten(), correct.detach().cpu().flatten()
    slack = 4 * torch.finfo(c.dtype).eps  # softmax may round to just above 1
    bad = c[~((c >= 0) & (c <= 1 + slack))]
    if bad.numel():
        raise DataError(
            f"confidence must lie in [0, 1], but {float(bad[0]):.6g} does not. Pass the "
            "probability of the predicted class."
        )
    wrong = a[(a != 0) & (a != 1)]
    if wrong.numel():
        raise DataError(
            f"correct must be true or false (1 or 0), but {float(wrong[0]):.6g} is neither. "
            "Pass predicted == target."
        )
    return c, a.bool()
