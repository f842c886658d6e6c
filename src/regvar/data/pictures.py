"""CIFAR-10, MNIST and Fashion-MNIST."""

from __future__ import annotations

import gzip
import json
import math
import struct
from pathlib import Path

import torch
from torch import Tensor

from regvar.data.catalogue import SOURCES
from regvar.data.datasets import Images
from regvar.data.png import read_rgb
from regvar.errors import DataError

CIFAR10_CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
DIGITS = tuple("0123456789")
FASHION_CLASSES = (
    "T-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
_SIDE = 32


def cifar10() -> dict[str, Images]:
    """Krizhevsky (2009): `train` of 50,000 and `test` of 10,000, 32×32×3.

    In the package each line of a picture is one image, its pixels one after the other.
    """
    *batches, train_labels, test, test_labels = SOURCES["cifar10"].fetch()
    return {
        "train": _cifar10(batches, train_labels),
        "test": _cifar10([test], test_labels),
    }


def mnist() -> dict[str, Images]:
    """LeCun et al. (1998): `train` of 60,000 and `test` of 10,000, 28×28×1."""
    return _idx_images("mnist", DIGITS)


def fashion_mnist() -> dict[str, Images]:
    """Xiao et al. (2017): `train` of 60,000 and `test` of 10,000, 28×28×1."""
    return _idx_images("fashion-mnist", FASHION_CLASSES)


def read_idx(path: Path) -> Tensor:
    """The bytes of an idx file, gzipped or not, in its own shape."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        data = stream.read()
    zeros, kind, dimensions = struct.unpack_from(">HBB", data)
    if zeros or kind != 8:
        raise DataError(f"{path.name} must be an idx file of bytes, but does not begin like one.")
    shape = struct.unpack_from(f">{dimensions}I", data, 4)
    body = data[4 + 4 * dimensions :]
    if len(body) != math.prod(shape):
        raise DataError(f"{path.name} must hold {shape} bytes, but holds {len(body)}.")
    return torch.frombuffer(bytearray(body), dtype=torch.uint8).view(shape)


def _idx_images(name: str, classes: tuple[str, ...]) -> dict[str, Images]:
    train, train_labels, test, test_labels = (read_idx(p) for p in SOURCES[name].fetch())
    return {
        "train": Images(train[..., None], train_labels.long(), classes),
        "test": Images(test[..., None], test_labels.long(), classes),
    }


def _cifar10(pictures: list[Path], labels: Path) -> Images:
    pixels = torch.cat([read_rgb(p).view(-1, _SIDE, _SIDE, 3) for p in pictures])
    return Images(pixels, torch.tensor(json.loads(labels.read_text())), CIFAR10_CLASSES)
