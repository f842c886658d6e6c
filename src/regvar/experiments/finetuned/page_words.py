"""What a fine-tuned study found, in sentences computed from its records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from regvar.experiments.finetuned import page_effects, paper_values
from regvar.experiments.finetuned.page_tables import SHIFT
from regvar.experiments.finetuned.page_values import (
    MEANINGS,
    METHODS,
    REGVAR,
    Study,
    draws,
    fewer_draws,
    mean_metric,
    split_label,
)
from regvar.report import Mark, marks, number, spread
from regvar.report.comparison import LEVEL, BySeed
from regvar.report.student import paired_p_value

SCORED = ("NLL", "ECE")
FEW = 3  # seeds

Place = tuple[str, tuple[str, ...]]  # a cell and the splits of a set


def lead(study: Study, summary: str) -> tuple[str, ...]:
    """What was run, and how RegVar stands."""
    versions = {k: v for record in study.records for k, v in record.versions.items()}
    commits = sorted({record.commit for record in study.records})
    ran = (
        f"{summary}{': ' if summary else ''}{_plural(len(study.cells), 'cell')}, "
        f"{_plural(len(study.methods), 'method')}, {_plural(len(study.seeds), 'seed')}: "
        f"{_plural(len(study.records), 'record')}, {number(_minutes(study), 1)} minutes of "
        "training, fitting and predicting, with "
        + ", ".join(f"{name} {versions[name]}" for name in sorted(versions))
        + f", at commit{'s' * (len(commits) > 1)} {', '.join(commits)}. Every number on this page "
        "but the paper's is computed from those records."
    )
    return tuple(text for text in (ran, standing(study)) if text)


def findings(study: Study) -> tuple[str, ...]:
    """The results, a statement each."""
    found: list[str] = []
    for cell in study.cells:
        found += [_best(study, cell), *effects_of(study, cell), _shifted(study, cell)]
    return tuple(text for text in found if text)


def effects_of(study: Study, cell: str) -> tuple[str, ...]:
    """What a cell gains by drift, by regularization, and by draws."""
    found = (said(study, cell) for said in (_drift, _control, _by_draws))
    return tuple(text for text in found if text)


def meanings(study: Study) -> tuple[str, ...]:
    """What each method is."""
    return tuple(
        f"{label}: {MEANINGS[method]}."
        for method, label in study.methods.items()
        if method in MEANINGS
    )


def cells(study: Study) -> tuple[str, ...]:
    """What each cell is made of."""
    said: list[str] = []
    for cell, label in study.cells.items():
        config = study.config(cell)
        sizes = [
            f"{config[part]['size']} {word}"
            for part, word in (
                ("train", "to train on"),
                ("validation", "for validation"),
                ("test", "held out"),
            )
            if part in config
        ]
        held = {r.extra.get("trainable") for r in study.records if r.cell == cell}
        weights = [f"{count:,} trained weights" for count in sorted(filter(None, held))]
        said.append(f"{label}: {', '.join([*weights, *sizes])}{_shifts(config)}.")
    return tuple(said)


def standing(study: Study) -> str:
    """In how many columns RegVar is best or tied with the best."""
    good = {name: _good(study, name) for name in SCORED}
    judged = [place for place in good["NLL"] if place in good["ECE"]]
    if not judged:
        return ""
    # A nearly uniform prediction is calibrated and says nothing.
    informed = _good(study, "ECE", informed=True)
    inside = [place for place in judged if place[1] == ("test",)]

    def count(places: list[Place], *held: Mapping[Place, bool]) -> int:
        return sum(all(by.get(place, False) for by in held) for place in places)

    few = 1 < len(study.seeds) <= FEW
    weak = (
        f" {len(study.seeds)} seeds tell only large differences: ties mean little." if few else ""
    )
    return (
        "RegVar, amortized (as it is, or minus its control) or sampled, is best or statistically "
        f"tied with the best of all methods in {count(judged, good['NLL'])} of {len(judged)} for "
        f"NLL, in {count(judged, good['ECE'])} of {len(judged)} for ECE (cells, in domain and "
        f"shifted), and in {count(judged, informed)} for ECE among the methods whose NLL is no "
        "worse than MAP's, which leaves out nearly uniform predictions. In domain it is so for "
        f"both in {count(inside, good['NLL'], good['ECE'])} of {_plural(len(inside), 'cell')}, and "
        f"among those methods in {count(inside, good['NLL'], informed)}.{weak}"
    )


def unmatched(study: Study) -> str:
    """The cells that the paper has nothing like."""
    alone = [label for cell, label in study.cells.items() if cell not in paper_values.COUNTERPARTS]
    return f"The paper has nothing to put beside: {', '.join(alone)}." if alone else ""


def warned(study: Study) -> str:
    """How many records something was said about, and which settings failed."""
    count = sum(bool(record.extra.get("warnings")) for record in study.records)
    failed = [
        trial["failure"]
        for record in study.records
        for trial in record.extra.get("trials") or ()
        if trial.get("failure")
    ]
    failures = f" {_plural(len(failed), 'setting')} failed, such as: {failed[0]}" if failed else ""
    return (
        f"Warnings were given in {count} of {_plural(len(study.records), 'record')}; each record "
        f"holds its own, under extra.{failures}"
    )


def _shifts(config: Mapping[str, Any]) -> str:
    named: dict[str, str] = {}
    for part in config.get("shifts") or ():
        word = str(part.get("corruption") or "").rsplit("-", 1)[0]
        label = f"{word} of several strengths" if word else split_label(str(part["data"]))
        unlabeled = "" if part.get("labeled", True) else " (its labels are not scored)"
        named[label] = f"{label}{unlabeled}"
    return f"; shifted: {', '.join(named.values())}" if named else ""


def _good(study: Study, name: str, *, informed: bool = False) -> dict[Place, bool]:
    """Whether RegVar is best or tied, by cell and set; sets that were not judged are left out.

    `informed` compares the methods alone whose mean NLL is no worse than MAP's.
    """
    found: dict[Place, bool] = {}
    for cell in study.cells:
        for splits in study.sets(cell).values():
            held = dict(study.values(cell, mean_metric(splits, name)))
            if informed:
                means = {
                    m: _mean(v) for m, v in study.values(cell, mean_metric(splits, "NLL")).items()
                }
                most = means.get("map_only", math.inf)
                held = {m: values for m, values in held.items() if means.get(m, math.inf) <= most}
            standings = marks(held)
            if Mark.BEST in standings.values():
                ours = (standings.get(method, Mark.NONE) for method in REGVAR)
                found[cell, splits] = any(mark is not Mark.NONE for mark in ours)
    return found


def _best(study: Study, cell: str) -> str:
    parts: list[str] = []
    first = ""  # of NLL
    likelihoods = study.values(cell, mean_metric(("test",), "NLL"))
    for name in SCORED:
        held = study.values(cell, mean_metric(("test",), name))
        standings = marks(dict(held))
        best = next((m for m, mark in standings.items() if mark is Mark.BEST), None)
        if best is None:
            continue
        tied = [_named(m, held) for m in METHODS if standings.get(m) is Mark.TIED]
        words = f", statistically tied with {', '.join(tied)}" if tied else ""
        if first and best != first and best in likelihoods:
            words = f", at an NLL of {number(_mean(likelihoods[best]), 3)}{words}"
        first = first or best
        parts.append(f"the smallest {name} is of {_named(best, held)}{words}")
    return f"{study.cells[cell]}, in domain: {'; '.join(parts)}." if parts else ""


def _drift(study: Study, cell: str) -> str:
    held = study.values(cell, mean_metric(("test",), "NLL"))
    if not {"map_only", "drift"} <= held.keys():
        return ""
    means = {method: _mean(held[method]) for method in held}
    said = (
        f"{study.cells[cell]}: one more epoch without any regularizer takes NLL from "
        f"{number(means['map_only'], 3)} (MAP) to {number(means['drift'], 3)} (drift)"
    )
    if "amortized" not in held:
        return f"{said}."
    apart = _apart(held["amortized"], held["drift"])
    return f"{said}; the paper's amortized rule gives {number(means['amortized'], 3)}, {apart}."


def _apart(first: BySeed, second: BySeed) -> str:
    """How the amortized rule differs from drift, as far as the seeds tell."""
    seeds = sorted(first.keys() & second.keys())
    differences = [first[seed] - second[seed] for seed in seeds]
    found = spread(differences)
    size = found.cell(3).whole
    if found.count < 2:
        return f"{size} from drift, with no seeds to test it by"
    p = paired_p_value([first[seed] for seed in seeds], [second[seed] for seed in seeds])
    if p >= LEVEL:
        return f"which the seeds do not tell apart from drift (difference {size})"
    return f"{'better' if found.mean < 0 else 'worse'} than drift (difference {size})"


def _control(study: Study, cell: str) -> str:
    held = study.values(cell, mean_metric(("test",), "NLL"))
    if not {"map_only", "drift", "amortized_control"} <= held.keys():
        return ""
    start, drift, alone = (
        number(_mean(held[method]), 3) for method in ("map_only", "drift", "amortized_control")
    )
    return (
        f"{study.cells[cell]}: with the drift subtracted, by the control, the amortized rule takes "
        f"NLL from {start} (MAP) to {alone} by regularization alone; drift alone takes it to "
        f"{drift}."
    )


def _by_draws(study: Study, cell: str) -> str:
    held = page_effects.variants(study, cell, ("test",), "NLL")
    said = [
        f"{number(_mean(held[f'sampled-{count}']), 3)} at K = {count}"
        for count in fewer_draws(study, cell)
        if f"sampled-{count}" in held
    ]
    whole = draws(study, cell)
    if not said or "sampled" not in held:
        return ""
    last = f" at K = {whole}" if whole else ""
    return (
        f"{study.cells[cell]}: sampled refits, minus one shared control, give NLL "
        f"{', '.join(said)} and {number(_mean(held['sampled']), 3)}{last}."
    )


def _shifted(study: Study, cell: str) -> str:
    sets = {label: splits for label, splits in study.sets(cell).items() if splits != ("test",)}
    parts: list[str] = []
    for label, splits in sets.items():
        best: list[str] = []
        for metric, word in SHIFT.items():
            held = study.values(cell, mean_metric(splits, metric))
            means = {m: mean for m, by in held.items() if math.isfinite(mean := _mean(by))}
            if means:
                top = max(means, key=lambda method: means[method])
                best.append(f"{_label(top)} {number(means[top], 2)} ({word})")
        if best:
            parts.append(f"{label}, {', '.join(best)}")
    if not parts:
        return ""
    return f"{study.cells[cell]}, telling shifted inputs, largest AUROC: {'; '.join(parts)}."


def _named(method: str, held: Mapping[str, BySeed]) -> str:
    return f"{_label(method)} ({number(_mean(held[method]), 3)})"


def _label(method: str) -> str:
    return METHODS.get(method, method)


def _mean(values: BySeed) -> float:
    return spread(list(values.values())).mean


def _minutes(study: Study) -> float:
    """A network is trained once for all methods of its cell and seed, and counted once."""
    shared: dict[tuple[str, int], float] = {}
    for record in study.records:
        place = (record.cell, record.seed)
        shared[place] = max(shared.get(place, 0.0), record.seconds.get("map", 0.0))
    own = [s for r in study.records for phase, s in r.seconds.items() if phase != "map"]
    return math.fsum(s for s in (*shared.values(), *own) if math.isfinite(s)) / 60


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
