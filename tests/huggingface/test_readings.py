"""Tokens, sequences and margins against dense algebra: gᵀ J P⁻¹ Jᵀ g, every part naive."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertForMaskedLM, BertForTokenClassification

import regvar
from regvar.calibration import Calibrated, ScaleCurve
from regvar.errors import ArgumentError, DataError
from regvar.estimators.amortized import Amortized
from regvar.estimators.sampled import Sampled
from regvar.huggingface import margin, sequence_scores, token_scores
from regvar.predictives import Probit
from regvar.results import Displacement

from ..contracts import by_hand, modules
from ..contracts.networks import LABELS, NetworkCase, rows, split, tokens
from .tiny import PRIOR, case_of, still

SIZES = {
    "hidden_size": 4,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 6,
    "max_position_embeddings": 8,
}


def tagger() -> nn.Module:
    config = BertConfig(vocab_size=4, num_labels=3, **SIZES)
    return modules.spread(BertForTokenClassification(config))


def masked() -> nn.Module:
    return modules.spread(BertForMaskedLM(BertConfig(vocab_size=4, **SIZES)))


def tagged(n: int, seed: int, _: torch.dtype) -> Any:
    """A label for each token, none for padded ones."""
    batch = tokens(n, 4, seed)
    labels = (batch["input_ids"] + torch.arange(4)) % 3
    return {**batch, "labels": labels.masked_fill(batch["attention_mask"] == 0, -100)}


CASES = {
    "gpt2": case_of("gpt2"),
    "lora_gpt2": case_of("lora_gpt2"),
    "bert": case_of("bert"),
    "vit": case_of("vit"),
    "tagger": NetworkCase("tagger", tagger, tagged, LABELS, (4, 3)),
    "masked": NetworkCase("masked", masked, tagged, LABELS, (4, 4)),
}


def exact(case: NetworkCase) -> tuple[Sampled, Tensor, Any, nn.Module]:
    """An estimator whose K = dim θ draws have the covariance P⁻¹ to the last digit, and P⁻¹."""
    model = still(case)
    data = case.examples(5, 1, torch.float64)
    precision = by_hand.ggn_precision(case, model, data)
    inverse = torch.linalg.inv(precision)
    root = torch.linalg.cholesky(0.5 * (inverse + inverse.T)) * math.sqrt(len(inverse))
    joint = regvar.LogJoint(model, [data], likelihood=regvar.Categorical(), prior=PRIOR)
    parameters = joint.parameters
    sizes = [p.numel() for p in parameters.values()]
    moves = tuple(
        Displacement(
            {
                k: part.reshape(p.shape)
                for (k, p), part in zip(parameters.items(), column.split(sizes), strict=True)
            }
        )
        for column in root.T
    )
    uq = Sampled(joint.network, moves, None, joint.network.fingerprint(), joint)
    return uq, inverse, case.examples(4, 7, torch.float64), model


def naive_scores(case: NetworkCase, model: nn.Module, batch: Any) -> list[list[Tensor]]:
    """log p(y) of every scored label of each row, in order, differentiable."""
    outputs = case.output(model, batch)
    labels = split(batch)[1]
    found: list[list[Tensor]] = []
    for i in range(len(labels)):
        if labels.dim() == 1:
            found.append([outputs[i].log_softmax(-1)[labels[i]]])
            continue
        shift = 1 if "gpt2" in case.name else 0
        found.append(
            [
                outputs[i, t - shift].log_softmax(-1)[labels[i, t]]
                for t in range(shift, labels.shape[1])
                if labels[i, t] >= 0
            ]
        )
    return found


def gradient(model: nn.Module, value: Tensor) -> Tensor:
    leaves = list(by_hand.trainable(model).values())
    grads = torch.autograd.grad(value, leaves, retain_graph=True, allow_unused=True)
    parts = [torch.zeros_like(p) if g is None else g for p, g in zip(leaves, grads, strict=True)]
    return torch.cat([part.flatten() for part in parts])


@pytest.mark.parametrize("name", CASES)
def test_tokens_and_sequences_are_dense_algebra(name: str) -> None:
    case = CASES[name]
    uq, inverse, batch, model = exact(case)
    each, together = token_scores(uq, batch), sequence_scores(uq, batch)
    for i, values in enumerate(naive_scores(case, model, batch)):
        grads = torch.stack([gradient(model, v) for v in values])
        covariance = grads @ inverse @ grads.T
        scored = each.count[i].bool()
        found = each.log_prob[i][scored], each.variance[i][scored]
        expected = torch.stack(values).detach(), covariance.diagonal()
        torch.testing.assert_close(found[0].flatten(), expected[0], rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(found[1].flatten(), expected[1], rtol=1e-7, atol=1e-10)
        assert int(together.count[i]) == len(values)
        torch.testing.assert_close(together.log_prob[i], expected[0].mean(), rtol=1e-9, atol=0)
        torch.testing.assert_close(together.variance[i], covariance.mean(), rtol=1e-7, atol=1e-10)
    assert not each.log_prob[each.count == 0].any() and not each.variance[each.count == 0].any()


def test_a_text_without_labels_scores_itself_and_others_their_best_class() -> None:
    uq, _, batch, _ = exact(CASES["gpt2"])
    bare = split(batch)[0]
    assert torch.equal(token_scores(uq, bare).variance, token_scores(uq, batch).variance)
    uq, _, batch, model = exact(CASES["bert"])
    bare = split(batch)[0]
    best = {**bare, "labels": model(**bare).logits.argmax(-1)}
    assert torch.equal(token_scores(uq, bare).variance, token_scores(uq, best).variance)


def test_scores_do_not_depend_on_the_batch() -> None:
    uq, _, batch, _ = exact(CASES["gpt2"])
    together = sequence_scores(uq, batch).variance
    alone = [sequence_scores(uq, rows(batch, slice(i, i + 1))).variance for i in range(4)]
    torch.testing.assert_close(torch.cat(alone), together, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("name", ["bert", "vit", "gpt2"])
def test_a_margin_has_the_variance_of_a_difference(name: str) -> None:
    """C(a, a) + C(b, b) − C(a, b) − C(b, a), each from J P⁻¹ Jᵀ."""
    case = CASES[name]
    uq, inverse, batch, model = exact(case)
    chosen, rejected = rows(batch, slice(0, 2)), rows(batch, slice(2, 4))
    found = margin(uq, chosen, rejected)
    ends = [by_hand.jacobian(case, model, x) for x in (chosen, rejected)]
    outputs = [case.output(model, x).detach() for x in (chosen, rejected)]
    difference = ends[0] - ends[1]
    variance = (difference @ inverse @ difference.T).diagonal()
    torch.testing.assert_close(found.mean, outputs[0] - outputs[1], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found.variance.flatten(), variance, rtol=1e-7, atol=1e-10)
    separate = uq.moments(chosen).variance + uq.moments(rejected).variance
    assert not torch.allclose(found.variance, separate, rtol=0.05)


def test_a_margin_pads_its_two_sides_alone() -> None:
    """Answers of other lengths: the shorter one's padding changes nothing."""
    uq, _, batch, _ = exact(CASES["bert"])
    longer = split(batch)[0]
    short = {k: v[:, :3] for k, v in longer.items()}
    padded = {k: nn.functional.pad(v, (0, 1)) for k, v in short.items()}
    found, other = margin(uq, longer, short), margin(uq, longer, padded)
    torch.testing.assert_close(found.variance, other.variance, rtol=1e-9, atol=1e-14)


