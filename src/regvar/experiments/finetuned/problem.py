"""One cell and seed made ready: data, a pretrained network, its MAP, loaders.

The MAP is kept on disk under the hash of everything that it depends on, so that a run which is
interrupted, or goes on with another method, does not train again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from regvar import data, params, records
from regvar.data.datasets import Images, Texts
from regvar.errors import DataError
from regvar.experiments.finetuned.config import CORRUPTIONS, Config, Part
from regvar.experiments.finetuned.refits import Refits
from regvar.huggingface import encoding, loading
from regvar.huggingface.quiet import quiet
from regvar.likelihoods import Categorical
from regvar.log_joint import LogJoint
from regvar.map_fit import MapFit, fit_map, stationarity
from regvar.priors import GaussianPrior

Rows = Texts | Images
FORMAT = 2  # of the kept MAPs: since the second, with buffers
MAP_FIELDS = [
    "model",
    "task",
    "train",
    "classes",
    "frozen",
    "adapter_rank",
    "tokens",
    "pixels",
    "batch",
    "epochs",
    "lr",
    "precision",
]


@dataclass(frozen=True)
class Problem:
    """A fitted network and the data it is judged on."""

    config: Config
    seed: int
    joint: LogJoint
    before: Mapping[str, Tensor]  # weights that train, and buffers, before fine-tuning
    fit: MapFit
    refits: Refits
    rows: Mapping[str, Rows]  # by split: "train", "validation", "test", and the shifts
    loaders: Mapping[str, Any]
    processor: Any  # the tokenizer or image processor
    manifests: Mapping[str, str]  # which rows, by split

    @property
    def shifts(self) -> tuple[str, ...]:
        """The names of the shifted splits."""
        return tuple(part.name for part in self.config.shifts)


def prepare(config: Config, seed: int) -> Problem:
    """Load, encode, fine-tune."""
    parts = {"train": config.train, "validation": config.validation, "test": config.test}
    parts |= {part.name: part for part in config.shifts}
    subsets = {name: drawn(part, seed) for name, part in parts.items()}
    adapter = None if config.adapter_rank is None else loading.Adapter(rank=config.adapter_rank)
    with quiet():
        found = loading.load(
            config.model,
            config.task,
            config.classes,
            adapter=adapter,
            frozen=config.frozen,
            seed=seed,
        )
    held = {
        name: subset.data if name == "train" else _evened(config, subset.data)
        for name, subset in subsets.items()
    }
    loaders = {
        name: encode(config, part, found.processor, shuffle=name == "train")
        for name, part in held.items()
    }
    joint = LogJoint(
        found.model,
        loaders["train"],
        likelihood=Categorical(),
        prior=GaussianPrior(precision=config.precision),
    )
    before = {k: t.detach().clone() for k, t in _moved(joint).items()}
    fit = _fitted(joint, config, seed)
    manifests = {name: subset.manifest for name, subset in subsets.items()}
    refits = Refits(joint, seed, config.refit_epochs)
    return Problem(
        config, seed, joint, before, fit, refits, held, loaders, found.processor, manifests
    )


def drawn(part: Part, seed: int) -> data.Subset[Rows]:
    """The rows of a part under a seed; parts of one data set with other offsets do not overlap."""
    splits: Any = data.load(part.data)
    whole: Rows = data.choose(part.split, splits, "split")
    end = part.offset + part.size
    found = data.subsample(whole, min(end, len(whole)), seed)
    if end > len(whole):
        raise DataError(
            f"size of {part.data}/{part.split} must be at most {len(whole) - part.offset} beyond "
            f"row {part.offset}, but it is {part.size}."
        )
    taken = cast("Rows", found.data.take(range(part.offset, end)))
    if part.corruption and isinstance(taken, Images):
        kind, _, strength = part.corruption.partition("-")
        taken = data.choose(kind, CORRUPTIONS, "corruption")(int(strength))(taken)
    if not part.labeled:
        taken = Texts(taken.texts) if isinstance(taken, Texts) else Images(taken.pixels)
    return data.Subset(taken, found.indices[part.offset : end], _manifest(taken))


def _evened(config: Config, rows: Rows) -> Rows:
    """Texts to classify by length, so that a batch holds little padding; any others as drawn."""
    if not isinstance(rows, Texts) or config.task != "sequence-classification":
        return rows
    return rows.take(sorted(range(len(rows)), key=lambda i: len(rows.texts[i])))


def encode(config: Config, rows: Rows, processor: Any, *, shuffle: bool = False) -> Any:
    """Batches for the configuration's task."""
    if isinstance(rows, Images):
        return encoding.pictures(
            rows, processor, size=config.pixels, batch=config.batch, shuffle=shuffle
        )
    sizes: dict[str, int] = {"tokens": config.tokens, "batch": config.batch}
    if config.task == "causal-lm":
        return encoding.language(rows.texts, processor, shuffle=shuffle, **sizes)
    return encoding.classified_texts(rows, processor, shuffle=shuffle, **sizes)


def _manifest(rows: Rows) -> str:
    return records.config_hash({"rows": [row.hex() for row in rows.content()]})


def _fitted(joint: LogJoint, config: Config, seed: int) -> MapFit:
    """The MAP from disk if it is there, trained and kept otherwise."""
    settings = {name: value for name, value in asdict(config).items() if name in MAP_FIELDS}
    name = f"{records.config_hash({**settings, 'seed': seed, 'format': FORMAT})}.safetensors"
    path: Path = data.cache() / "maps" / name
    if path.is_file():
        params.write_(_moved(joint), load_file(path))
        joint.model.eval()
        return stationarity(joint, config.epochs)
    fit = fit_map(joint, torch.optim.Adam, epochs=config.epochs, lr=config.lr, seed=seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".partial")
    save_file({k: p.detach().contiguous().clone() for k, p in _moved(joint).items()}, fresh)
    fresh.replace(path)
    return fit


def _moved(joint: LogJoint) -> dict[str, Tensor]:
    """What training changes: the parameters that train, and buffers such as running means."""
    return {**joint.parameters, **dict(joint.model.named_buffers())}
