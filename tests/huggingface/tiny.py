"""What the tests of this room share: still networks, rows as a data set, arguments, records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import TrainerCallback, TrainingArguments

import regvar

from ..contracts.networks import BY_NAME, PRECISION, NetworkCase, count, rows

NETWORKS = ["gpt2", "bert", "vit", "llama"]
PRIOR = regvar.GaussianPrior(precision=PRECISION)


def still(case: NetworkCase, dtype: torch.dtype = torch.float64) -> nn.Module:
    """The network without dropout, so that train and eval mode agree."""
    model = case.model(dtype)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model


def dataset(
    case: NetworkCase, size: int = 11, dtype: torch.dtype = torch.float64, seed: int = 1
) -> list[dict[str, Tensor]]:
    """The rows of a batch one by one, as a Trainer's data set has them."""
    batch = case.examples(size, seed, dtype)
    return [{k: v[i] for k, v in batch.items()} for i in range(count(batch))]


def whole(features: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """All rows as one batch."""
    return {k: torch.stack([row[k] for row in features]) for k in features[0]}


def steps_of(features: list[dict[str, Tensor]], size: int) -> list[dict[str, Tensor]]:
    """The rows cut into what each optimizer step sees."""
    batch = whole(features)
    return [rows(batch, slice(i, i + size)) for i in range(0, len(features), size)]


def arguments(folder: Path, **changes: Any) -> TrainingArguments:
    """Plain steps in the data's own order, and nothing on disk or on screen."""
    settings: dict[str, Any] = {
        "use_cpu": True,
        "report_to": [],
        "disable_tqdm": True,
        "save_strategy": "no",
        "logging_strategy": "no",
        "optim": "sgd",
        "learning_rate": 0.05,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 0.0,
        "per_device_train_batch_size": 2,
        "train_sampling_strategy": "sequential",
        "num_train_epochs": 2,
    }
    return TrainingArguments(str(folder), **{**settings, **changes})


class Steps(TrainerCallback):
    """The parameters after each optimizer step."""

    def __init__(self) -> None:
        self.seen: list[Tensor] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        self.seen.append(flat(rest["model"]))


def flat(model: nn.Module) -> Tensor:
    """All trainable parameters in one long copy."""
    return torch.cat([p.detach().flatten() for p in model.parameters() if p.requires_grad])


def case_of(name: str) -> NetworkCase:
    return BY_NAME[name]
