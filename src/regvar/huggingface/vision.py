"""Vision networks that ship in another form than `transformers`': ONNX, or torchvision's `.pth`.

Their weights get the names that the model hub has for them, and `transformers` does the rest. Each
weight of a file is used or named as left out, and each parameter of the network but the new head's
comes out of the file; anything else is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import Dinov2ForImageClassification, MobileNetV2ForImageClassification

from regvar.errors import ModelError
from regvar.huggingface import onnx_weights
from regvar.huggingface.quiet import quiet

# ImageNet's, in units of 0…1. Both networks were trained on images normalized with them.
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
_HEAD = "classifier."
_SHOWN = 5  # names in an error


@dataclass(frozen=True)
class Converted:
    """A network of `transformers` and how a file in another form becomes its weights."""

    architecture: Any  # a class of transformers
    settings: Mapping[str, Any]  # of its configuration
    read: Callable[[Path], Mapping[str, Tensor]]
    rename: Callable[[Mapping[str, Tensor]], dict[str, Tensor]]
    left_out: str  # the weights of another task's head begin with this
    size: int = 224  # pixels a side

    def load(self, path: Path, classes: int, dtype: torch.dtype = torch.float32) -> Any:
        """The network with a new head of so many classes, drawn from torch's generator."""
        weights = {k: v for k, v in self.read(path).items() if not k.startswith(self.left_out)}
        config = self.architecture.config_class(**self.settings, num_labels=classes)
        network, seen = self.architecture.from_pretrained(
            None,
            config=config,
            state_dict=self.rename(weights),
            dtype=dtype,
            ignore_mismatched_sizes=True,  # reported below
            output_loading_info=True,
        )
        faults = {
            "without a value": [k for k in seen["missing_keys"] if not k.startswith(_HEAD)],
            "unknown": seen["unexpected_keys"],
            "of another shape": [k for k, *_ in seen["mismatched_keys"]],
        }
        _require_complete(path.name, self.architecture.__name__, faults)
        return network

    def processor(self) -> Any:
        """What scales and normalizes images as the network wants them."""
        with quiet():  # it says on import that it does without torchvision
            return transformers.ViTImageProcessor(
                size={"height": self.size, "width": self.size},
                image_mean=list(MEAN),
                image_std=list(STD),
            )


def _require_complete(file: str, network: str, faults: Mapping[str, Iterable[str]]) -> None:
    said: list[str] = []
    for fault, found in faults.items():
        names = sorted(found)
        if names:
            more = ", …" if len(names) > _SHOWN else ""
            said.append(f"{len(names)} {fault} ({', '.join(names[:_SHOWN])}{more})")
    if said:
        raise ModelError(
            f"weights in {file} must be those of {network}, each exactly once, but there are "
            f"{'; '.join(said)}. Take the file of the pinned release, or a network of the hub."
        )


def rename_dinov2(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The names of an exported backbone → those of the hub.

    The class's and the patches' positions, which the export separates, are one parameter again.
    """
    outer = "backbone."
    renamed = {
        f"dinov2.{k.removeprefix(outer)}" if k.startswith(outer) else k: v
        for k, v in weights.items()
    }
    first, others = (f"dinov2.embeddings.{op}" for op in ("Concat", "Reshape"))
    if first in renamed and others in renamed:
        parts = [renamed[first], renamed[others]]  # [1, 1, width] and [1, patches, width]
        if parts[0].shape[::2] == parts[1].shape[::2]:
            del renamed[first], renamed[others]
            renamed["dinov2.embeddings.position_embeddings"] = torch.cat(parts, dim=1)
    return renamed


def rename_mobilenet(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """torchvision's names → those of the hub; unknown ones stay as they are."""
    modules = _mobilenet_modules()
    renamed: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        module, _, field = name.rpartition(".")
        renamed[f"mobilenet_v2.{modules[module]}.{field}" if module in modules else name] = tensor
    return renamed


def _mobilenet_modules() -> dict[str, str]:
    """torchvision counts the stem's two halves as features 0 and 1, the blocks from 2 to 17."""
    blocks = {1: "conv_stem", **{k: f"layer.{k - 2}" for k in range(2, 18)}}
    layers = {
        "features.0": "conv_stem.first_conv",
        "features.1.conv.0": "conv_stem.conv_3x3",
        "features.18": "conv_1x1",
    }
    for k in range(2, 18):
        layers[f"features.{k}.conv.0"] = f"{blocks[k]}.expand_1x1"
        layers[f"features.{k}.conv.1"] = f"{blocks[k]}.conv_3x3"
    modules: dict[str, str] = {}
    for theirs, ours in layers.items():
        modules[f"{theirs}.0"] = f"{ours}.convolution"
        modules[f"{theirs}.1"] = f"{ours}.normalization"
    for k, block in blocks.items():  # the last convolution of a block is not wrapped
        place = 1 if k == 1 else 2
        modules[f"features.{k}.conv.{place}"] = f"{block}.reduce_1x1.convolution"
        modules[f"features.{k}.conv.{place + 1}"] = f"{block}.reduce_1x1.normalization"
    return modules


def _read_state_dict(path: Path) -> Mapping[str, Tensor]:
    return torch.load(path, map_location="cpu", weights_only=True)


NETWORKS: dict[str, Converted] = {
    "vit-s14": Converted(
        Dinov2ForImageClassification,
        {
            "hidden_size": 384,
            "num_attention_heads": 6,
            "image_size": 518,  # 37 × 37 positions, interpolated for images of other sizes
            "use_mask_token": False,  # serves pretraining alone
        },
        onnx_weights.read,
        rename_dinov2,
        left_out="decoder.",
    ),
    "mobilenet-v2": Converted(
        MobileNetV2ForImageClassification,
        # torchvision's padding, ε and dropout, where transformers has those of TensorFlow.
        {"tf_padding": False, "layer_norm_eps": 1e-5, "classifier_dropout_prob": 0.2},
        _read_state_dict,
        rename_mobilenet,
        left_out="classifier.",
    ),
}
