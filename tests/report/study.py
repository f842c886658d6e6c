"""Records of a synthetic study that never ran: the right form, known numbers."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

from regvar.records import Record

TASKS = ("quadratic-uniform", "quadratic-inbetween", "sin-uniform", "sin-inbetween")
PREDICT = (
    "exact_hessian",
    "ggn",
    "eigenvectors",
    "pointwise",
    "sampled",
    "amortized_eval",
    "amortized_in_sample",
    "temperature",
    "map_only",
)
PARAMETERS = ("exact_hessian", "ggn", "eigenvectors", "parameter")
GRID = [0.005, 0.01, 0.05, 0.1, 0.5, 1.0]
LAMS = [0.001, 0.01, 0.1, 1.0]
RANKS = {"sampled": 0.97, "amortized_eval": 0.55, "amortized_in_sample": -0.5}


def records(
    tasks: Sequence[str] = TASKS,
    methods: Sequence[str] = (*PREDICT, "parameter"),
    seeds: Sequence[int] = range(10),
) -> list[Record]:
    """One record for each task, method and seed."""
    return [record(task, method, seed) for task in tasks for method in methods for seed in seeds]


def record(task: str, method: str, seed: int) -> Record:
    """The same arguments, the same record."""
    chance = random.Random(f"{task} {method} {seed}")
    shared = random.Random(f"{task} {seed}").gauss(0.0, 0.05)
    predicts = method != "parameter"
    metrics = {
        f"{split}{suffix}": _scores(split, method, shared, chance)
        for split in ("id", "ood")
        for suffix in ("", "/calibrated")
    }
    return Record(
        experiment="synthetic",
        cell=task,
        method=method,
        seed=seed,
        config={"hidden": 50, "prior_variance": 3.0},
        config_hash="0123456789ab",
        metrics=metrics if predicts else {},
        extra={
            **(_predicted(method, chance) if predicts else {}),
            **(_of_parameters(chance) if method in PARAMETERS else {}),
        },
        seconds={"map": 1.5, "fit": chance.random(), "inference": chance.random() / 10},
        peak_mib=400 + chance.random(),
        versions={"regvar": "0.1", "torch": "2.9", "python": "3.11.7"},
        commit="762dc12",
        threads=1,
    )


def _scores(
    split: str, method: str, shared: float, chance: random.Random
) -> dict[str, dict[str, float]]:
    count = 160 if split == "id" else 80
    worse = PREDICT.index(method) / 40 if split == "ood" and method in PREDICT else 0.0
    nll = -0.8 + worse + shared + chance.gauss(0, 0.02)
    values = {
        "PICP": min(1.0, round(count * (0.95 - worse + chance.gauss(0, 0.01))) / count),
        "CRPS": 0.06 + worse / 10 + chance.gauss(0, 0.001),
        "NLL": nll,
    }
    return {k: {"value": v, "standard_error": 0.01, "count": count} for k, v in values.items()}


def _predicted(method: str, chance: random.Random) -> dict[str, Any]:
    x = [-2 + 3.7 * i / 60 for i in range(61)]
    level = PREDICT.index(method)
    std = [0.05 + 0.6 * math.exp(-((v + 0.2) ** 2) / 0.1) * (1 - level / 12) for v in x]
    train = [-1.5 + 0.02 * i for i in range(40)] + [0.35 + 0.02 * i for i in range(40)]
    rank: float | None = max(-1.0, min(1.0, RANKS.get(method, 0.99) + chance.gauss(0, 0.04)))
    if method in ("temperature", "map_only"):
        rank = None
    amortized = method.startswith("amortized")
    return {
        "sigma2": 0.01,
        "sigma2_sweep": {"sigma2": GRID, "nll": [abs(math.log(v / 0.012)) / 3 - 0.8 for v in GRID]},
        "lam": chance.choice(LAMS[1:3]) if amortized else None,
        "lam_sweep": {"lam": LAMS, "nll": [-0.8 + chance.gauss(0, 0.01) for _ in LAMS]}
        if amortized
        else None,
        "scale": math.exp(chance.gauss(0, 0.3)),
        "bands": {"x": x, "mean": [-math.sin(3 * v - 0.3) for v in x], "std": std},
        "train": {"x": train, "y": [-math.sin(3 * v - 0.3) + chance.gauss(0, 0.1) for v in train]},
        "audit": {
            "verdict": "The variance orders the inputs as the truth does, at the right scale.",
            "rank_correlation": rank,
            "scale": math.exp(chance.gauss(-0.1 * level, 0.05)),
            "points": 20,
        },
        "solution": {"status": "converged", "residual": 1e-9, "iterations": 40},
        "stationarity": 1e-9,
    }


def _of_parameters(chance: random.Random) -> dict[str, Any]:
    order = sorted(random.Random(0).sample(range(151), 30))
    of = random.Random(1)
    return {
        "parameters": {
            "index": order,
            "theta": [of.gauss(0, 1) for _ in order],
            "std": [abs(chance.gauss(0, 1)) for _ in order],
        },
        "sparsity": {
            "id": 0.2 + abs(chance.gauss(0, 0.05)),
            "ood": 0.5 + abs(chance.gauss(0, 0.1)),
            "zeroed": chance.randrange(20, 90),
            "dense_id": 0.08,
            "dense_ood": 0.2,
        },
    }
