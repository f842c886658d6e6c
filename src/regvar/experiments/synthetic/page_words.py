"""What the synthetic study found, in sentences computed from its records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch

from regvar.audit import AuditReport
from regvar.experiments.synthetic import paper_values
from regvar.experiments.synthetic.page_tables import audited, scored
from regvar.experiments.synthetic.page_values import MEANINGS, METHODS, Study, extra, median, metric
from regvar.report import Cell, Column, Mark, Row, RowGroup, Table, marks, number, spread
from regvar.report.comparison import ByMethod

AMORTIZED = ("amortized_eval", "amortized_in_sample")
JUDGED = ("sampled", *AMORTIZED)


def lead(study: Study) -> tuple[str, ...]:
    """What was run, and what came out."""
    versions = {k: v for record in study.records for k, v in record.versions.items()}
    commits = sorted({record.commit for record in study.records})
    ran = (
        f"Appendix C of the paper: {_plural(len(study.tasks), 'task')}, "
        f"{_plural(len(study.methods), 'method')} that predict, "
        f"{_plural(len(study.seeds), 'seed')}: {_plural(len(study.records), 'record')}, "
        f"{number(_minutes(study), 1)} minutes of training, fitting and predicting, with "
        + ", ".join(f"{name} {versions[name]}" for name in sorted(versions))
        + f", at commit{'s' * (len(commits) > 1)} {', '.join(commits)}. Every number on this page "
        "is computed from those records."
    )
    return tuple(text for text in (ran, _headline(study)) if text)


def findings(study: Study) -> tuple[str, ...]:
    """The results, a statement each."""
    found = [
        _standing(study, "", "Without calibration"),
        _standing(study, "/calibrated", "After one variance scale from validation data"),
        _near_ggn(study),
        *(_shortfall(study, method) for method in AMORTIZED),
    ]
    return tuple(text for text in found if text)


def meanings(study: Study) -> tuple[str, ...]:
    """What each method is."""
    present = study.methods | study.holders("sparsity")
    return tuple(f"{label}: {MEANINGS[m]}." for m, label in present.items() if m in MEANINGS)


def printed_crps() -> str:
    """Why the paper's CRPS is not in the table."""
    printed = [float(p.crps) for by in paper_values.PRINTED.values() for p in by.values()]
    low = sum(value < paper_values.LEAST_CRPS for value in printed)
    return (
        "The paper's CRPS is left out: it cannot be the standard score. With observation noise of "
        "standard deviation 0.1, the perfectly known predictive N(μ, 0.1²) scores 0.1/√π = "
        f"{paper_values.LEAST_CRPS:.4f} on average and no predictive scores less; {low} of the "
        f"paper's {len(printed)} values do, down to {min(printed):.3g}."
    )


def printed_sine() -> str:
    """Why our sums on the sine tasks are not the paper's."""
    tasks = [(task, "id") for task in ("sin-uniform", "sin-inbetween")]
    printed = [float(by[task].nll) for by in paper_values.PRINTED.values() for task in tasks]
    paper, ours = (
        number(paper_values.expected_nll(sigma2, paper_values.SIN_POINTS), 1)
        for sigma2 in (0.05, 0.01)
    )
    return (
        f"In distribution on the sine tasks the paper prints sums from {number(min(printed), 1)} "
        f"to {number(max(printed), 1)} and PICP 1. That is what an observation variance of 0.05 "
        f"gives: a network with the true mean would score {paper} on "
        f"{paper_values.SIN_POINTS} points. With the noise's own variance, 0.01, it would score "
        f"{ours}."
    )


def sizes(study: Study) -> str:
    """How large the test sets are."""
    said: list[str] = []
    for task, label in study.tasks.items():
        held = [r.metrics for r in study.records if r.cell == task and r.metrics]
        counts = [max(m[split]["NLL"]["count"] for m in held) for split in ("id", "ood") if held]
        if counts:
            said.append(f"{label} {counts[0]:.0f} and {counts[1]:.0f}")
    return (
        f"Test points in and out of distribution: {', '.join(said)}. The paper does not say where "
        "it looked out of distribution; here an in-between task looks into its gap, the others to "
        "both sides of their data."
    )


def audited_how(study: Study) -> str:
    """What the audit compares."""
    audits = [r.extra["audit"] for r in study.records if r.extra.get("audit")]
    points = sorted({found["points"] for found in audits})
    return (
        "Each variance against pointwise truth, J P⁻¹ Jᵀ with the GGN's P, at "
        f"{' or '.join(map(str, points))} inputs of the test sets, in and out of distribution "
        "together. Rank correlation says whether it orders the inputs rightly; the scale, by what "
        "factor it is off. A calibration scale mends the second, nothing mends the first."
    )


def warned(study: Study) -> str:
    """How many records something was said about while they were made."""
    count = sum(bool(record.extra.get("warnings")) for record in study.records)
    return (
        f"Warnings were given in {count} of {_plural(len(study.records), 'record')}; each record "
        "holds its own, under extra."
    )


