"""Records of fine-tuned studies that never ran: the right form, known numbers."""

from __future__ import annotations

import base64
import math
import random
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from regvar.experiments.finetuned.cells import METHODS, STUDIES
from regvar.records import Record, config_hash

CONFIGS = {
    cell: (study.name, asdict(config)) for study in STUDIES for cell, config in study.cells.items()
}
NLL = {  # what the issue says was seen on MiniLM
    "pretrained": 0.70,
    "map_only": 0.825,
    "temperature": 0.537,
    "drift": 0.543,
    "last_layer_ensemble": 0.60,
    "mc_dropout": 0.529,
    "laplace_last_layer_diag": 0.575,
    "laplace_last_layer_full": 0.562,
    "gradient_norm": 0.55,
    "amortized": 0.542,
    "amortized_control": 0.568,
    "sampled": 0.512,
}
TUNED = {
    "amortized": ("lam", (0.1, 1.0, 10.0)),
    "amortized_control": ("lam", (0.1, 1.0, 10.0)),
    "mc_dropout": ("rate", (0.05, 0.1, 0.2)),
    "laplace_last_layer_diag": ("precision", (0.02, 0.2, 2.0, 20.0)),
    "laplace_last_layer_full": ("precision", (0.02, 0.2, 2.0, 20.0)),
}
SCALES = (0.0, *(10 ** (k / 4) for k in range(-32, 33)))
TEXT = (
    "the plot is thin but the actors are so good that nobody minds ; a slow film about a long "
    "winter , with one <b>very</b> fine scene & an ending which is not quite earned"
)
WORDS = TEXT.split()


def records(
    cells: Sequence[str] = ("minilm-film",),
    methods: Sequence[str] = METHODS,
    seeds: Sequence[int] = (0, 1, 2),
) -> list[Record]:
    """One record for each cell, method and seed."""
    return [record(cell, method, seed) for cell in cells for method in methods for seed in seeds]


def record(cell: str, method: str, seed: int) -> Record:
    """The same arguments, the same record."""
    chance = random.Random(f"{cell} {method} {seed}")
    experiment, config = CONFIGS[cell]
    return Record(
        experiment=experiment,
        cell=cell,
        method=method,
        seed=seed,
        config=config,
        config_hash=config_hash(config),
        metrics=_metrics(config, cell, method, seed, chance),
        extra=_extra(config, method, chance),
        seconds={"map": 40.0 + seed, "fit": 5 + 20 * chance.random(), "inference": chance.random()},
        peak_mib=900 + chance.random(),
        versions={"regvar": "0.1", "torch": "2.9", "python": "3.11.7"},
        commit="762dc12",
        threads=1,
    )


def splits(config: dict[str, Any]) -> list[tuple[str, bool]]:
    """Names of what is scored, and whether it has labels."""
    shifts = [(part["corruption"] or part["data"], part["labeled"]) for part in config["shifts"]]
    return [("test", True), *shifts]


def _metrics(
    config: dict[str, Any], cell: str, method: str, seed: int, chance: random.Random
) -> dict[str, dict[str, dict[str, float]]]:
    shared = random.Random(f"{cell} {seed}").gauss(0.0, 0.01)
    offset = 2.5 if config["task"] == "causal-lm" else 0.0
    found: dict[str, dict[str, dict[str, float]]] = {}
    for place, (split, labeled) in enumerate(splits(config)):
        nll = NLL[method] + offset + shared + 0.02 * place + chance.gauss(0, 0.004)
        of_labels = {
            "NLL": nll,
            "ECE": abs((NLL[method] - 0.5) * 0.5 + 0.03 + chance.gauss(0, 0.003)),
            "adaptive ECE": 0.04 + chance.random() / 50,
            "Brier": nll * 0.4,
            "accuracy": 0.78 - 0.01 * place + chance.gauss(0, 0.002),
            "AURC": 0.09 + chance.random() / 50,
            "AUROC of errors": 0.75 + chance.gauss(0, 0.01),
        }
        of_shift = {
            "AUROC of shift": 0.55 + 0.02 * place + chance.gauss(0, 0.01),
            "AUROC of shift, epistemic": 0.58 + 0.02 * place + chance.gauss(0, 0.01),
            "AUROC of shift, variance": 0.61 + 0.02 * place + chance.gauss(0, 0.01),
        }
        values = {**(of_labels if labeled else {}), **(of_shift if split != "test" else {})}
        found[split] = {
            k: {"value": v, "standard_error": 0.01, "count": 500} for k, v in values.items()
        }
    return found


