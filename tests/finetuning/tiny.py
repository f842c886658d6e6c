"""Networks of a few hundred parameters saved in directories, and data that they can learn."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    ViTConfig,
    ViTForImageClassification,
    ViTImageProcessorPil,
)

GOOD, BAD = ("good", "fine", "warm", "bright"), ("bad", "dull", "cold", "grim")
OTHER = ("film", "book", "song", "meal", "very", "quite", "rather", "the")
WORDS = ("[PAD]", "[UNK]", "[END]", *GOOD, *BAD, *OTHER)
SIDE = 8


def tokenizer() -> PreTrainedTokenizerFast:
    """One token for each word of `WORDS`."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({word: k for k, word in enumerate(WORDS)}, "[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]", eos_token="[END]"
    )


def bert(folder: Path, width: int = 8, spread: float = 0.02) -> Path:
    """A classifier of texts; `spread` is the standard deviation of its weights."""
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=width,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=width,
        max_position_embeddings=12,
        initializer_range=spread,
    )
    return _saved(BertForSequenceClassification, config, tokenizer(), folder)


def gpt2(folder: Path) -> Path:
    """A language model."""
    config = GPT2Config(
        vocab_size=len(WORDS),
        n_positions=12,
        n_embd=8,
        n_layer=1,
        n_head=2,
        bos_token_id=2,
        eos_token_id=2,
    )
    return _saved(GPT2LMHeadModel, config, tokenizer(), folder)


def vit(folder: Path) -> Path:
    """A classifier of images."""
    config = ViTConfig(
        image_size=SIDE,
        patch_size=4,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
    )
    processor = ViTImageProcessorPil(size={"height": SIDE, "width": SIDE})
    return _saved(ViTForImageClassification, config, processor, folder)


def sentences(count: int, seed: int = 0, wrong: float = 0.0) -> list[tuple[str, str]]:
    """Texts with a label that most of their words agree with; some have a word of the other.

    Of a share `wrong` the label is the other one: so much confidence is too much.
    """
    generator = torch.Generator().manual_seed(seed)

    def one_of(words: tuple[str, ...]) -> str:
        return words[int(torch.randint(len(words), (1,), generator=generator))]

    rows: list[tuple[str, str]] = []
    for k in range(count):
        kind, other = ((GOOD, BAD), (BAD, GOOD))[k % 2]
        words = [one_of(OTHER), one_of(kind), one_of(OTHER), one_of(kind), one_of(kind)]
        if float(torch.rand(1, generator=generator)) < 0.3:
            words[1] = one_of(other)
        flipped = float(torch.rand(1, generator=generator)) < wrong
        rows.append((" ".join(words), ("positive", "negative")[(k + flipped) % 2]))
    return rows


def table(
    path: Path, rows: list[tuple[str, str]], columns: tuple[str, str] = ("text", "label")
) -> Path:
    """A CSV or JSON lines file."""
    if path.suffix == ".jsonl":
        lines = [json.dumps(dict(zip(columns, row, strict=True))) for row in rows]
        path.write_text("\n".join(lines), encoding="utf-8")
        return path
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([columns, *rows])
    return path


def pictures(root: Path, each: int, contrast: int = 60) -> Path:
    """Noise, brighter above in one class and below in the other, in a folder for each."""
    from PIL import Image

    generator = torch.Generator().manual_seed(5)
    for name, rows in (("above", slice(0, SIDE // 2)), ("below", slice(SIDE // 2, SIDE))):
        (root / name).mkdir(parents=True)
        for k in range(each):
            pixels = torch.randint(60, 120, (SIDE, SIDE, 3), generator=generator)
            pixels[rows] += contrast
            image = Image.frombytes("RGB", (SIDE, SIDE), bytes(pixels.flatten().tolist()))
            image.save(root / name / f"{k:02d}.png")
    return root


def written(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file that a run has written."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def _saved(kind: Any, config: Any, processor: Any, folder: Path) -> Path:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        kind(config).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
