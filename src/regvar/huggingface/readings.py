"""What a token, a sequence and a pair of answers are uncertain by: linear functions of outputs.

For a function S of the outputs with gradient g = ∂S/∂f, linearized as the network is (Eq. 6, 7):

    Var[S] = gᵀ Cov[f] g = gᵀ J P⁻¹ Jᵀ g

| reading | S | g |
|---|---|---|
| a token | log p(y_t) = f_{t,y} − log Σ_c exp f_{t,c} | onehot(y_t) − p_t at place t |
| a sequence | (1/T) Σ_t log p(y_t) | the same at all T places, divided by T |
| a margin | f(a) − f(b) | 1 at a and −1 at b |

No covariance matrix is formed: gᵀ J δ is the response of S to a displacement δ. `Sampled` averages
its square over the draws, the same draws at all places, so that places, and both answers of a
pair, vary together. `Amortized` takes its absolute value, as it does of an output's response.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regvar import batches
from regvar.batches import IGNORED, Batch
from regvar.calibration import Calibrated
from regvar.errors import ArgumentError, DataError
from regvar.estimators.amortized import Amortized
from regvar.estimators.sampled import Sampled
from regvar.huggingface.objective import is_causal
from regvar.likelihoods.protocol import full_precision
from regvar.network import Network
from regvar.results import Moments

Readable = Sampled | Amortized | Calibrated


@dataclass(frozen=True)
class Scores:
    """Log-probabilities of labels with the variance that the network's uncertainty gives them."""

    log_prob: Tensor  # S: [batch] or, for tokens, [batch, places]; 0 where nothing is scored
    variance: Tensor  # Var[S] ≥ 0, of the same shape
    count: Tensor  # how many labels each S is the mean of: 0 or 1 for tokens, T for sequences

    @property
    def std(self) -> Tensor:
        """√Var[S]."""
        return self.variance.sqrt()


def token_scores(uq: Readable, batch: Batch) -> Scores:
    """log p(y_t) of each label and its variance, (1/K) Σ_k ((onehot(y_t) − p_t)ᵀ J_t δ_k)².

    Of a causal language model the entry at place t is that of the *next* token, which the outputs
    at t predict; the last one is not scored. `uq.moments` has the logits' own variances.

    Args:
        uq: `sampled`'s or `amortized`'s, calibrated or not.
        batch: with labels; without, a causal language model's own text is scored, and elsewhere
            the classes that the network finds most probable.

    >>> import torch, regvar
    >>> x, y = torch.randn(8, 2), torch.arange(8) % 3
    >>> joint = regvar.LogJoint(torch.nn.Linear(2, 3), [(x, y)], likelihood=regvar.Categorical(),
    ...                         prior=regvar.GaussianPrior(precision=1.0))
    >>> token_scores(regvar.sampled(joint, samples=4), (x, y)).variance.shape
    torch.Size([8])
    """
    estimator, scale = _opened(uq)
    logits, gradient, scored = _scored(estimator.network, batch)
    responses = _responses(estimator, batch, lambda r: (gradient * r).sum(-1))
    return Scores(logits, scale * _variance(estimator, responses), scored.long())


def sequence_scores(uq: Readable, batch: Batch) -> Scores:
    """(1/T) Σ_t log p(y_t) of each row and its variance, (1/K) Σ_k ((1/T) Σ_t g_tᵀ J_t δ_k)².

    The tokens of a row share the network, so that their log-probabilities vary together: this is
    not the mean of their variances over T.

    Args:
        uq: `sampled`'s or `amortized`'s, calibrated or not.
        batch: as in `token_scores`.

    >>> import torch, regvar
    >>> x, y = torch.randn(8, 5, 2), torch.arange(40).reshape(8, 5) % 3
    >>> joint = regvar.LogJoint(torch.nn.Linear(2, 3), [(x, y)], likelihood=regvar.Categorical(),
    ...                         prior=regvar.GaussianPrior(precision=1.0))
    >>> sequence_scores(regvar.sampled(joint, samples=4), (x, y)).count
    tensor([5, 5, 5, 5, 5, 5, 5, 5])
    """
    estimator, scale = _opened(uq)
    logits, gradient, scored = _scored(estimator.network, batch)
    count = scored.flatten(1).sum(1) if scored.dim() > 1 else scored.long()
    share = count.clamp(min=1)

    def mean(values: Tensor) -> Tensor:
        return (values.flatten(1).sum(1) if values.dim() > 1 else values) / share

    responses = _responses(estimator, batch, lambda r: mean((gradient * r).sum(-1)))
    return Scores(mean(logits), scale * _variance(estimator, responses), count)


