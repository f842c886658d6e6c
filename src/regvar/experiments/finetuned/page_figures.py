"""Figures of the fine-tuned studies, each from its records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

from regvar.experiments.finetuned.page_tables import name_of
from regvar.experiments.finetuned.page_values import METHODS, SETTINGS, Study, mean_metric
from regvar.plots import style
from regvar.plots.contours import Surface, contours
from regvar.plots.dots import DotPanel, DotRow, dots
from regvar.plots.lines import Line, LinePanel, lines
from regvar.plots.reliability import Bins, ReliabilityPanel, reliability
from regvar.plots.sweeps import Curve, SweepPanel, sweeps
from regvar.records import Record
from regvar.report import Figure, number, spread

DRAWN = ("map_only", "mc_dropout", "amortized", "sampled")  # more would hide each other
# Whatever shares a figure comes first: looks repeat after the last.
FIRST = (*DRAWN, "amortized_control", "laplace_last_layer_diag", "laplace_last_layer_full")
LOOKS = {
    METHODS[method]: style.look(place)
    for place, method in enumerate((*FIRST, *(m for m in METHODS if m not in FIRST)))
}


def calibration(study: Study, cell: str) -> Figure | None:
    """Reliability in domain and shifted, before (MAP) and after."""
    panels: list[ReliabilityPanel] = []
    for split, label in study.examples(cell).items():
        series = [
            Bins(METHODS[method], *_columns(held, ("confidence", "accuracy", "count")))
            for method in DRAWN
            if (held := _first(study, cell, method, "reliability", split))
        ]
        if series:
            panels.append(ReliabilityPanel(label, series))
    if not panels:
        return None
    errors = "; ".join(
        f"{METHODS[m]} {_mean(study, cell, m, 'ECE')}" for m in DRAWN if study.of(cell, m)
    )
    return Figure(
        name_of("calibration", cell),
        reliability(panels, LOOKS, columns=min(4, len(panels))),
        f"Accuracy against confidence of {study.cells[cell]} in {len(panels)} panels: "
        f"{', '.join(panel.title for panel in panels)}. ECE in domain: {errors}.",
        f"{study.cells[cell]}. Accuracy of each of ten bins of confidence with its 95 % Wald "
        "interval, MAP (before) and after, where it holds five or more; dashed, confidence as good "
        f"as its word; below, the share of the data in each bin. Seed {study.seeds[0]}.",
    )


def selective(study: Study, cell: str) -> Figure | None:
    """Error among the most certain, by how many are kept."""
    panels: list[LinePanel] = []
    for split, label in study.examples(cell).items():
        held = [
            Line(METHODS[method], *_columns(found, ("coverage", "risk")))
            for method in DRAWN
            if (found := _first(study, cell, method, "risk", split))
        ]
        if held:
            panels.append(LinePanel(label, held))
    if not panels:
        return None
    areas = "; ".join(
        f"{METHODS[m]} {_mean(study, cell, m, 'AURC')}" for m in DRAWN if study.of(cell, m)
    )
    drawing = lines(panels, LOOKS, ("share kept", "error"), min(4, len(panels)), marked=False)
    return Figure(
        name_of("risk", cell),
        drawing,
        f"Error of {study.cells[cell]} among the most certain inputs, by the share that is kept, "
        f"in {len(panels)} panels. Area in domain: {areas}.",
        f"{study.cells[cell]}. Error among the inputs kept when the least certain, by total "
        f"uncertainty, are left out. Lower is better. Seed {study.seeds[0]}.",
    )


def strengths(study: Study, cell: str) -> Figure | None:
    """NLL by how strongly images were corrupted."""
    panels: list[LinePanel] = []
    for label, splits in study.sets(cell).items():
        if len(splits) < 2:
            continue
        by = {split: study.values(cell, mean_metric((split,), "NLL")) for split in splits}
        held: list[Line] = []
        for method in DRAWN:
            means = [spread(list(by[split].get(method, {}).values())).mean for split in splits]
            if all(map(math.isfinite, means)):
                places = [float(split.rsplit("-", 1)[1]) for split in splits]
                held.append(Line(METHODS[method], places, means))
        if held:
            panels.append(LinePanel(label, held))
    if not panels:
        return None
    worst = "; ".join(
        f"{panel.title}: "
        + ", ".join(f"{line.label} {number(line.y[-1], 2)}" for line in panel.lines)
        for panel in panels
    )
    return Figure(
        name_of("strengths", cell),
        lines(panels, LOOKS, ("strength", "NLL")),
        f"NLL of {study.cells[cell]} by strength of corruption. At the strongest, {worst}.",
        f"{study.cells[cell]}. NLL by strength of corruption, mean over seeds.",
    )


def tuning(study: Study) -> Figure | None:
    """Validation NLL by what was tuned."""
    panels: list[SweepPanel] = []
    for cell, label in study.cells.items():
        for setting, word in SETTINGS.items():
            curves = [
                curve
                for method in study.methods_of(cell)
                if (curve := _sweep(study.of(cell, method), method, setting)) is not None
            ]
            if curves:
                panels.append(SweepPanel(f"{label}:\n{word}", curves))
    if not panels:
        return None
    looks = {label: LOOKS.get(label, style.look(0)) for label in study.methods.values()}
    return Figure(
        "tuning",
        sweeps(panels, looks, ("setting", "validation NLL")),
        f"Validation NLL by setting, in {len(panels)} panels: "
        f"{'; '.join(panel.title for panel in panels)}. The table above has what was chosen.",
        "Validation NLL of every setting, each at its own best variance scale. Lines: mean over "
        "seeds; bands: least to most; ring: chosen most often, with the number of seeds.",
    )


def _sweep(held: Sequence[Record], method: str, setting: str) -> Curve | None:
    """The trials of all seeds that tried the same values."""
    tried = [[t for t in r.extra.get("trials") or () if t.get(setting)] for r in held]
    values = [[float(trial[setting]) for trial in trials] for trials in tried]
    first = next((found for found in values if len(found) > 1), None)
    if first is None:
        return None
    scores = [
        [_negative(trial["log_likelihood"]) for trial in trials]
        for trials, found in zip(tried, values, strict=True)
        if found == first
    ]
    if not any(math.isfinite(score) for row in scores for score in row):
        return None
    chosen = [c for r in held if (c := (r.extra.get("settings") or {}).get(setting))]
    return Curve(METHODS.get(method, method), first, scores, chosen)


def surfaces(study: Study) -> Figure | None:
    """Validation NLL over λ and the variance scale, as in the paper's contour plot."""
    panels: list[Surface] = []
    for cell, label in study.cells.items():
        for method in ("amortized", "amortized_control"):
            made = _surface(f"{label}:\n{METHODS[method]}", study.of(cell, method))
            if made is not None:
                panels.append(made)
    if not panels:
        return None
    least = "; ".join(
        f"{p.title.replace(chr(10), ' ')}, λ = {p.chosen[0]:g} and scale {p.chosen[1]:.2g}"
        for p in panels
    )
    return Figure(
        "lam-scale",
        contours(panels, columns=2),
        f"Validation NLL over λ and the variance scale. Smallest at: {least}.",
        "Validation NLL over λ of the refit and the variance scale, mean over seeds; stronger is "
        "smaller. Dashed: parallels of the identity. Where the contours follow them, the best "
        "scale grows as λ does, and a refit moved as far whatever λ was: by drift. Where they lie "
        "level, the response to λ is proportional to it.",
    )


