"""Each corruption against the formula of its table, by numpy and scipy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import ndimage, stats

from regvar.data.corruptions import BLUR, CONTRAST, NOISE, Blur, Contrast, Corruption, GaussianNoise
from regvar.data.datasets import Images
from regvar.errors import ArgumentError

STRENGTHS = [1, 2, 3, 4, 5]


def pictures(n: int = 6, height: int = 32, width: int = 32, seed: int = 0) -> Images:
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (n, height, width, 3), generator=generator)
    return Images(pixels.to(torch.uint8), torch.arange(n) % 2, ("a", "b"))


def to_bytes(x: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(x), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("shape", [(32, 32), (28, 28), (40, 64), (5, 3)])
def test_blur_is_scipy_s(strength: int, shape: tuple[int, int]) -> None:
    images = pictures(3, *shape)
    sigma = BLUR[strength - 1] * min(shape) / 32
    x = images.pixels.numpy().astype(float)
    truth = ndimage.gaussian_filter(x, (0, sigma, sigma, 0), mode="mirror", truncate=4.0)
    assert np.array_equal(Blur(strength)(images).pixels.numpy(), to_bytes(truth))


@pytest.mark.parametrize("strength", STRENGTHS)
def test_contrast_is_the_formula(strength: int) -> None:
    images = pictures(300, 4, 4)  # more than are done at once
    x = images.pixels.numpy().astype(int)
    mean = x.sum(axis=(1, 2), keepdims=True) / 16
    truth = to_bytes(mean + CONTRAST[strength - 1] * (x - mean))
    assert np.array_equal(Contrast(strength)(images).pixels.numpy(), truth)


@pytest.mark.parametrize("strength", STRENGTHS)
def test_noise_has_its_size_and_shape(strength: int) -> None:
    gray = torch.randint(120, 136, (40, 16, 16, 3), generator=torch.Generator().manual_seed(1))
    images = Images(gray.to(torch.uint8))
    added = (GaussianNoise(strength)(images).pixels.int() - gray).flatten().numpy() / 255
    sigma = NOISE[strength - 1]
    inside = np.abs(added) < 0.45  # what is not clipped at black or white
    standard = stats.truncnorm(-0.45 / sigma, 0.45 / sigma, scale=sigma)
    spread = added[inside].std()
    # A standard deviation's relative error is 1/√(2n), and rounding to bytes adds 1/12 of a unit.
    expected = np.sqrt(standard.var() + (1 / 255) ** 2 / 12)
    assert spread == pytest.approx(expected, rel=5 / np.sqrt(2 * inside.sum()))
    assert abs(added[inside].mean()) < 5 * sigma / np.sqrt(inside.sum())


def test_noise_is_the_same_at_every_strength_up_to_its_size() -> None:
    flat = Images(torch.full((1, 32, 32, 3), 128, dtype=torch.uint8))
    one, three = (GaussianNoise(k)(flat).pixels.double() - 128 for k in (1, 3))
    assert (three - 3 * one).abs().max() <= 2  # half a unit of rounding, three times and once


def test_noise_follows_its_seed_and_differs_between_images() -> None:
    images = pictures(2)
    assert torch.equal(GaussianNoise(3, 5)(images).pixels, GaussianNoise(3, 5)(images).pixels)
    assert not torch.equal(GaussianNoise(3, 5)(images).pixels, GaussianNoise(3, 6)(images).pixels)
    noise = GaussianNoise(1)(images).pixels.double() - images.pixels
    correlation = torch.corrcoef(noise.view(2, -1))[0, 1]
    assert abs(float(correlation)) < 0.1


@pytest.mark.parametrize("corruption", [GaussianNoise(4), Blur(4), Contrast(4)])
class TestEveryCorruption:
    def test_rows_do_not_see_each_other(self, corruption: Corruption) -> None:
        images = pictures(9)
        order = [4, 0, 8, 2]
        chosen = corruption(images.take(order))
        assert torch.equal(chosen.pixels, corruption(images).take(order).pixels)

    def test_labels_stay_and_the_original_too(self, corruption: Corruption) -> None:
        images = pictures()
        before = images.pixels.clone()
        state = torch.get_rng_state()
        changed = corruption(images)
        assert torch.equal(images.pixels, before)
        assert torch.equal(torch.get_rng_state(), state)
        assert changed.labels is images.labels
        assert changed.classes == images.classes

    def test_works_on_one_channel(self, corruption: Corruption) -> None:
        gray = Images(pictures().pixels[..., :1])
        assert corruption(gray).pixels.shape == gray.pixels.shape


@pytest.mark.parametrize("kind", [GaussianNoise, Blur, Contrast])
@pytest.mark.parametrize("strength", [0, 6, 2.5])
def test_strength_is_one_of_five(kind: type[Blur], strength: int) -> None:
    with pytest.raises(ArgumentError, match="strength must be one of 1, 2, 3, 4, 5, but it is"):
        kind(strength)
