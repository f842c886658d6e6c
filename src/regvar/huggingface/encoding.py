"""Texts and images as batches that a network of `transformers` takes: dicts with `labels`.

Batches are padded to their own longest text, so that short texts cost little; the padding is
masked and never scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from regvar.batches import IGNORED
from regvar.data.datasets import Images, Texts
from regvar.errors import DataError, require

Row = dict[str, Any]


@dataclass(frozen=True)
class Pad:
    """Rows of tokens → one batch, each field filled up with a number of its own."""

    fill: Mapping[str, int]

    def __call__(self, rows: Sequence[Row]) -> dict[str, Tensor]:
        """One batch."""
        batch: dict[str, Tensor] = {}
        for name in rows[0]:
            values = [torch.as_tensor(row[name]) for row in rows]
            batch[name] = (
                torch.nn.utils.rnn.pad_sequence(values, True, float(self.fill.get(name, 0)))
                if values[0].dim()
                else torch.stack(values)
            )
        return batch


def classified_texts(
    data: Texts, tokenizer: Any, *, tokens: int = 128, batch: int = 16, shuffle: bool = False
) -> DataLoader[Row]:
    """Batches of texts with their labels, if they have any; texts longer than `tokens` are cut."""
    encoded = _encode(data.texts, tokenizer, tokens)
    labels = [None] * len(data) if data.labels is None else data.labels.tolist()
    rows = [
        row if label is None else {**row, "labels": label}
        for row, label in zip(encoded, labels, strict=True)
    ]
    return _loader(rows, tokenizer, batch, shuffle)


def language(
    texts: Sequence[str],
    tokenizer: Any,
    *,
    tokens: int = 128,
    batch: int = 4,
    shuffle: bool = False,
) -> DataLoader[Row]:
    """Batches of texts that are their own labels (the network moves them by one place)."""
    rows = [
        {**row, "labels": row["input_ids"]}
        for row in _encode(texts, tokenizer, tokens)
        if len(row["input_ids"]) > 1
    ]
    if not rows:
        raise DataError("texts must hold one of two tokens or more, but every one is shorter.")
    return _loader(rows, tokenizer, batch, shuffle)


def pictures(
    data: Images,
    processor: Any,
    *,
    size: int | None = None,
    batch: int = 16,
    shuffle: bool = False,
) -> DataLoader[Row]:
    """Batches of images with their labels, if they have any.

    Args:
        data: color or gray images.
        processor: the network's image processor; its mean and standard deviation normalize.
        size: pixels a side, reached by bilinear interpolation; the processor's own by default.
        batch: images a batch.
        shuffle: a new order on each pass.
    """
    side = _side(processor) if size is None else size
    require(side >= 1, "size", "at least 1", size)
    scale, shift = _normalization(processor)
    pixels = data.pixels.movedim(-1, 1)
    pixels = pixels.expand(-1, 3, -1, -1) if pixels.shape[1] == 1 else pixels
    labels = data.labels

    def collate(index: Sequence[int]) -> dict[str, Tensor]:
        chosen = torch.tensor(list(index))
        values = torch.nn.functional.interpolate(
            pixels[chosen].float(), size=(side, side), mode="bilinear", antialias=True
        )
        made = {"pixel_values": values * scale + shift}
        return made if labels is None else {**made, "labels": labels[chosen]}

    rows: Any = range(len(data))
    return DataLoader(rows, batch_size=batch, shuffle=shuffle, collate_fn=collate)


def _side(processor: Any) -> int:
    """Of the square that the processor hands on: the least side that it knows."""
    cropped = getattr(processor, "do_center_crop", False)
    sides = dict(processor.crop_size if cropped else processor.size)
    found = [sides[k] for k in ("height", "width", "shortest_edge") if sides.get(k)]
    if not found:
        raise DataError(
            f"size must be given, since the processor has none of one square, but {sides}. "
            "Pass size=..., in pixels a side."
        )
    return int(min(found))


def _normalization(processor: Any) -> tuple[Tensor, Tensor]:
    """Factor and summand of each color, [3, 1, 1], for pixels in 0 … 255."""
    unit = float(processor.rescale_factor) if processor.do_rescale else 1.0
    if not processor.do_normalize:
        return torch.full((3, 1, 1), unit), torch.zeros(3, 1, 1)
    mean, std = (
        torch.tensor(v).view(-1, 1, 1) for v in (processor.image_mean, processor.image_std)
    )
    return unit / std, -mean / std


def _encode(texts: Sequence[str], tokenizer: Any, tokens: int) -> list[Row]:
    require(tokens >= 1, "tokens", "at least 1", tokens)
    require(len(texts) > 0, "texts", "one or more", len(texts))
    fields = dict(tokenizer(list(texts), truncation=True, max_length=tokens))
    wanted = [name for name in ("input_ids", "token_type_ids", "attention_mask") if name in fields]
    return [{name: fields[name][i] for name in wanted} for i in range(len(texts))]


def _loader(rows: list[Row], tokenizer: Any, batch: int, shuffle: bool) -> DataLoader[Row]:
    fill = {"input_ids": int(tokenizer.pad_token_id), "labels": IGNORED}
    data: Any = rows
    return DataLoader(data, batch_size=batch, shuffle=shuffle, collate_fn=Pad(fill))
