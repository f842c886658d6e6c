"""Figures of the synthetic study, each from its records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from regvar.experiments.synthetic.page_tables import audited
from regvar.experiments.synthetic.page_values import METHODS, SPLITS, Study, extra
from regvar.plots import style
from regvar.plots.bands import Panel, bands
from regvar.plots.dots import DotPanel, DotRow, dots
from regvar.plots.intervals import IntervalPanel, intervals
from regvar.plots.sweeps import Curve, SweepPanel, sweeps
from regvar.records import Record
from regvar.report import Figure, number, spread

SHOWN = "sin-inbetween"  # the task of the paper's Figure
PAPER_FOUR = ("exact_hessian", "ggn", "eigenvectors", "amortized_eval")
OTHER_THREE = ("pointwise", "sampled", "amortized_in_sample")
LOOKS = {label: style.look(place) for place, label in enumerate(METHODS.values())}


def pictures(study: Study, name: str, methods: Sequence[str], caption: str) -> Figure | None:
    """Bands of some methods on Sin-Inbetween, one seed's; the exact Hessian's dashed."""
    seed = _shown_seed(study)
    found = {m: r for m in METHODS if (r := _drawn(study, m, seed)) is not None}
    held = {method: found[method] for method in methods if method in found}
    truth = found.get("exact_hessian") or found.get("ggn")
    if not held or truth is None:
        return None
    exact = METHODS[truth.method]
    panels = [Panel(METHODS[m], _audit_note(r), *_curve(r)) for m, r in held.items()]
    drawing = bands(
        truth.extra["bands"]["x"],
        panels,
        (truth.extra["train"]["x"], truth.extra["train"]["y"]),
        _curve(truth)[1],
        exact,
        columns=4,
    )
    widest = "; ".join(
        f"{METHODS[m]} {number(max(filter(math.isfinite, _curve(r)[1]), default=math.nan), 2)}"
        for m, r in held.items()
    )
    return Figure(
        name,
        drawing,
        f"Mean and two standard deviations of {len(held)} methods on Sin-Inbetween, training data "
        f"as dots in two clusters. Largest standard deviation shown: {widest}.",
        f"{caption} Shaded: mean ± 2 standard deviations of the output, without the observations' "
        f"variance. Dashed: the same of the {exact}. Seed {seed}"
        + ("" if seed == study.seeds[0] else ", the first with all bands defined everywhere")
        + "; the notes are its audit.",
    )


def variance_sweeps(study: Study) -> Figure | None:
    """Validation NLL by observation variance."""
    return _sweep_figure(
        study,
        ("sigma2_sweep", "sigma2", "sigma2"),
        "sweep-sigma2",
        ("observation variance σ²", "validation NLL"),
        "Validation NLL per datum over the paper's grid of observation variances.",
    )


def lam_sweeps(study: Study) -> Figure | None:
    """Validation NLL by λ."""
    return _sweep_figure(
        study,
        ("lam_sweep", "lam", "lam"),
        "sweep-lam",
        ("λ", "NLL above the seed's best"),
        "Validation NLL per datum by λ of the amortized refits, above the least of the same seed.",
        above=True,
    )


def parameter_intervals(study: Study) -> Figure | None:
    """One standard deviation around 30 parameters, method by method."""
    task = SHOWN if SHOWN in study.tasks else next(iter(study.tasks), SHOWN)
    held = {
        METHODS.get(method, method): found[0]
        for method in study.holders("parameters")
        if (found := [r for r in study.of(task, method) if r.extra.get("parameters")])
    }
    if not held:
        return None
    first = next(iter(held.values()))
    panels = [
        IntervalPanel(label, r.extra["parameters"]["theta"], r.extra["parameters"]["std"])
        for label, r in held.items()
    ]
    names = [str(index) for index in first.extra["parameters"]["index"]]
    where = f"{study.tasks.get(task, task)}, seed {first.seed}"
    over = {
        panel.title: sum(abs(c) <= h for c, h in zip(panel.centers, panel.half_widths, strict=True))
        for panel in panels
    }
    counts = ", ".join(f"{label} {count}" for label, count in over.items())
    return Figure(
        "parameters",
        intervals(panels, names, "index of the parameter, in the order of its value"),
        f"Intervals of {len(names)} parameters under {len(panels)} methods. Intervals with zero "
        f"inside: {counts}.",
        f"One standard deviation around {len(names)} randomly chosen parameters ({where}). "
        f"Hollow: zero lies inside. Of {len(names)}: {counts}.",
    )


def sparsity(study: Study) -> Figure | None:
    """Error of the mean after parameters whose interval contains zero were set to zero."""
    methods = study.holders("sparsity")
    if not methods:
        return None
    panels: list[DotPanel] = []
    for task, label in study.tasks.items():
        for split, short in SPLITS.items():
            held = study.values(task, extra("sparsity", split))
            dense = study.values(task, extra("sparsity", f"dense_{split}"))
            mean = spread([v for by in dense.values() for v in by.values()]).mean
            panels.append(DotPanel(f"{label}, {short}", _dot_rows(held, methods), mean))
    drawing = dots(panels, LOOKS, "mean absolute error", "the network before", log=True)
    return Figure(
        "sparsity",
        drawing,
        f"Mean absolute error of the sparse networks of {len(methods)} methods, in "
        f"{len(panels)} panels, one for each task and split; the table below has the numbers.",
        "Mean absolute error of the predicted mean after setting to zero every parameter whose "
        "interval contains zero. Faint: a seed. Strong: mean and 95 % interval over seeds. "
        "Dashed: the network before.",
    )


def audit_ranks(study: Study) -> Figure | None:
    """Rank correlations with pointwise truth, seed by seed."""
    methods = audited(study)
    if not methods:
        return None
    read = extra("audit", "rank_correlation")
    panels = [
        DotPanel(label, _dot_rows(study.values(task, read), methods), 1.0)
        for task, label in study.tasks.items()
    ]
    drawing = dots(
        panels,
        LOOKS,
        "rank correlation",
        "orders the inputs as the truth does",
        limits=(-1.08, 1.08),
    )
    return Figure(
        "audit-rank",
        drawing,
        f"Rank correlations of {len(methods)} methods with pointwise truth on {len(panels)} tasks; "
        "the table below has the numbers.",
        "Rank correlation of each variance with pointwise truth. Faint: a seed. Strong: mean and "
        "95 % interval over seeds.",
    )


def _sweep_figure(
    study: Study,
    keys: tuple[str, str, str],
    name: str,
    axes: tuple[str, str],
    caption: str,
    above: bool = False,
) -> Figure | None:
    sweep, axis, chosen = keys
    panels: list[SweepPanel] = []
    said: list[str] = []
    for task, label in study.tasks.items():
        curves = [
            Curve(
                METHODS.get(method, method),
                records[0].extra[sweep][axis],
                [_scores(record, sweep, above) for record in records],
                [r.extra[chosen] for r in records if r.extra.get(chosen) is not None],
            )
            for method in study.methods
            if (records := _swept(study, task, method, sweep, axis))
        ]
        curves = _merged(curves)
        if curves:
            panels.append(SweepPanel(label, curves))
            choices = [f"{c.label} {_choices(c.chosen)}" for c in curves if c.chosen]
            said.append(f"{label}: {'; '.join(choices)}.")
    if not panels:
        return None
    labels = [curve.label for panel in panels for curve in panel.curves]
    looks = {label: LOOKS.get(label, style.look(0)) for label in labels}
    drawing = sweeps(panels, looks, axes)
    return Figure(
        name,
        drawing,
        f"{caption} Chosen most often: {' '.join(said)}",
        f"{caption} Lines: mean over seeds; bands: least to most; ring: the value chosen most "
        "often, with the number of seeds that chose it.",
    )


def _merged(curves: Sequence[Curve]) -> list[Curve]:
    """One curve for all methods where they share their sweep."""
    if len(curves) > 1 and all(
        (c.x, c.scores, c.chosen) == (curves[0].x, curves[0].scores, curves[0].chosen)
        for c in curves
    ):
        first = curves[0]
        return [Curve("all methods", first.x, first.scores, first.chosen)]
    return list(curves)


def _swept(study: Study, task: str, method: str, sweep: str, axis: str) -> list[Record]:
    held = [record for record in study.of(task, method) if record.extra.get(sweep)]
    return [record for record in held if record.extra[sweep][axis] == held[0].extra[sweep][axis]]


def _scores(record: Record, sweep: str, above: bool) -> list[float]:
    found = [math.nan if v is None else float(v) for v in record.extra[sweep]["nll"]]
    least = min(filter(math.isfinite, found), default=math.nan) if above else 0.0
    return [v - least for v in found]


def _choices(chosen: Sequence[float]) -> str:
    most = max(sorted(set(chosen)), key=chosen.count)
    return f"{most:g} ({chosen.count(most)} of {len(chosen)} seeds)"


def _shown_seed(study: Study) -> int:
    """The first seed with the most methods whose bands are defined everywhere."""

    def defined(seed: int) -> int:
        held = (_drawn(study, method, seed) for method in (*PAPER_FOUR, *OTHER_THREE))
        return sum(r is not None and all(map(math.isfinite, _curve(r)[1])) for r in held)

    return max(study.seeds, key=lambda seed: (defined(seed), -seed))


def _drawn(study: Study, method: str, seed: int) -> Record | None:
    for record in study.of(SHOWN, method):
        if record.seed == seed and record.extra.get("bands") and record.extra.get("train"):
            return record
    return None


def _curve(record: Record) -> tuple[list[float], list[float]]:
    """Mean and standard deviation; a stored null is NaN, which leaves a gap."""
    held = record.extra["bands"]
    mean, std = (
        [math.nan if v is None else float(v) for v in held[key]] for key in ("mean", "std")
    )
    return mean, std


def _audit_note(record: Record) -> str:
    found = record.extra.get("audit")
    if not found or found["rank_correlation"] is None:
        return ""
    rank = f"{found['rank_correlation']:+.2f}".replace("-", "−")
    return f"rank {rank}, scale {found['scale']:.2g}"


def _dot_rows(held: Mapping[str, Mapping[int, float]], methods: Mapping[str, str]) -> list[DotRow]:
    rows: list[DotRow] = []
    for method, label in methods.items():
        values = [held[method][seed] for seed in sorted(held.get(method, {}))]
        summary = spread(values)
        if summary.count:
            rows.append(DotRow(label, values, summary.mean, summary.half_width))
    return rows