def test_amortized_reads_the_absolute_response() -> None:
    case = CASES["bert"]
    uq, _, batch, model = exact(case)
    move = uq.displacements[0]
    delta = torch.cat([v.flatten() for v in move.delta.values()])
    once = Amortized(uq.network, move, None, uq.fitted, uq.joint)
    expected = [(gradient(model, row[0]) @ delta).abs() for row in naive_scores(case, model, batch)]
    found = token_scores(once, batch).variance
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-9, atol=1e-12)


def test_calibration_scales_the_variance() -> None:
    uq, _, batch, _ = exact(CASES["bert"])
    predictive = Probit(regvar.Categorical())
    calibrated = Calibrated(uq, predictive, 3.0, 0.0, ScaleCurve((3.0,), (0.0,)), 1)
    for read in (token_scores, sequence_scores):
        found = read(calibrated, batch)
        torch.testing.assert_close(found.variance, 3.0 * read(uq, batch).variance)
    pair = rows(batch, slice(0, 2)), rows(batch, slice(2, 4))
    torch.testing.assert_close(margin(calibrated, *pair).variance, 3 * margin(uq, *pair).variance)


def test_what_cannot_be_read_is_refused() -> None:
    uq, _, batch, _ = exact(CASES["bert"])
    assert uq.joint is not None
    with pytest.raises(ArgumentError, match=r"uq must be made by sampled or amortized"):
        token_scores(regvar.pointwise(uq.joint), batch)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="chosen and rejected must give outputs of one shape"):
        margin(uq, rows(batch, slice(0, 1)), rows(batch, slice(1, 3)))
    reward = nn.Linear(2, 1)
    data = [(torch.randn(4, 2), torch.randn(4, 1))]
    joint = regvar.LogJoint(reward, data, likelihood=regvar.Gaussian(1.0), prior=PRIOR)
    with pytest.raises(DataError, match="outputs must be logits of two or more classes"):
        token_scores(regvar.sampled(joint, 2), data[0])


def test_reading_turns_gradients_on_again() -> None:
    uq, _, batch, _ = exact(CASES["bert"])
    margin(uq, rows(batch, slice(0, 2)), rows(batch, slice(2, 4)))
    assert torch.is_grad_enabled()