def _surface(title: str, held: Sequence[Record]) -> Surface | None:
    """Means over the seeds, at the λ and the scales that all have."""
    seeds = [
        {float(t["lam"]): _curve(t["curve"]) for t in trials if t.get("lam") and t.get("curve")}
        for r in held
        if (trials := r.extra.get("trials"))
    ]
    seeds = [found for found in seeds if found]
    if not seeds:
        return None
    lams = sorted(set[float].intersection(*(set(found) for found in seeds)))
    curves = [found[lam] for found in seeds for lam in lams]
    if len(lams) < 2 or not curves:
        return None
    scales = sorted(set[float].intersection(*(set(curve) for curve in curves)))
    if len(scales) < 2:
        return None
    scores = [
        [math.fsum(found[lam][scale] for found in seeds) / len(seeds) for scale in scales]
        for lam in lams
    ]
    return Surface(title, lams, scales, scores)


def _curve(held: Mapping[str, Any]) -> dict[float, float]:
    pairs = zip(held["scales"], held["log_likelihood"], strict=True)
    return {float(scale): -float(score) for scale, score in pairs if scale and score is not None}


def clock(study: Study) -> Figure | None:
    """Seconds of fitting and of inference."""
    panels: list[DotPanel] = []
    for cell, label in study.cells.items():
        trained = max(r.seconds.get("map", 0.0) for r in study.records if r.cell == cell)
        for phase, word in (("fit", "fitting"), ("inference", "inference")):
            rows: list[DotRow] = []
            for method, name in study.methods_of(cell).items():
                held = [r.seconds.get(phase, math.nan) for r in study.of(cell, method)]
                found = spread([seconds for seconds in held if seconds > 0])
                if found.count:
                    rows.append(DotRow(name, held, found.mean, found.half_width))
            if rows:
                reference = trained if phase == "fit" and trained > 0 else None
                panels.append(DotPanel(f"{fill(label, 22)}:\n{word}", rows, reference))
    if not panels:
        return None
    looks = {label: LOOKS.get(label, style.look(0)) for label in study.methods.values()}
    return Figure(
        "clock",
        dots(panels, looks, "seconds", "fine-tuning the network", columns=2, log=True),
        f"Seconds of fitting and inference of {len(study.methods)} methods; the table below has "
        "the numbers.",
        "Seconds of fitting (all settings tried, and their calibration) and of inference on all "
        "held-out sets. Faint: a seed. Strong: mean and 95 % interval over seeds. Dashed: the "
        "longest fine-tuning of the network itself, which all methods share.",
    )


def _first(study: Study, cell: str, method: str, key: str, split: str) -> Mapping[str, Any] | None:
    """What the first seed's record holds; nothing where it holds nothing."""
    for record in study.of(cell, method):
        if record.seed == study.seeds[0]:
            return (record.extra.get(key) or {}).get(split)
    return None


def _columns(held: Mapping[str, Sequence[float | None]], keys: Sequence[str]) -> list[list[float]]:
    """A stored null is NaN."""
    return [[math.nan if v is None else float(v) for v in held[key]] for key in keys]


def _mean(study: Study, cell: str, method: str, metric: str) -> str:
    held = study.values(cell, mean_metric(("test",), metric)).get(method, {})
    return number(spread(list(held.values())).mean, 3)


def _negative(value: float | None) -> float:
    return math.nan if value is None else -float(value)
