"""The shared table of networks: real modules, tiny and seeded, with data, likelihood and queries.

A case builds everything anew on each call, from its own seeds, so no test can leak into another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import regvar

from . import modules
from .modules import CLASSES, VOCABULARY

Batch = Any
PRECISION = 2.0
SIGMA = 0.5
SIGMAS = torch.tensor([[0.5, 1.0, 0.25], [1.0, 0.5, 2.0]])


@dataclass(frozen=True)
class NetworkCase:
    """One network with its data; `outputs` is the shape of one example's output f(x)."""

    name: str
    build: Callable[[], nn.Module]
    examples: Callable[[int, int, torch.dtype], Batch]  # (count, seed, dtype) -> one batch
    likelihood: Callable[[], Any]
    outputs: tuple[int, ...]
    queries: int = 3
    forward: Callable[[nn.Module, Batch], tuple[Tensor, Any]] | None = None
    rounding: float = 1e-8  # relative; Llama computes in float32 inside a float64 network

    def model(self, dtype: torch.dtype = torch.float64, seed: int = 0) -> nn.Module:
        """The network itself, in eval mode."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.build().to(dtype).eval()

    def data(self, dtype: torch.dtype = torch.float64, size: int = 3) -> list[Batch]:
        """Five examples as a list of batches of the given size (the last may be smaller)."""
        return batched(self.examples(5, 1, dtype), size)

    def query_batch(self, dtype: torch.dtype = torch.float64) -> Batch:
        """The query inputs in the loader's own form."""
        return self.examples(self.queries, 2, dtype)

    def query(self, dtype: torch.dtype = torch.float64) -> Batch:
        """The query inputs alone (for a user's own `forward`: the batch, which is all there is)."""
        batch = self.query_batch(dtype)
        return batch if self.forward else split(batch)[0]

    def output(self, model: nn.Module, batch: Batch) -> Tensor:
        """f(x) as the network's owner would compute it, from a batch in the loader's own form."""
        if self.forward:
            return self.forward(model, batch)[0]
        x = split(batch)[0]
        result = model(**x) if isinstance(x, dict) else model(x)
        return result if isinstance(result, Tensor) else result.logits

    def joint(
        self, dtype: torch.dtype = torch.float64, model: nn.Module | None = None, data: Any = None
    ) -> regvar.LogJoint:
        """A log joint on a fresh network, or on the given one."""
        return regvar.LogJoint(
            self.model(dtype) if model is None else model,
            self.data(dtype) if data is None else data,
            likelihood=self.likelihood(),
            prior=regvar.GaussianPrior(precision=PRECISION),
            forward=self.forward,
        )


def split(batch: Batch) -> tuple[Any, Any]:
    """Inputs and targets of a batch in one of the two standard forms."""
    if isinstance(batch, dict):
        return {k: v for k, v in batch.items() if k != "labels"}, batch["labels"]
    return batch


def rows(batch: Batch, index: Any) -> Batch:
    """The examples `index` of a batch, of whatever form it has."""
    if isinstance(batch, Tensor):
        return batch[index]
    if isinstance(batch, dict):
        return {name: rows(value, index) for name, value in batch.items()}
    return type(batch)(rows(value, index) for value in batch)


def count(batch: Batch) -> int:
    """How many examples a batch holds."""
    while not isinstance(batch, Tensor):
        batch = next(iter(batch.values() if isinstance(batch, dict) else batch))
    return len(batch)


def batched(examples: Batch, size: int) -> list[Batch]:
    """The examples cut into batches of `size`."""
    n = count(examples)
    return [rows(examples, slice(i, min(i + size, n))) for i in range(0, n, size)]


def normal(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Standard normal numbers, the same to rounding in each dtype."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def integers(high: int, *shape: int, seed: int, low: int = 0) -> Tensor:
    """Uniform integers in [low, high)."""
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))


def regression(n: int, seed: int, dtype: torch.dtype) -> Batch:
    return normal(n, 3, seed=seed, dtype=dtype), normal(n, 2, seed=seed + 10, dtype=dtype)


def images(n: int, seed: int, dtype: torch.dtype) -> Batch:
    return normal(n, 1, 6, 6, seed=seed, dtype=dtype), integers(CLASSES, n, seed=seed + 10)


