"""A network of which only the head trains, untied: what last-layer methods are measured against."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from tests.contracts import by_hand
from tests.contracts.networks import NetworkCase

HEADS = {
    "mlp": "2",
    "cnn": "5",
    "segmenter": "2",
    "lstm": "head",
    "encoder": "head",
    "gpt2": "lm_head",
    "llama": "score",
    "bert": "classifier",
    "vit": "classifier",
    "tied": "output",
    "frozen": "4",
    "lora_gpt2": "base_model.model.lm_head",
    "lora_llama": "base_model.model.score.modules_to_save.default",
    "two_heads": "head",
    "rater": "head",
}


def head_alone(model: nn.Module, name: str) -> nn.Module:
    """A copy whose head has parameters of its own, the only ones that train."""
    alone = copy.deepcopy(model).requires_grad_(False)
    layer = alone.get_submodule(name)
    for slot in list(layer._parameters):
        value = layer._parameters[slot]
        if value is not None:
            layer._parameters[slot] = nn.Parameter(value.detach().clone())
    return alone


def data(network: NetworkCase) -> Any:
    """All examples of `network.data()` in one batch."""
    return network.examples(5, 1, torch.float64)


def precision(network: NetworkCase) -> Tensor:
    """P of the head, dense."""
    alone = head_alone(network.model(), HEADS[network.name])
    return by_hand.ggn_precision(network, alone, data(network))


def jacobian(network: NetworkCase) -> Tensor:
    """J of the queries with respect to the head, dense."""
    alone = head_alone(network.model(), HEADS[network.name])
    return by_hand.jacobian(network, alone, network.query_batch())
