"""The tiny modules of the network table: torch ones, and random `transformers` and PEFT ones."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

VOCABULARY = 4
CLASSES = 3


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def cnn() -> nn.Module:
    """BatchNorm with running statistics that are not the trivial zero and one."""
    norm = nn.BatchNorm2d(3)
    norm.running_mean.copy_(0.3 * torch.randn(3))
    norm.running_var.copy_(0.5 + torch.rand(3))
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), norm, nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(12, CLASSES)
    )


def segmenter() -> nn.Module:
    """One label per pixel: outputs of shape [batch, classes, 2, 2]."""
    return nn.Sequential(nn.Conv2d(1, 2, 2), nn.Tanh(), nn.Conv2d(2, CLASSES, 2))


class Recurrent(nn.Module):
    """An LSTM that classifies by its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(2, 4, num_layers=2, batch_first=True)
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(x)
        return self.head(states[:, -1])


class Encoder(nn.Module):
    """torch's own transformer encoder; without gradients it takes a fused path of its own."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(4, 2, dim_feedforward=6, batch_first=True)
        self.embed = nn.Linear(2, 4)
        self.encoder = nn.TransformerEncoder(layer, num_layers=1)
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.encoder(self.embed(x))).mean(1))


class Tied(nn.Module):
    """A word model whose output layer is the embedding itself."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(6, 4)
        self.mix = nn.Linear(4, 4)
        self.output = nn.Linear(4, 6, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.output(torch.tanh(self.mix(self.embedding(ids))))


class TwoHeads(nn.Module):
    """Two named inputs, outputs of shape [batch, 2, 3]."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 4)
        self.second = nn.Linear(3, 4)
        self.head = nn.Linear(4, 6)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(left) * torch.sigmoid(self.second(right)))
        return self.head(hidden).unflatten(-1, (2, 3))


class Rater(nn.Module):
    """A module with a calling convention of its own, for a user's `forward=`."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(3, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, features: Tensor, *, scale: Tensor) -> tuple[Tensor, str]:
        return scale * self.head(torch.tanh(self.body(features))), "a remark"


def frozen() -> nn.Module:
    """A network whose trunk does not train."""
    network = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2))
    network[0].requires_grad_(False)
    network[2].requires_grad_(False)
    return network


def gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"n_embd": 4, "n_layer": 1, "n_head": 2, "n_positions": 6, "n_inner": 8}
    config = GPT2Config(vocab_size=VOCABULARY, **sizes, bos_token_id=1, eos_token_id=2)
    return spread(GPT2LMHeadModel(config))


def llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForSequenceClassification

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=4,
        intermediate_size=6,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=8,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        num_labels=CLASSES,
    )
    return spread(LlamaForSequenceClassification(config))


def bert() -> nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=4,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=6,
        max_position_embeddings=8,
        num_labels=CLASSES,
    )
    return spread(BertForSequenceClassification(config))


def vit() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=4,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=6,
        image_size=4,
        patch_size=2,
        num_channels=1,
        num_labels=CLASSES,
    )
    return spread(ViTForImageClassification(config))


def spread(model: nn.Module) -> nn.Module:
    """Weights far enough from their near-zero start that the outputs depend on every input."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def lora_gpt2() -> nn.Module:
    """A causal language model of which only the adapter trains."""
    from peft import LoraConfig

    config = LoraConfig(
        task_type="CAUSAL_LM",
        r=2,
        target_modules=["c_attn"],
        fan_in_fan_out=True,
        init_lora_weights=False,
    )
    return adapted(gpt2(), config)


def lora_llama() -> nn.Module:
    """A sequence classifier of which the adapter trains, and a saved copy of the head."""
    from peft import LoraConfig

    targets = ["q_proj", "v_proj"]
    config = LoraConfig(task_type="SEQ_CLS", r=2, target_modules=targets, init_lora_weights=False)
    return adapted(llama(), config)


def adapted(model: nn.Module, config: Any) -> nn.Module:
    """The PEFT model, without the deprecation that peft 0.21 meets in transformers 5."""
    from peft import get_peft_model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return get_peft_model(model, config)
