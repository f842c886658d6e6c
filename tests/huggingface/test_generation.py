"""Generated text: the tokens are the network's own, the figures those of plain forward passes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

import regvar
from regvar.calibration import Calibrated, ScaleCurve
from regvar.errors import ArgumentError, DataError, ModelError
from regvar.huggingface import Generation, generate_with_uncertainty
from regvar.predictives import Probit

from ..contracts import modules
from ..contracts.snapshots import differences, global_state, lived_in, network_state
from .tiny import PRIOR, case_of

WORDS = ["<end>", "<unk>", "a", "cat", "dog", "sat", "ran", "on", "the", "mat"]
PROMPT = "the cat sat"


def model_of(kind: str, dtype: torch.dtype = torch.float64) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        if kind == "gpt2":
            config = GPT2Config(
                vocab_size=10, n_embd=8, n_layer=2, n_head=2, n_positions=24, eos_token_id=0
            )
            return modules.spread(GPT2LMHeadModel(config)).to(dtype).eval()
        llama = LlamaConfig(
            vocab_size=10,
            hidden_size=8,
            intermediate_size=12,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=24,
            eos_token_id=0,
        )
        return modules.spread(LlamaForCausalLM(llama)).to(dtype).eval()


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, "<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<end>", unk_token="<unk>")


def estimator(model: nn.Module) -> Any:
    """Three short refits, whose residuals nobody asks for."""
    ids = torch.randint(1, 10, (6, 5), generator=torch.Generator().manual_seed(0))
    data = [{"input_ids": ids, "labels": ids}]
    joint = regvar.LogJoint(model, data, likelihood=regvar.Categorical(), prior=PRIOR)
    return regvar.sampled(joint, 3, regvar.Finetune(lam=0.1, lr=0.01, measure_residual=False))


def outputs(model: nn.Module, ids: list[int]) -> Tensor:
    """One forward pass over all of it, without a cache: [places, vocabulary]."""
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_greedy_text_and_its_figures_by_plain_passes(kind: str, tokenizer: Any) -> None:
    """Variance from networks with θ̂ + δ written into a second copy by hand, token by token."""
    model, twin = model_of(kind), model_of(kind)
    uq = estimator(model)
    found = generate_with_uncertainty(uq, tokenizer, PROMPT, max_new_tokens=5, stop=())
    assert isinstance(found, Generation) and len(found.ids) == 5
    ids = [WORDS.index(w) for w in PROMPT.split()]
    assert found.prompt.tolist() == ids
    home = {k: p.detach().clone() for k, p in twin.named_parameters()}
    for t, chosen in enumerate(found.ids.tolist()):
        here = outputs(twin, ids)[-1]
        assert int(here.argmax()) == chosen
        p = here.softmax(-1)[chosen]
        responses = []
        for move in uq.displacements:
            ends = []
            for alpha in (0.0, move.width):
                with torch.no_grad():
                    for k, parameter in twin.named_parameters():
                        parameter.copy_(home[k] + move.origin[k] + alpha * move.delta[k])
                ends.append(outputs(twin, ids)[-1])
            responses.append((ends[1] - ends[0]) / move.width)
        with torch.no_grad():
            for k, parameter in twin.named_parameters():
                parameter.copy_(home[k])
        variance = torch.stack(responses).square().mean(0)
        shrunk = (here / torch.sqrt(1 + math.pi * variance / 8)).softmax(-1)[chosen]
        near = {"rtol": 2e-4 if kind == "llama" else 1e-7, "atol": 1e-10}
        torch.testing.assert_close(found.probability[t], p, **near)
        torch.testing.assert_close(found.variance[t], variance[chosen], **near)
        torch.testing.assert_close(found.calibrated[t], shrunk, **near)
        ids.append(chosen)
    assert found.tokens == tuple(WORDS[i] for i in ids[3:])
    assert found.text.split() == [w for w in found.tokens if w[0] != "<"]
    assert found.log_prob == pytest.approx(float(found.probability.log().sum()))


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_greedy_text_is_that_of_generate(kind: str, tokenizer: Any) -> None:
    model = model_of(kind, torch.float32)
    ids = tokenizer(PROMPT, return_tensors="pt")["input_ids"]
    expected = model.generate(  # type: ignore[operator]
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False, pad_token_id=0
    )
    found = generate_with_uncertainty(model, tokenizer, PROMPT, max_new_tokens=8)
    assert expected[0, 3:].tolist() == found.ids.tolist()
    assert not found.variance.any() and torch.equal(found.probability, found.calibrated)


def test_sampling_repeats_by_its_seed_and_follows_the_probabilities() -> None:
    model = model_of("gpt2")

    def draw(seed: int, temperature: float = 1.0) -> list[int]:
        found = generate_with_uncertainty(
            model,
            None,
            [8, 3],
            max_new_tokens=1,
            sample=True,
            seed=seed,
            stop=(),
            temperature=temperature,
        )
        return found.ids.tolist()

    assert draw(5) == draw(5)
    counts = torch.zeros(10)
    for seed in range(600):
        counts[draw(seed, 2.0)[0]] += 1
    p = (outputs(model, [8, 3])[-1] / 2.0).softmax(-1)
    chi = float(((counts - 600 * p) ** 2 / (600 * p)).sum())
    assert chi < 27.9  # 99.9 % of χ² with 9 degrees of freedom


def test_each_of_several_prompts_is_answered_as_if_alone(tokenizer: Any) -> None:
    model = model_of("gpt2")
    prompts = [PROMPT, "a dog ran on the mat", "the"]
    settings: dict[str, Any] = {"max_new_tokens": 4, "sample": True, "seed": 3}
    together = generate_with_uncertainty(model, tokenizer, prompts, **settings)
    for prompt, found in zip(prompts, together, strict=True):
        alone = generate_with_uncertainty(model, tokenizer, prompt, **settings)
        assert torch.equal(found.ids, alone.ids) and found.text == alone.text
        assert torch.equal(found.probability, alone.probability)


def test_a_text_ends_where_the_network_ends_it() -> None:
    model = model_of("gpt2")
    long = generate_with_uncertainty(model, None, [8, 3, 5], max_new_tokens=8, stop=())
    last = long.ids.tolist()[2]
    short = generate_with_uncertainty(model, None, [8, 3, 5], max_new_tokens=8, stop=last)
    end = long.ids.tolist().index(last) + 1
    assert short.ids.tolist() == long.ids.tolist()[:end]
    assert len(short.probability) == end


def test_a_calibrated_estimator_brings_its_scale_and_predictive() -> None:
    model = model_of("gpt2")
    uq = estimator(model)
    predictive = Probit(regvar.Categorical())
    calibrated = Calibrated(uq, predictive, 4.0, 0.0, ScaleCurve((4.0,), (0.0,)), 1)
    once = generate_with_uncertainty(uq, None, [8, 3], max_new_tokens=4, stop=())
    found = generate_with_uncertainty(calibrated, None, [8, 3], max_new_tokens=4, stop=())
    torch.testing.assert_close(found.variance, 4.0 * once.variance)
    ids = torch.cat([found.prompt, found.ids])[None]
    probs = calibrated.predict({"input_ids": ids}).probs[0, 1:5]
    torch.testing.assert_close(found.calibrated, probs.gather(-1, found.ids[:, None])[:, 0])


def test_the_network_and_the_random_numbers_stay() -> None:
    model = lived_in(model_of("gpt2"))
    before = {**network_state(model), **global_state()}
    generate_with_uncertainty(model, None, [8, 3], max_new_tokens=4, sample=True)
    assert differences(before, {**network_state(model), **global_state()}) == []


def test_a_saved_network_by_its_directory(tmp_path: Path, tokenizer: Any) -> None:
    """What a hub name gives, from a folder."""
    model_of("llama", torch.float32).save_pretrained(tmp_path)  # type: ignore[operator]
    tokenizer.save_pretrained(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    words = AutoTokenizer.from_pretrained(tmp_path)
    found = generate_with_uncertainty(model, words, PROMPT, max_new_tokens=4, stop=())
    ids = [WORDS.index(w) for w in PROMPT.split()] + found.ids.tolist()
    p = outputs(model_of("llama", torch.float32), ids)[2:6].softmax(-1)
    expected = p.gather(-1, found.ids[:, None])[:, 0]
    torch.testing.assert_close(found.probability, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"max_new_tokens": 0}, ArgumentError, "max_new_tokens must be at least 1"),
        ({"max_new_tokens": 23}, ArgumentError, "together must be at most 24 tokens"),
        ({"temperature": 0.0}, ArgumentError, "temperature must be positive.*sample=False"),
        ({"prompt": "the cat"}, ArgumentError, "tokenizer must be given for a prompt of text"),
        ({"prompt": []}, DataError, "prompt must be a text or the ids of one"),
        ({"prompt": torch.ones(2, 3).long()}, DataError, "prompt must be a text or the ids"),
    ],
)
def test_what_cannot_be_continued_is_refused(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    settings: dict[str, Any] = {"prompt": [8, 3], **changes}
    with pytest.raises(error, match=message):
        generate_with_uncertainty(model_of("gpt2"), None, **settings)


def test_a_classifier_is_refused() -> None:
    with pytest.raises(ModelError, match=r"causal language model.*AutoModelForCausalLM"):
        generate_with_uncertainty(case_of("bert").model(), None, [1, 2])
