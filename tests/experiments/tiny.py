"""Networks, data and settings that take a second or two, for the fine-tuned studies."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    MobileNetV2Config,
    MobileNetV2ForImageClassification,
    PreTrainedTokenizerFast,
    ViTConfig,
    ViTForImageClassification,
    ViTImageProcessor,
)

from regvar.data import Images, Texts, loading
from regvar.experiments.finetuned.config import Config, Part

WORDS = ("dull", "poor", "slow", "fine", "warm", "good", "film", "plot", "cast", "end")
SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
TINY: dict[str, Any] = {
    "lam": (0.1, 1.0),
    "samples": 5,
    "passes": 3,
    "heads": 3,
    "epochs": 6,
    "lr": 1e-2,
    "refit_lr": 1e-3,
    "sampled_lr": 1e-3,
    "dropout": (0.05, 0.2),
    "head_precision": (0.1, 1.0),
    "batch": 8,
    "examples": 3,
}


def texts(seed: int) -> Texts:
    """Six words each; the label says whether more of them are from the second half of the good."""
    generator = torch.Generator().manual_seed(seed)
    places = torch.randint(len(WORDS), (80, 6), generator=generator)
    labels = ((places < 6) * (places.double() - 2.5)).sum(1) > 0
    return Texts(
        tuple(" ".join(WORDS[i] for i in row) for row in places.tolist()),
        labels.long(),
        ("negative", "positive"),
    )


def pictures(seed: int) -> Images:
    """Eight pixels a side, brighter for the second class."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(2, (80,), generator=generator)
    pixels = torch.randint(0, 160, (80, 8, 8, 3), generator=generator) + 60 * labels.view(
        -1, 1, 1, 1
    )
    return Images(pixels.to(torch.uint8), labels, ("dark", "bright"))


@dataclass(frozen=True)
class Place:
    """Where tiny networks and data are."""

    bert: str
    gpt2: str
    vit: str
    mobilenet: str


@contextmanager
def furnished(root: Path) -> Generator[Place]:
    """Networks below a folder, data by name, and a cache of their own, inside the block."""
    vocabulary = {word: k for k, word in enumerate(("[PAD]", "[UNK]", *WORDS))}
    words = Tokenizer(models.WordLevel(vocabulary, "[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]"
    )
    torch.manual_seed(0)
    bert = BertConfig(vocab_size=12, intermediate_size=8, max_position_embeddings=8, **SIZES)
    gpt2 = GPT2Config(vocab_size=12, n_embd=8, n_layer=1, n_head=2, n_positions=8)
    vit = ViTConfig(image_size=8, patch_size=4, intermediate_size=8, **SIZES)
    mobilenet = MobileNetV2Config(depth_multiplier=0.1, image_size=8, min_depth=8)
    size = {"height": 8, "width": 8}
    for name, network, reader in (
        ("bert", BertForSequenceClassification(bert), tokenizer),
        ("gpt2", GPT2LMHeadModel(gpt2), tokenizer),
        ("vit", ViTForImageClassification(vit), ViTImageProcessor(size=size)),
        ("mobilenet", MobileNetV2ForImageClassification(mobilenet), ViTImageProcessor(size=size)),
    ):
        network.save_pretrained(root / name)
        reader.save_pretrained(root / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGVAR_CACHE", str(root / "cache"))
        patch.setitem(loading.LOADERS, "words", lambda: {"all": texts(0)})
        patch.setitem(loading.LOADERS, "others", lambda: {"all": texts(1)})
        patch.setitem(loading.LOADERS, "squares", lambda: {"all": pictures(0)})
        yield Place(*(str(root / name) for name in ("bert", "gpt2", "vit", "mobilenet")))


def config(place: Place, kind: str) -> Config:
    images = {"vit": place.vit, "mobilenet": place.mobilenet}
    data = "squares" if kind in images else "words"
    parts = {
        "train": Part(data, "all", 40),
        "validation": Part(data, "all", 20, offset=40),
        "test": Part(data, "all", 16, offset=60),
    }
    if kind in images:
        noisy = Part(data, "all", 12, offset=60, corruption="noise-5")
        task = "image-classification"
        return Config(images[kind], task, **parts, shifts=(noisy,), pixels=8, **TINY)
    if kind == "gpt2":
        shift = (Part("others", "all", 8),)
        return Config(place.gpt2, "causal-lm", **parts, shifts=shift, classes=None, **TINY)
    shifts = (Part("others", "all", 20, labeled=False),)
    return Config(place.bert, "sequence-classification", **parts, shifts=shifts, tokens=8, **TINY)
