"""What a record of one method on one fine-tuned network holds."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor

from regvar.calibration import Calibrated
from regvar.data import png
from regvar.data.datasets import Images
from regvar.experiments.finetuned import methods, scores
from regvar.experiments.finetuned.problem import Problem, encode
from regvar.experiments.finetuned.scores import Split
from regvar.experiments.pipeline import Outcome
from regvar.predictives import Classification
from regvar.tuning import Tuned


def run(problem: Problem, method: str) -> Outcome:
    """One method on one network and seed."""
    problem.refits.clock()
    begin = time.perf_counter()
    tuned = methods.METHODS[method](problem)
    ready = time.perf_counter()
    calibrated = tuned.calibrated
    names = ("test", *problem.shifts)
    splits = {name: scores.score(calibrated, problem.loaders[name]) for name in names}
    took = time.perf_counter() - ready
    seconds = {"fit": ready - begin + problem.refits.reused, "inference": took}
    found = {name: split.metrics() for name, split in splits.items()}
    for name in problem.shifts:
        found[name] |= scores.shift_auroc(splits["test"], splits[name])
    return Outcome(found, _extra(problem, tuned, splits), seconds)


def _extra(problem: Problem, tuned: Tuned, splits: Mapping[str, Split]) -> dict[str, Any]:
    calibrated = tuned.calibrated
    names = ("test", *problem.shifts)
    loaders = {name: problem.loaders[name] for name in names}
    alike = methods.shared(problem, calibrated)
    return {
        "settings": dict(tuned.settings),
        "scale": calibrated.scale,
        "validation": calibrated.log_likelihood,
        "trials": [
            {
                **trial.settings,
                "log_likelihood": trial.log_likelihood,
                "scale": trial.scale,
                "curve": None if trial.curve is None else asdict(trial.curve),
                "failure": trial.failure,
            }
            for trial in tuned.trials
        ],
        "trainable": sum(p.numel() for p in problem.joint.parameters.values()),
        "stationarity": problem.fit.stationarity,
        "manifests": dict(problem.manifests),
        "reliability": {name: s.reliability() for name, s in splits.items() if s.correct},
        "risk": {name: s.risk() for name, s in splits.items() if s.correct},
        "fewer": {
            str(k): {"scale": fewer.scale, **scores.summary(fewer, loaders)}
            for k, fewer in methods.prefixes(problem, calibrated).items()
        },
        "shared": alike
        and {"scale": alike.scale, **scores.summary(alike, {"test": problem.loaders["test"]})},
        "images" if problem.config.task == "image-classification" else "texts": {
            name: _examples(problem, name, split) for name, split in splits.items()
        },
        "tokens": _documents(problem, calibrated),
    }


def _documents(problem: Problem, calibrated: Calibrated) -> list[list[dict[str, Any]]]:
    """Held-out documents of a language model, each token with how uncertain its place was."""
    if problem.config.task != "causal-lm":
        return []
    shown = problem.rows["test"].take(range(problem.config.documents))
    loader = encode(replace(problem.config, batch=1), shown, problem.processor)
    documents: list[list[dict[str, Any]]] = []
    for batch in loader:
        made = calibrated.predict(batch)
        ids = batch["input_ids"][0]
        if isinstance(made, Classification):
            documents.append(
                [
                    {
                        "token": problem.processor.decode([int(ids[place + 1])]),
                        "uncertainty": float(made.total[0, place]),
                        "epistemic": float(made.epistemic[0, place]),
                        "prob": float(made.probs[0, place, ids[place + 1]]),
                    }
                    for place in range(len(ids) - 1)
                ]
            )
    return documents


def _examples(problem: Problem, name: str, split: Split) -> dict[str, list[dict[str, Any]]]:
    """The least and the most certain texts or images of a split, for a person to look at."""
    rows = problem.rows[name]
    total = torch.cat(split.total)
    if len(total) != len(rows):  # a language model has one number for each token
        return {}
    order = total.argsort()
    shown = problem.config.examples
    columns: dict[str, Tensor] = {"uncertainty": total, "epistemic": torch.cat(split.epistemic)}
    if split.confidence:
        columns["confidence"] = torch.cat(split.confidence)
    labels = rows.labels

    def row(i: int) -> dict[str, Any]:
        found: dict[str, Any] = {key: float(values[i]) for key, values in columns.items()}
        if isinstance(rows, Images):
            found["png"] = base64.b64encode(png.written(rows.pixels[i])).decode()
        else:
            found["text"] = rows.texts[i]
        if labels is None:
            return {**found, "label": None, "correct": None}
        correct = bool(torch.cat(split.correct)[i])
        return {**found, "label": rows.classes[int(labels[i])], "correct": correct}

    return {
        "most_certain": [row(i) for i in order[:shown].tolist()],
        "least_certain": [row(i) for i in order.flip(0)[:shown].tolist()],
    }
