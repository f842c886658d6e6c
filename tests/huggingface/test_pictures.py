"""Images as batches: what the network's own processor makes of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import ViTImageProcessor

from regvar.data.datasets import Images
from regvar.errors import ArgumentError, DataError
from regvar.huggingface import encoding, vision

IMAGENET = vision.NETWORKS["mobilenet-v2"].processor()


def images(side: int = 16, channels: int = 3, labeled: bool = True) -> Images:
    generator = torch.Generator().manual_seed(side)
    pixels = torch.randint(256, (5, side, side, channels), generator=generator)
    labels = torch.tensor([0, 1, 1, 0, 1]) if labeled else None
    return Images(pixels.to(torch.uint8), labels, ("cat", "dog"))


def processor(side: int, **changes: Any) -> Any:
    settings = {
        "size": {"height": side, "width": side},
        "image_mean": vision.MEAN,
        "image_std": vision.STD,
        **changes,
    }
    return ViTImageProcessor(**settings)


def own(processor: Any, data: Images) -> Tensor:
    return processor(list(data.pixels.numpy()), return_tensors="pt")["pixel_values"]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"image_mean": [0.5] * 3, "image_std": [0.5] * 3},
        {"do_normalize": False},
        {"do_rescale": False, "image_mean": [127.5] * 3, "image_std": [60.0] * 3},
    ],
    ids=["imagenet", "minus-one-to-one", "unnormalized", "of-bytes"],
)
def test_pixels_are_normalized_as_the_processor_does_it(changes: dict[str, Any]) -> None:
    data, wanted = images(), processor(16, **changes)
    (batch,) = encoding.pictures(data, wanted)
    torch.testing.assert_close(batch["pixel_values"], own(wanted, data), rtol=1e-5, atol=1e-5)
    assert torch.equal(batch["labels"], data.labels)


@pytest.mark.parametrize("side", [8, 40])
def test_resizing_is_the_processors_up_to_its_rounding_to_bytes(side: int) -> None:
    data, wanted = images(), processor(side)
    batches = list(encoding.pictures(data, wanted, batch=2))
    values = torch.cat([batch["pixel_values"] for batch in batches])
    assert [len(batch["labels"]) for batch in batches] == [2, 2, 1]
    byte = 1 / 255 / min(vision.STD)
    torch.testing.assert_close(values, own(wanted, data), rtol=0, atol=1.01 * byte)


def test_the_side_is_ones_own_or_the_processors() -> None:
    def side(processor: Any, size: int | None = None) -> int:
        (batch,) = encoding.pictures(images(labeled=False), processor, size=size)
        assert batch.keys() == {"pixel_values"}
        return batch["pixel_values"].shape[-1]

    assert side(IMAGENET) == 224
    assert side(IMAGENET, 70) == 70
    cropped = processor(16, size={"shortest_edge": 20})
    assert side(cropped) == 20
    cropped.do_center_crop, cropped.crop_size = True, {"height": 18, "width": 18}
    assert side(cropped) == 18
    with pytest.raises(ArgumentError, match="size must be at least 1, but it is 0"):
        encoding.pictures(images(), IMAGENET, size=0)
    cropped.crop_size = {"longest_edge": 5}
    with pytest.raises(DataError, match=r"size must be given, .* Pass size="):
        encoding.pictures(images(), cropped)


def test_gray_images_have_one_value_in_three_colors() -> None:
    data = images(channels=1)
    color = Images(data.pixels.expand(-1, -1, -1, 3).contiguous(), data.labels, data.classes)
    (gray,), (same,) = (encoding.pictures(d, IMAGENET, size=8) for d in (data, color))
    assert torch.equal(gray["pixel_values"], same["pixel_values"])
