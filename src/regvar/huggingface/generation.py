"""Text with what the network does not know about each of its tokens.

At each new token y, predicted by the logits f at the place before it:

    probability  p_y = softmax(f)_y           variance  σ²_y of the logit f_y    (Eq. 7, 12)
    calibrated   softmax(κ ⊙ f)_y,  κ_c = 1/√(1 + π s σ²_c / 8)                  (Eq. 20)

The tokens are chosen by the network itself, greedily or by its probabilities. Then one reading of
the finished sequence gives the moments at all places at once: a causal network's outputs at a
place do not depend on what comes after it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn

from regvar.calibration import Calibrated
from regvar.errors import ArgumentError, DataError, ModelError, require
from regvar.estimators.protocol import Estimator
from regvar.huggingface.objective import is_causal
from regvar.likelihoods import Categorical
from regvar.likelihoods.protocol import full_precision
from regvar.network import Network
from regvar.predictives import Classification, Probit
from regvar.results import Moments


@dataclass(frozen=True)
class Generation:
    """A continuation and, for each of its tokens, how sure the network is of it."""

    prompt: Tensor = field(repr=False)  # ids of the prompt, [places]
    ids: Tensor = field(repr=False)  # ids of the new tokens, [new]
    tokens: tuple[str, ...]  # each new token alone
    text: str  # the new tokens together, without special ones
    probability: Tensor  # p_y of the network, [new]
    variance: Tensor  # σ²_y of the chosen token's logit, [new]; 0 for a bare network
    calibrated: Tensor  # p_y of the predictive, which knows the variance, [new]

    @property
    def std(self) -> Tensor:
        """σ_y, [new]."""
        return self.variance.sqrt()

    @property
    def log_prob(self) -> float:
        """log p of the continuation, given the prompt."""
        return float(self.probability.log().sum())


def generate_with_uncertainty(
    model_or_uq: nn.Module | Estimator,
    tokenizer: Any,
    prompt: str | Sequence[str] | Tensor | Sequence[int],
    *,
    max_new_tokens: int = 32,
    sample: bool = False,
    temperature: float = 1.0,
    seed: int = 0,
    stop: int | Iterable[int] | None = None,
) -> Any:
    """Continue a prompt, or each of several, and say how sure each new token is.

    Args:
        model_or_uq: an estimator of a causal language model, calibrated (`calibrate`) or not, in
            which case the scale of its variance is 1; a bare network has no variance.
        tokenizer: turns texts into ids and back; `None` for prompts of ids.
        prompt: a text, a list of texts, or the ids of one prompt.
        max_new_tokens: fewer where the text ends.
        sample: draw tokens by their probabilities; otherwise take the most probable.
        temperature: divides the logits that tokens are drawn by; the figures are those at 1.
        seed: of the draws; each prompt has its own stream, whatever stands beside it.
        stop: ids that end a text; those of the network's generation settings by default.

    Returns:
        A `Generation`, or a list of them for a list of texts.

    >>> import torch
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> tiny = GPT2Config(vocab_size=5, n_embd=4, n_layer=1, n_head=1, n_positions=8)
    >>> model = GPT2LMHeadModel(tiny).eval()
    >>> found = generate_with_uncertainty(model, None, [1, 2], max_new_tokens=3, stop=())
    >>> found.probability.shape, bool((found.probability == found.calibrated).all())
    (torch.Size([3]), True)
    """
    require(max_new_tokens >= 1, "max_new_tokens", "at least 1", max_new_tokens)
    positive = math.isfinite(temperature) and temperature > 0
    require(positive, "temperature", "positive", temperature, "Use sample=False for greed.")
    uq = None if isinstance(model_or_uq, nn.Module) else model_or_uq
    network = Network(model_or_uq) if isinstance(model_or_uq, nn.Module) else model_or_uq.network
    if not is_causal(network.model):
        raise ModelError(
            f"model must be a causal language model, but {type(network.model).__name__} is none. "
            "Load it with AutoModelForCausalLM."
        )
    several = _is_texts(prompt)
    prompts = list(cast("Sequence[str]", prompt)) if several else [prompt]
    ends = _ends(network.model, stop)
    found: list[Generation] = []
    with torch.no_grad(), network.guard():
        network.model.eval()
        for each in prompts:
            ids = _encoded(tokenizer, each).to(network.device)
            generator = torch.Generator().manual_seed(seed) if sample else None
            new = _continue(network, ids, max_new_tokens, generator, temperature, ends)
            found.append(_read(network, uq, tokenizer, ids, new))
    return found if several else found[0]


def _continue(
    network: Network,
    prompt: Tensor,
    count: int,
    generator: torch.Generator | None,
    temperature: float,
    ends: frozenset[int],
) -> Tensor:
    """New ids, one forward pass each over what the network has not seen yet."""
    model: Any = network.model
    limit = _room(model)
    require(
        limit is None or len(prompt) + count <= limit,
        "prompt and max_new_tokens together",
        f"at most {limit} tokens, the network's places",
        len(prompt) + count,
    )
    cache, fresh, new = None, prompt[None], list[int]()
    for _ in range(count):
        outputs = model(input_ids=fresh, past_key_values=cache, use_cache=True)
        cache, logits = outputs.past_key_values, full_precision(outputs.logits[0, -1])
        new.append(_choose(logits, generator, temperature))
        if new[-1] in ends:
            break
        fresh = torch.tensor([new[-1:]], device=prompt.device)
    return torch.tensor(new, device=prompt.device)


def _choose(logits: Tensor, generator: torch.Generator | None, temperature: float) -> int:
    """The most probable id, or one drawn on the CPU: the same numbers on every device."""
    if generator is None:
        return int(logits.argmax())
    p = (logits.double() / temperature).softmax(-1).cpu()
    return int(torch.multinomial(p, 1, generator=generator))


def _read(
    network: Network, uq: Estimator | None, tokenizer: Any, prompt: Tensor, new: Tensor
) -> Generation:
    """The moments at the places before the new tokens, and what follows from them."""
    ids = torch.cat([prompt, new])[None]
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    places = slice(len(prompt) - 1, len(prompt) + len(new) - 1)
    if uq is None:
        mean = full_precision(network.outputs(batch))[0, places]
        moments = Moments(mean, torch.zeros_like(mean))
    else:
        whole = uq.moments(batch)
        moments = Moments(full_precision(whole.mean)[0, places], whole.variance[0, places])
    y = new[:, None]
    predictive = uq.predictive if isinstance(uq, Calibrated) else Probit(Categorical())
    prediction = predictive.predict(moments)
    if not isinstance(prediction, Classification):
        raise ArgumentError(
            f"uq must be calibrated with a predictive for labels, but it is {predictive!r}."
        )
    text = "" if tokenizer is None else str(tokenizer.decode(new, skip_special_tokens=True))
    pieces = () if tokenizer is None else tuple(str(tokenizer.decode([i])) for i in new.tolist())
    return Generation(
        prompt,
        new,
        pieces,
        text,
        moments.mean.softmax(-1).gather(-1, y).squeeze(-1),
        moments.variance.gather(-1, y).squeeze(-1),
        prediction.probs.gather(-1, y).squeeze(-1),
    )


def _encoded(tokenizer: Any, prompt: Any) -> Tensor:
    """Ids of one prompt, [places]."""
    if isinstance(prompt, str):
        require(tokenizer is not None, "tokenizer", "given for a prompt of text", None)
        ids = torch.as_tensor(cast("Mapping[str, Any]", tokenizer(prompt))["input_ids"])
    else:
        ids = torch.as_tensor(prompt)
    ids = ids.squeeze(0) if ids.dim() == 2 and len(ids) == 1 else ids
    if ids.dim() != 1 or not len(ids) or ids.is_floating_point():
        raise DataError(
            f"prompt must be a text or the ids of one, at least one token, but has the shape "
            f"{tuple(ids.shape)}. Begin an empty text with the tokenizer's bos_token."
        )
    return ids.long()


def _is_texts(prompt: Any) -> bool:
    if isinstance(prompt, str | Tensor):
        return False
    return len(prompt) > 0 and isinstance(prompt[0], str)


def _ends(model: nn.Module, stop: int | Iterable[int] | None) -> frozenset[int]:
    """The ids after which nothing comes."""
    if stop is None:
        stop = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    if stop is None:
        return frozenset()
    return frozenset([stop] if isinstance(stop, int) else stop)


def _room(model: nn.Module) -> int | None:
    """How many places the network knows."""
    config = getattr(model, "config", None)
    return getattr(config, "max_position_embeddings", None)