def ranges(seeds: Sequence[int]) -> str:
    """Seeds as the command line reads them.

    >>> from regvar.experiments.synthetic import page_words
    >>> page_words.ranges([0, 1, 2, 5])
    '0-2,5'
    """
    runs: list[list[int]] = []
    for seed in seeds:
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def verdicts(study: Study) -> Table:
    """The audit's words at the medians over seeds."""
    rows: list[Row] = []
    for method, label in audited(study).items():
        cells: list[Cell] = []
        for task in study.tasks:
            ranks = study.values(task, extra("audit", "rank_correlation")).get(method, {})
            scales = study.values(task, extra("audit", "scale")).get(method, {})
            cells.append(Cell(_verdict(ranks, scales)))
        rows.append(Row(label, tuple(cells)))
    return Table(
        "audit-verdict",
        "Audit: the verdict in words, at the medians over seeds.",
        "method",
        tuple(Column(label) for label in study.tasks.values()),
        (RowGroup(tuple(rows)),),
        wordy=True,
    )


def _verdict(ranks: Mapping[int, float], scales: Mapping[int, float]) -> str:
    rank, scale = median(ranks), median(scales)
    if math.isnan(rank):
        return "–"
    nothing = torch.empty(0)
    text = AuditReport(rank, scale, 0, nothing, nothing, None).verdict
    return text.removeprefix("The variance ").capitalize()


def _minutes(study: Study) -> float:
    """A network is trained once for all methods of its task and seed, and counted once."""
    shared = {(r.cell, r.seed): r.seconds.get("map", 0.0) for r in study.records}
    own = [s for r in study.records for phase, s in r.seconds.items() if phase != "map"]
    return math.fsum(s for s in (*shared.values(), *own) if math.isfinite(s)) / 60


def _headline(study: Study) -> str:
    good, judged = _standings(study, "/calibrated")
    sentences: list[str] = []
    ours = [method for method in JUDGED if method in good]
    if ours:
        most = max(good, key=lambda method: good[method])
        counts = ", ".join(f"{METHODS[method]} in {good[method]}" for method in ours)
        sentences.append(
            "After one variance scale each, NLL is best or statistically tied with the best for "
            f"{METHODS.get(most, most)} in {good[most]} of {judged} columns; of RegVar's forms, "
            f"{counts}."
        )
    worst = {m: min(_medians(study, "rank_correlation", m).values(), default=None) for m in JUDGED}
    known = {method: rank for method, rank in worst.items() if rank is not None}
    if known:
        ranks = ", ".join(f"{METHODS[m]} {number(rank, 2)}" for m, rank in known.items())
        sentences.append(
            f"Median rank correlation with pointwise truth, on the worst task of each: {ranks}."
        )
    return " ".join(sentences)


def _standings(study: Study, suffix: str) -> tuple[dict[str, int], int]:
    """In how many NLL columns each method is best or tied, and how many columns were judged."""
    columns = scored(study, "NLL", suffix)
    held = [marks({m: v for m, v in c.items() if m in study.methods}) for c in columns.values()]
    judged = [found for found in held if Mark.BEST in found.values()]
    if not judged:
        return {}, 0
    good = {
        method: sum(found.get(method, Mark.NONE) is not Mark.NONE for found in judged)
        for method in study.methods
    }
    return good, len(judged)


def _standing(study: Study, suffix: str, opening: str) -> str:
    good, judged = _standings(study, suffix)
    if not good:
        return ""
    order = sorted(good, key=lambda method: -good[method])
    counts = ", ".join(f"{study.methods[method]} {good[method]}" for method in order)
    return (
        f"{opening}, of {judged} NLL columns (tasks, in and out of distribution) each method is "
        f"best or statistically tied with the best in: {counts}."
    )


def _near_ggn(study: Study) -> str:
    gaps: dict[str, float] = {}
    for task, label in study.tasks.items():
        held = study.values(task, metric("ood", "NLL"))
        pair = [spread(list(held.get(m, {}).values())).mean for m in ("sampled", "ggn")]
        if all(math.isfinite(mean) for mean in pair):
            gaps[label] = pair[0] - pair[1]
    if not gaps:
        return ""
    worst = max(abs(gap) for gap in gaps.values())
    draws = {k for r in study.records if (k := r.config.get("samples"))}
    stated = "".join(
        f" The stated relative standard error of one variance is √(2/{k}) = {math.sqrt(2 / k):.2g}."
        for k in sorted(draws)
    )
    return (
        "Sampled RegVar stands for the GGN without forming it: its mean out-of-distribution NLL "
        f"is within {number(worst, 3)} per datum of the GGN's on every task"
        f"{_scale_words(study, 'sampled')}.{stated}"
    )


def _shortfall(study: Study, method: str) -> str:
    if method not in audited(study):
        return ""
    ranks = _medians(study, "rank_correlation", method)
    low, high = min(ranks, key=lambda t: ranks[t]), max(ranks, key=lambda t: ranks[t])
    return (
        f"The paper's amortized rule, {METHODS[method]}, is not the variance: its median rank "
        f"correlation with pointwise truth runs from {number(ranks[low], 2)} ({low}) to "
        f"{number(ranks[high], 2)} ({high}){_scale_words(study, method)}."
    )


def _scale_words(study: Study, method: str) -> str:
    scales = _medians(study, "scale", method)
    if not scales:
        return ""
    low, high = min(scales.values()), max(scales.values())
    return f", and its variance is {low:.2g} to {high:.2g} times the truth's (medians over seeds)"


def _medians(study: Study, key: str, method: str) -> dict[str, float]:
    held: dict[str, ByMethod] = {
        label: study.values(task, extra("audit", key)) for task, label in study.tasks.items()
    }
    found = {label: median(by.get(method, {})) for label, by in held.items()}
    return {label: value for label, value in found.items() if math.isfinite(value)}


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
