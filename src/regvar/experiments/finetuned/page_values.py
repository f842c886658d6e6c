"""What the page of a fine-tuned study reads from its records."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regvar.records import Record
from regvar.report.comparison import ByMethod

NETWORKS = {
    "minilm": "MiniLM",
    "smollm2-135m": "SmolLM2-135M",
    "gemma3-270m": "Gemma 3 270M",
    "qwen2.5-coder-0.5b": "Qwen2.5-Coder-0.5B",
    "qwen2.5-coder-1.5b": "Qwen2.5-Coder-1.5B",
    "vit-s14": "ViT-S/14",
    "mobilenet-v2": "MobileNetV2",
}
DATA = {
    "imdb": "IMDB",
    "rotten-tomatoes": "Rotten Tomatoes",
    "snippets-film": "film snippets",
    "snippets-product": "product snippets",
    "snippets-tweet": "tweets",
    "snippets-editorial": "editorials",
    "20newsgroups": "20 Newsgroups",
    "wikitext-2": "WikiText-2",
    "cifar10": "CIFAR-10",
    "mnist": "MNIST",
    "fashion-mnist": "Fashion-MNIST",
}
METHODS = {
    "pretrained": "pretrained",
    "map_only": "MAP",
    "temperature": "temperature",
    "drift": "drift",
    "last_layer_ensemble": "last-layer ensemble",
    "mc_dropout": "MC dropout",
    "laplace_last_layer_diag": "last-layer Laplace, diagonal",
    "laplace_last_layer_full": "last-layer Laplace, full",
    "gradient_norm": "gradient norm",
    "amortized": "amortized",
    "amortized_control": "amortized − control",
    "sampled": "sampled",
}
MEANINGS = {
    "pretrained": "the network before fine-tuning; a new head is random",
    "map_only": "the fine-tuned network without any variance",
    "temperature": "the same variance for every input, a control",
    "drift": "one more epoch without any regularizer, read as if it were one; a control",
    "last_layer_ensemble": "several heads on one body, each trained on its own share of the data",
    "mc_dropout": "several passes with dropout left on",
    "laplace_last_layer_diag": "inverse of the diagonal of the last layer's GGN",
    "laplace_last_layer_full": "inverse of the last layer's whole GGN",
    "gradient_norm": "squared length of the outputs' gradient in all weights",
    "amortized": "RegVar, the paper's Algorithm 1: one refit on the in-sample regularizer (Eq. 16)",
    "amortized_control": "the same minus a refit without the regularizer, so that drift cancels",
    "sampled": "RegVar with K random regularizers, minus one shared refit without any: draws of "
    "the linearized posterior, this library's recommendation",
}
REGVAR = ("amortized", "amortized_control", "sampled")
SETTINGS = {"lam": "λ", "rate": "dropout rate", "precision": "prior precision"}
INSIDE = "in domain"
_CORRUPTED = re.compile(r"([a-z]+)-(\d+)")


@dataclass(frozen=True)
class Study:
    """The records, looked up by what the page asks for."""

    records: Sequence[Record]

    @property
    def name(self) -> str:
        """Of the experiment."""
        return self.records[0].experiment

    @property
    def seeds(self) -> list[int]:
        """Of all records."""
        return sorted({record.seed for record in self.records})

    @property
    def cells(self) -> dict[str, str]:
        """Those that were run, with network and data as their labels."""
        return {cell: self._label(cell) for cell in sorted({r.cell for r in self.records})}

    @property
    def methods(self) -> dict[str, str]:
        """Those that were run on any cell, with their labels."""
        return _known(METHODS, {record.method for record in self.records})

    def methods_of(self, cell: str) -> dict[str, str]:
        """Those that were run on this cell."""
        return _known(METHODS, {r.method for r in self.records if r.cell == cell})

    def of(self, cell: str, method: str) -> list[Record]:
        """All seeds of one method on one cell, in order."""
        found = [r for r in self.records if r.cell == cell and r.method == method]
        return sorted(found, key=lambda record: record.seed)

    def config(self, cell: str) -> Mapping[str, Any]:
        """The settings of a cell."""
        return next(record.config for record in self.records if record.cell == cell)

    def values(self, cell: str, read: Callable[[Record], float | None]) -> ByMethod:
        """Method → seed → what `read` finds; methods without it are left out."""
        found: dict[str, dict[int, float]] = {}
        for record in self.records:
            if record.cell == cell and (value := read(record)) is not None:
                found.setdefault(record.method, {})[record.seed] = value
        return found

    def sets(self, cell: str) -> dict[str, tuple[str, ...]]:
        """What is scored, by label: the test set, each shift, each corruption at all strengths."""
        present = {split for r in self.records if r.cell == cell for split in r.metrics}
        ordered = [split for split in self._splits(cell) if split in present]
        found: dict[str, tuple[str, ...]] = {}
        for split in (*ordered, *sorted(present - set(ordered))):
            label = set_label(split)
            found[label] = (*found.get(label, ()), split)
        return found

    def examples(self, cell: str) -> dict[str, str]:
        """One split of each set, with its label: of a corruption the strongest."""
        return {splits[-1]: split_label(splits[-1]) for splits in self.sets(cell).values()}

    def _splits(self, cell: str) -> list[str]:
        shifts = self.config(cell).get("shifts") or ()
        return ["test", *(part.get("corruption") or part["data"] for part in shifts)]

    def _label(self, cell: str) -> str:
        config = self.config(cell)
        if "model" not in config or "train" not in config:
            return cell
        data = config["train"]["data"]
        network = NETWORKS.get(config["model"], str(config["model"]))
        task = ", next token" if config.get("task") == "causal-lm" else ""
        return f"{network} on {DATA.get(data, data)}{task}"


def set_label(split: str) -> str:
    """What a split is counted with.

    >>> from regvar.experiments.finetuned import page_values
    >>> [page_values.set_label(s) for s in ("test", "snippets-tweet", "noise-3")]
    ['in domain', 'tweets', 'noise']
    """
    corrupted = _CORRUPTED.fullmatch(split)
    if split == "test" or corrupted is None or split in DATA:
        return split_label(split)
    return corrupted[1]


def split_label(split: str) -> str:
    """What one split is called.

    >>> from regvar.experiments.finetuned import page_values
    >>> [page_values.split_label(s) for s in ("test", "fashion-mnist", "noise-3")]
    ['in domain', 'Fashion-MNIST', 'noise, strength 3']
    """
    if split == "test":
        return INSIDE
    corrupted = _CORRUPTED.fullmatch(split)
    if corrupted is None or split in DATA:
        return DATA.get(split, split)
    return f"{corrupted[1]}, strength {corrupted[2]}"


def mean_metric(splits: Sequence[str], name: str) -> Callable[[Record], float | None]:
    """Reads a metric's value, its mean over the splits of a set; a record needs them all."""

    def read(record: Record) -> float | None:
        held = [record.metrics.get(split, {}).get(name) for split in splits]
        values = [estimate["value"] for estimate in held if estimate is not None]
        return math.fsum(values) / len(values) if values and len(values) == len(held) else None

    return read


def fewer_metric(count: int, splits: Sequence[str], name: str) -> Callable[[Record], float | None]:
    """Reads the same of the first so many draws alone."""

    def read(record: Record) -> float | None:
        held = (record.extra.get("fewer") or {}).get(str(count), {})
        values = [held.get(split, {}).get(name, {}).get("value") for split in splits]
        found = [float(value) for value in values if value is not None]
        return math.fsum(found) / len(found) if found and len(found) == len(values) else None

    return read


def draws(study: Study, cell: str) -> int | None:
    """K, the draws of the sampled records."""
    held = {record.config.get("samples") for record in study.of(cell, "sampled")}
    return next((int(count) for count in held if count), None)


def fewer_draws(study: Study, cell: str) -> list[int]:
    """The smaller numbers of draws that were scored too, in ascending order."""
    held = (record.extra.get("fewer") or {} for record in study.of(cell, "sampled"))
    return sorted({int(count) for fewer in held for count in fewer})


def _known(labels: Mapping[str, str], present: set[str]) -> dict[str, str]:
    first = {name: label for name, label in labels.items() if name in present}
    return first | {name: name for name in sorted(present - first.keys())}
