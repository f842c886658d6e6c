"""What a run can be told: each setting, its default and what it may be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from regvar.data.catalogue import choose
from regvar.errors import require

TEXTS, IMAGES, LANGUAGE = "sequence-classification", "image-classification", "causal-lm"
# By task: the network and the rows of a batch that fit a small machine.
_MODELS = {TEXTS: "minilm", IMAGES: "vit-s14", LANGUAGE: "smollm2-135m"}
_BATCHES = {TEXTS: 16, IMAGES: 16, LANGUAGE: 4}
_METHODS = {"sampled": 1.0, "amortized": 0.2}  # a refit's learning rate, in that of the fit


@dataclass(frozen=True)
class Settings:
    """Everything that decides what a run gives; kept in its run.json.

    >>> from regvar.finetuning import Settings
    >>> chosen = Settings(data="reviews.csv")
    >>> chosen.model_name, chosen.batch_size
    ('minilm', 16)
    """

    data: str  # a file, a folder of images, or a short name of regvar.data
    task: str = TEXTS
    model: str | None = None  # None: the task's own
    lora: bool = False
    text: str | None = None  # the column of texts; None: found by its name
    label: str | None = None  # the column of labels; None: found by its name
    method: str = "sampled"
    samples: int = 4  # K
    lam: float = 1.0  # λ
    epochs: int = 6
    lr: float = 1e-4
    batch: int | None = None  # None: the task's own
    tokens: int = 128  # a text's longer rest is cut off
    precision: float = 0.02  # of the Gaussian prior
    frozen: tuple[str, ...] = ()  # modules that do not train
    limit: int | None = None  # rows; None: all
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        choose(self.task, _MODELS, "task")
        choose(self.method, _METHODS, "method")
        for name, least in (("samples", 1), ("epochs", 1), ("tokens", 2)):
            value = getattr(self, name)
            require(value >= least, name, f"at least {least}", value)
        for name in ("lr", "precision", "lam"):
            value = getattr(self, name)
            require(math.isfinite(value) and value > 0, name, "a positive number", value)
        for name in ("batch", "limit"):
            value = getattr(self, name)
            require(value is None or value >= 1, name, "at least 1", value)
        require(0 <= self.seed < 2**32, "seed", f"in 0…{2**32 - 1}", self.seed)

    @property
    def model_name(self) -> str:
        """The network asked for, or the task's own."""
        return _MODELS[self.task] if self.model is None else self.model

    @property
    def batch_size(self) -> int:
        """Rows of a batch."""
        return _BATCHES[self.task] if self.batch is None else self.batch

    @property
    def refit_lr(self) -> float:
        """The refits' learning rate: the paper's own, gentler one for its own method."""
        return _METHODS[self.method] * self.lr

    def to_json(self) -> dict[str, Any]:
        """As run.json holds them."""
        return {**asdict(self), "frozen": list(self.frozen)}

    @classmethod
    def from_json(cls, held: Mapping[str, Any]) -> Settings:
        """What `to_json` gave."""
        known = {f.name for f in fields(cls)}
        found: dict[str, Any] = {k: v for k, v in held.items() if k in known}
        found["frozen"] = tuple(held["frozen"])
        return cls(**found)