def margin(uq: Readable, chosen: Batch, rejected: Batch) -> Moments:
    """f(a) − f(b) for pairs of inputs and Var[f(a) − f(b)] = (1/K) Σ_k (J(a) δ_k − J(b) δ_k)².

    For reward models: what two answers to one prompt have in common cancels, so that the margin
    is often surer than either reward. The variance is that of a difference, with the covariance
    of both ends: not the sum of two variances.

    Args:
        uq: `sampled`'s or `amortized`'s, calibrated or not.
        chosen: one batch of inputs a.
        rejected: as many inputs b, padded to a length of their own.

    >>> import torch, regvar
    >>> x, y = torch.randn(8, 2), torch.randn(8, 1)
    >>> joint = regvar.LogJoint(torch.nn.Linear(2, 1), [(x, y)], likelihood=regvar.Gaussian(1.0),
    ...                         prior=regvar.GaussianPrior(precision=1.0))
    >>> margin(regvar.sampled(joint, samples=4), x[:2], x[:2]).variance
    tensor([[0.],
            [0.]])
    """
    estimator, scale = _opened(uq)
    with torch.no_grad(), estimator.network.guard():
        mean = [full_precision(estimator.network.outputs(x)) for x in (chosen, rejected)]
        if mean[0].shape != mean[1].shape:
            raise DataError(
                f"chosen and rejected must give outputs of one shape, but those are "
                f"{tuple(mean[0].shape)} and {tuple(mean[1].shape)}. Pass pairs, row by row, to a "
                "network with one row of outputs for each input."
            )
    first, second = (_responses(estimator, x, lambda r: r) for x in (chosen, rejected))
    variance = _variance(estimator, [a - b for a, b in zip(first, second, strict=True)])
    return Moments(mean[0] - mean[1], scale * variance)


def labels_of(network: Network, batch: Batch, logits: Tensor) -> Tensor:
    """The labels to score: the batch's, the text itself, or the most probable classes."""
    inputs, labels = batches.split(batch)
    if labels is None and is_causal(network.model) and isinstance(inputs, Mapping):
        ids, mask = inputs["input_ids"], inputs.get("attention_mask")
        text = ids if mask is None else ids.masked_fill(mask == 0, IGNORED)
        labels = torch.nn.functional.pad(text[:, 1:], (0, 1), value=IGNORED)
    elif labels is not None:
        labels = network.targets(batch, logits)
    else:
        labels = logits.argmax(-1)
    if not isinstance(labels, Tensor) or labels.shape != logits.shape[:-1]:
        raise DataError(
            f"labels must have the outputs' shape without the classes, "
            f"{tuple(logits.shape[:-1])}, but are {getattr(labels, 'shape', labels)}."
        )
    return labels.to(logits.device)


def _scored(network: Network, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Log p(y), its gradient in the outputs, and where there is a label; 0 elsewhere."""
    with torch.no_grad(), network.guard():
        outputs = full_precision(network.outputs(batch))
    if outputs.dim() < 2 or outputs.shape[-1] < 2:
        raise DataError(
            f"outputs must be logits of two or more classes, but have the shape "
            f"{tuple(outputs.shape)}. Read uq.moments, or `margin` for rewards."
        )
    labels = labels_of(network, batch, outputs)
    scored = labels != IGNORED
    y = labels.masked_fill(~scored, 0).unsqueeze(-1)
    log_p = outputs.log_softmax(-1)
    gradient = -log_p.exp()
    gradient.scatter_add_(-1, y, torch.ones_like(y, dtype=gradient.dtype))
    found = log_p.gather(-1, y).squeeze(-1)
    return found.masked_fill(~scored, 0.0), gradient * scored.unsqueeze(-1), scored


def _opened(uq: Readable) -> tuple[Sampled | Amortized, float]:
    """The estimator and the scale of its variance."""
    estimator, scale = (uq.uq, uq.scale) if isinstance(uq, Calibrated) else (uq, 1.0)
    if not isinstance(estimator, Sampled | Amortized):
        raise ArgumentError(
            f"uq must be made by sampled or amortized, whose displacements move all outputs "
            f"together, but it is {type(estimator).__name__}. Use regvar.sampled."
        )
    return estimator, scale


def _responses(
    uq: Sampled | Amortized, batch: Batch, read: Callable[[Tensor], Tensor]
) -> list[Tensor]:
    """What `read` makes of the outputs' response to each displacement."""
    moves = uq.displacements if isinstance(uq, Sampled) else (uq.displacement,)
    uq.network.require_unchanged(uq.fitted)
    with torch.no_grad(), uq.network.guard():
        return [read(response) for response in uq.network.responses(batch, moves)]


def _variance(uq: Sampled | Amortized, responses: Sequence[Tensor]) -> Tensor:
    """The mean of squares of draws; the absolute value of the one amortized response."""
    if isinstance(uq, Amortized):
        return responses[0].abs()
    return torch.stack([r.square() for r in responses]).mean(0)