def _extra(config: dict[str, Any], method: str, chance: random.Random) -> dict[str, Any]:
    names = [split for split, labeled in splits(config) if labeled]
    image, language = (config["task"] == t for t in ("image-classification", "causal-lm"))
    tuned = TUNED.get(method)
    fewer = [k for k in (1, 4) if k < config["samples"]]
    rows = _pictures if image else _texts
    shown = {} if language else {s: _both(rows, labeled, chance) for s, labeled in splits(config)}
    return {
        "settings": {tuned[0]: chance.choice(tuned[1][:2])} if tuned else {},
        "scale": math.exp(chance.gauss(0, 0.3)),
        "validation": -NLL[method],
        "trials": [_trial(method, tuned[0], value) for value in tuned[1]] if tuned else [],
        "trainable": 22_000_000,
        "stationarity": 0.01,
        "manifests": {"train": "abc"},
        "reliability": {name: _reliability(method, chance) for name in names},
        "risk": {name: _risk(method) for name in names},
        "fewer": {str(k): _fewer(k, names) for k in fewer} if method == "sampled" else {},
        "shared": None if language else _shared(method),
        "images" if image else "texts": shown,
        "tokens": [_document(chance) for _ in range(3)] if language else [],
        "warnings": ["the scale is at an end"] if method == "gradient_norm" else [],
    }


def _trial(method: str, name: str, value: float) -> dict[str, Any]:
    best = value if method == "amortized" else 3.0  # drift alone, or a true response
    curve = [
        -(NLL[method] + 0.15 * math.tanh(abs(math.log10(s / best)) / 2) ** 2) if s else -0.825
        for s in SCALES
    ]
    return {
        name: value,
        "log_likelihood": max(curve) - 0.01 * abs(math.log10(value)),
        "scale": best,
        "curve": {"scales": list(SCALES), "log_likelihood": curve},
        "failure": "",
    }


def _fewer(count: int, names: Sequence[str]) -> dict[str, Any]:
    values = {"NLL": {1: 0.559, 4: 0.521}[count], "ECE": 0.046, "accuracy": 0.78}
    held = {k: {"value": v, "standard_error": 0.01, "count": 500} for k, v in values.items()}
    return {"scale": 1.0, **dict.fromkeys(names, held)}


def _shared(method: str) -> dict[str, Any]:
    values = {"NLL": NLL[method] - 0.25, "ECE": 0.01, "accuracy": 0.875}
    held = {k: {"value": v, "standard_error": 0.01, "count": 500} for k, v in values.items()}
    return {"scale": 2.0, "test": held}


def _reliability(method: str, chance: random.Random) -> dict[str, list[float | None]]:
    centers = [0.05 + 0.1 * i for i in range(10)]
    over = (NLL[method] - 0.5) * 0.6
    accuracy = [min(1.0, max(0.0, c - over * (c - 0.4) + chance.gauss(0, 0.02))) for c in centers]
    count = [0, 0, 0, 0, 0, 30, 60, 90, 150, 170]
    held = [n > 0 for n in count]
    return {
        "confidence": [c if h else None for c, h in zip(centers, held, strict=True)],
        "accuracy": [a if h else None for a, h in zip(accuracy, held, strict=True)],
        "count": [float(n) for n in count],
    }


def _risk(method: str) -> dict[str, list[float]]:
    coverage = [(i + 1) / 40 for i in range(40)]
    return {"coverage": coverage, "risk": [0.22 * c ** (2 - NLL[method]) for c in coverage]}


def _both(
    rows: Callable[[random.Random], dict[str, Any]], labeled: bool, chance: random.Random
) -> dict[str, list[dict[str, Any]]]:
    def row(uncertainty: float) -> dict[str, Any]:
        found = {**rows(chance), "uncertainty": uncertainty, "epistemic": uncertainty / 10}
        if not labeled:
            return {**found, "label": None, "correct": None}
        correct = chance.random() < 0.8
        return {**found, "label": "positive", "correct": correct, "confidence": 1 - uncertainty / 2}

    return {
        "most_certain": [row(0.01 * (i + 1)) for i in range(8)],
        "least_certain": [row(0.69 - 0.01 * i) for i in range(8)],
    }


def _texts(chance: random.Random) -> dict[str, str]:
    return {"text": " ".join(chance.choices(WORDS, k=chance.randrange(8, 90)))}


def _pictures(chance: random.Random) -> dict[str, str]:
    shade = chance.randrange(256)
    return {"png": base64.b64encode(png(32, 32, shade)).decode()}


def png(width: int, height: int, shade: int) -> bytes:
    """A picture that fades."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    lines = b"".join(
        b"\0" + bytes(v for x in range(width) for v in (x * 255 // width, y * 255 // height, shade))
        for y in range(height)
    )
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _document(chance: random.Random) -> list[dict[str, Any]]:
    words = chance.choices(WORDS, k=95)
    return [
        {
            "token": f" {word}",
            "uncertainty": 6 * chance.random() ** 2,
            "epistemic": 0.05 * chance.random(),
            "prob": chance.random(),
        }
        for word in words
    ]
