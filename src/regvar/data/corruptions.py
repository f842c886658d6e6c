"""Corruptions of images at five strengths: noise, blur, loss of contrast.

Made here in torch alone, for shifts of known size; they are not the published corruption
benchmarks. With x the pixels in 0 … 255 and the result rounded and clipped to uint8 again:

| corruption | formula | strengths 1 … 5 |
|---|---|---|
| `GaussianNoise` | x + 255 σ ε, ε ~ N(0, 1) per pixel and channel | σ = .04, .08, .12, .18, .26 |
| `Blur` | x ∗ Gaussian of σ · side / 32 pixels, mirrored at the edges | σ = .4, .6, .8, 1.1, 1.5 |
| `Contrast` | m + c (x − m), m the mean over the image and channel | c = .75, .5, .35, .2, .1 |

Sums of whole numbers are exact, so that no machine rounds a tie another way.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from regvar.data.datasets import Images
from regvar.errors import require

NOISE = (0.04, 0.08, 0.12, 0.18, 0.26)
BLUR = (0.4, 0.6, 0.8, 1.1, 1.5)
CONTRAST = (0.75, 0.5, 0.35, 0.2, 0.1)
_CHUNK = 256
_REACH = 4.0  # of the blur's kernel, in standard deviations


class Corruption(Protocol):
    """Changes pixels, leaves labels."""

    def __call__(self, images: Images) -> Images:
        """The corrupted images."""
        ...


@dataclass(frozen=True)
class GaussianNoise:
    """Independent noise on each pixel: x + 255 σ ε.

    An image's ε follows from the seed and the image itself, so neither the order of the images nor
    which others are there matters; it is the same at every strength.
    """

    strength: int  # 1 … 5
    seed: int = 0

    def __post_init__(self) -> None:
        _check(self.strength)

    def __call__(self, images: Images) -> Images:
        """The noisy images."""
        sigma = 255 * NOISE[self.strength - 1]
        noisy = torch.empty_like(images.pixels)
        for k, image in enumerate(images.pixels):
            noisy[k] = _to_bytes(image.double() + sigma * self._noise(image))
        return Images(noisy, images.labels, images.classes)

    def _noise(self, image: Tensor) -> Tensor:
        content = image.contiguous().numpy().tobytes()
        digest = hashlib.sha256(str(self.seed).encode() + b"\0" + content).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
        return torch.randn(image.shape, generator=generator, dtype=torch.float64)


@dataclass(frozen=True)
class Blur:
    """Convolution with a Gaussian, cut off at four standard deviations."""

    strength: int  # 1 … 5

    def __post_init__(self) -> None:
        _check(self.strength)

    def __call__(self, images: Images) -> Images:
        """The blurred images."""
        blurred = images.pixels.clone()
        for rows in torch.arange(len(images)).split(_CHUNK):
            x = images.pixels[rows].double()
            for axis in (1, 2):
                x = self._along(x, axis)
            blurred[rows] = _to_bytes(x)
        return Images(blurred, images.labels, images.classes)

    def _along(self, x: Tensor, axis: int) -> Tensor:
        side = x.shape[axis]
        sigma = BLUR[self.strength - 1] * min(x.shape[1:3]) / 32
        reach = int(_REACH * sigma + 0.5)
        offsets = torch.arange(-reach, reach + 1)
        weights = torch.exp(-0.5 * (offsets / sigma).double().square())
        weights = weights / weights.sum()
        place = (torch.arange(side) + offsets[:, None]).remainder(max(2 * side - 2, 1))
        mirrored = torch.minimum(place, max(2 * side - 2, 1) - place)  # … 2 1 0 1 2 …
        total = torch.zeros_like(x)
        for weight, index in zip(weights, mirrored, strict=True):
            total += weight * x.index_select(axis, index)
        return total


@dataclass(frozen=True)
class Contrast:
    """Pixels drawn towards the mean of their image and channel."""

    strength: int  # 1 … 5

    def __post_init__(self) -> None:
        _check(self.strength)

    def __call__(self, images: Images) -> Images:
        """The flattened images."""
        kept = CONTRAST[self.strength - 1]
        flat = images.pixels.clone()
        for rows in torch.arange(len(images)).split(_CHUNK):
            x = images.pixels[rows].double()
            mean = x.sum(dim=(1, 2), keepdim=True) / (x.shape[1] * x.shape[2])
            flat[rows] = _to_bytes(mean + kept * (x - mean))
        return Images(flat, images.labels, images.classes)


def _check(strength: int) -> None:
    require(strength in range(1, 6), "strength", "one of 1, 2, 3, 4, 5", strength)


def _to_bytes(x: Tensor) -> Tensor:
    return x.round().clamp(0, 255).to(torch.uint8)