def masks(n: int, seed: int, dtype: torch.dtype) -> Batch:
    """A label for each pixel; the first pixel of each image has none."""
    labels = integers(CLASSES, n, 2, 2, seed=seed + 10)
    labels[:, 0, 0] = -1
    return normal(n, 1, 4, 4, seed=seed, dtype=dtype), labels


def series(n: int, seed: int, dtype: torch.dtype) -> Batch:
    return normal(n, 4, 2, seed=seed, dtype=dtype), integers(CLASSES, n, seed=seed + 10)


def named(n: int, seed: int, dtype: torch.dtype) -> Batch:
    left = normal(n, 2, seed=seed, dtype=dtype)
    right = normal(n, 3, seed=seed + 10, dtype=dtype)
    return {"left": left, "right": right}, normal(n, 2, 3, seed=seed + 20, dtype=dtype)


def sentences(n: int, seed: int, _: torch.dtype) -> Batch:
    ids = integers(6, n, 4, seed=seed)
    return ids, ids.roll(-1, 1)


def tokens(n: int, length: int, seed: int) -> dict[str, Tensor]:
    """Token sequences, every other one padded with 0 to the right."""
    ids = integers(VOCABULARY, n, length, seed=seed, low=1)
    mask = torch.ones_like(ids)
    mask[::2, -1] = 0
    return {"input_ids": ids * mask, "attention_mask": mask}


def causal(n: int, seed: int, _: torch.dtype) -> Batch:
    batch = tokens(n, 3, seed)
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    return {**batch, "labels": labels}


def classified(n: int, seed: int, _: torch.dtype) -> Batch:
    return {**tokens(n, 4, seed), "labels": integers(CLASSES, n, seed=seed + 10)}


def pixels(n: int, seed: int, dtype: torch.dtype) -> Batch:
    values = normal(n, 1, 4, 4, seed=seed, dtype=dtype)
    return {"pixel_values": values, "labels": integers(CLASSES, n, seed=seed + 10)}


def rated(n: int, seed: int, dtype: torch.dtype) -> Batch:
    """Batches of a form of the user's own: (features, weight, rating)."""
    weight = normal(n, 1, seed=seed + 20, dtype=dtype)
    return normal(n, 3, seed=seed, dtype=dtype), weight, integers(2, n, seed=seed + 10)


def rated_forward(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    features, weight, rating = batch
    outputs, _ = model(features, scale=weight)
    return outputs, rating.to(outputs.dtype).unsqueeze(-1)


def gaussian() -> Any:
    return regvar.Gaussian(sigma=SIGMA)


def gaussians() -> Any:
    return regvar.Gaussian(sigma=SIGMAS)


def pixelwise() -> Any:
    return regvar.Categorical(ignore_index=-1, class_dim=1)


C, V = (CLASSES,), (3, VOCABULARY)
LABELS = regvar.Categorical
CASES = [
    NetworkCase("mlp", modules.mlp, regression, gaussian, (2,)),
    NetworkCase("cnn", modules.cnn, images, LABELS, C),
    NetworkCase("segmenter", modules.segmenter, masks, pixelwise, (CLASSES, 2, 2), queries=2),
    NetworkCase("lstm", modules.Recurrent, series, LABELS, C),
    NetworkCase("encoder", modules.Encoder, series, LABELS, C),
    NetworkCase("gpt2", modules.gpt2, causal, LABELS, V, queries=2),
    NetworkCase("llama", modules.llama, classified, LABELS, C, rounding=2e-4),
    NetworkCase("bert", modules.bert, classified, LABELS, C),
    NetworkCase("vit", modules.vit, pixels, LABELS, C),
    NetworkCase("tied", modules.Tied, sentences, LABELS, (4, 6), queries=2),
    NetworkCase("frozen", modules.frozen, regression, gaussian, (2,)),
    NetworkCase("lora_gpt2", modules.lora_gpt2, causal, LABELS, V, queries=2),
    NetworkCase("lora_llama", modules.lora_llama, classified, LABELS, C, rounding=2e-4),
    NetworkCase("two_heads", modules.TwoHeads, named, gaussians, (2, 3)),
    NetworkCase("rater", modules.Rater, rated, regvar.Bernoulli, (1,), forward=rated_forward),
]
BY_NAME = {case.name: case for case in CASES}
