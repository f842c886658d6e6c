"""Tables of the synthetic study: scores beside the paper's, calibration, audit, cost."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping

from regvar.experiments.synthetic import paper_values
from regvar.experiments.synthetic.page_values import SPLITS, Study, extra, metric, total
from regvar.records import Record
from regvar.report import (
    Cell,
    Column,
    Row,
    RowGroup,
    Score,
    Table,
    compare,
    number,
    plain,
    spread,
)
from regvar.report.comparison import ByMethod
from regvar.report.tables import MISSING

NOMINAL = 0.95  # what PICP's intervals promise
SCORES = {
    "PICP": Score(3, lambda value: abs(value - NOMINAL)),
    "CRPS": Score(4, lambda value: value),
    "NLL": Score(3, lambda value: value),
}
CAPTIONS = {
    "PICP": "PICP: how many of the held-out y lie in the 95 % interval (nearer to 0.95 is better)",
    "CRPS": "CRPS, the standard score, mean per datum (smaller is better)",
    "NLL": "NLL, mean per datum (smaller is better)",
}
NEAREST = "For PICP, best is the smallest mean over seeds of each seed's distance to 0.95."


def columns(
    study: Study, read: Callable[[str], Callable[[Record], float | None]]
) -> dict[Column, ByMethod]:
    """Tasks × splits; `read` makes a split's reader."""
    return {
        Column(short, label): study.values(task, read(split))
        for task, label in study.tasks.items()
        for split, short in SPLITS.items()
    }


def scored(study: Study, name: str, suffix: str = "") -> dict[Column, ByMethod]:
    """The columns of one metric; suffix "/calibrated" for what one variance scale makes of it."""
    return columns(study, lambda split: metric(split + suffix, name))


def scores(study: Study, name: str) -> Table:
    """One metric of the raw variances, PICP beside the paper's."""
    below = (_printed(study, name),) if name == "PICP" else ()
    notes = (NEAREST,) if name == "PICP" else ()
    return compare(
        name.lower(),
        CAPTIONS[name] + ".",
        scored(study, name),
        study.methods,
        SCORES[name],
        below,
        notes,
    )


def nll_sums(study: Study) -> Table:
    """NLL as the paper has it, summed over each test set."""
    return compare(
        "nll-sum",
        "NLL summed over the test set, as the paper prints it.",
        columns(study, lambda split: total(split, "NLL")),
        study.methods,
        Score(1),
        (_printed(study, "NLL"),),
    )


def calibrated(study: Study, name: str) -> Table:
    """One metric after each method's variance was scaled."""
    return compare(
        f"{name.lower()}-calibrated",
        f"Calibrated: {CAPTIONS[name]}.",
        scored(study, name, "/calibrated"),
        study.methods,
        SCORES[name],
        notes=(NEAREST,) if name == "PICP" else (),
    )


def scales(study: Study) -> Table:
    """The scales that calibration chose."""
    return _medians(
        study,
        "scale",
        "The variance scale chosen on validation data: median over seeds (least to most).",
        extra("scale"),
        study.holders("scale"),
    )


def sparsity(study: Study) -> Table:
    """Errors of the sparse networks, and below them the error of the network before."""
    before = [
        spread(list(_any_method(by).values())).cell(3)
        for by in columns(study, lambda split: extra("sparsity", f"dense_{split}")).values()
    ]
    return compare(
        "sparsity",
        "Mean absolute error of the predicted mean after sparsifying.",
        columns(study, lambda split: extra("sparsity", split)),
        study.holders("sparsity"),
        Score(3),
        (RowGroup((Row("the network before", tuple(before)),)),),
        (
            "Not marked: methods set different numbers of parameters to zero (next table), and one "
            "that sets none keeps the error of the network before.",
        ),
    )


def zeroed(study: Study) -> Table:
    """How many parameters the sparse networks lost."""
    held = {
        Column(label): study.values(task, extra("sparsity", "zeroed"))
        for task, label in study.tasks.items()
    }
    methods = study.holders("sparsity")
    return compare("sparsity-zeroed", "Parameters set to zero.", held, methods, Score(1))


def audit_ranks(study: Study) -> Table:
    """Rank correlation with pointwise truth."""
    held = {
        Column(label): study.values(task, extra("audit", "rank_correlation"))
        for task, label in study.tasks.items()
    }
    return compare(
        "audit-rank",
        "Audit: Spearman's rank correlation of the variance with pointwise truth.",
        held,
        audited(study),
        Score(3),
        notes=("–: a variance that is the same everywhere has no ranks.",),
    )


def audit_scales(study: Study) -> Table:
    """Size against pointwise truth."""
    return _medians(
        study,
        "audit-scale",
        "Audit: median ratio of the variance to pointwise truth; median over seeds (least to "
        "most).",
        extra("audit", "scale"),
        audited(study),
    )


def audited(study: Study) -> dict[str, str]:
    """The methods whose variance was compared with the truth's, where it can be ranked."""
    read = extra("audit", "rank_correlation")
    ranked = {
        method
        for task in study.tasks
        for method, held in study.values(task, read).items()
        if any(math.isfinite(value) for value in held.values())
    }
    return {method: label for method, label in study.methods.items() if method in ranked}


def cost(study: Study) -> Table:
    """Where the time went."""
    phases = ("map", "fit", "inference")
    rows: list[Row] = []
    everything = study.methods | study.holders("sparsity")
    for method, label in everything.items():
        held = [record for record in study.records if record.method == method]
        cells = [spread([r.seconds[p] for r in held if p in r.seconds]).cell(3) for p in phases]
        memory = number(max(filter(math.isfinite, (r.peak_mib for r in held)), default=math.nan), 0)
        solves = [found for r in held if (found := r.extra.get("solution"))]
        converged = sum(found["status"] == "converged" for found in solves)
        status = f"{converged} of {len(solves)}" if solves else MISSING
        rows.append(Row(label, (*cells, Cell(memory), Cell(str(len(held))), Cell(status))))
    return Table(
        "cost",
        "Seconds a record: mean over tasks and seeds ± half the width of its 95 % interval.",
        "method",
        (
            Column("MAP", "seconds"),
            Column("fit", "seconds"),
            Column("inference", "seconds"),
            Column("peak MiB"),
            Column("records"),
            Column("solves converged"),
        ),
        (RowGroup(tuple(rows)),),
        (
            "Peak MiB is the most resident memory that the process had reached by then, the "
            "interpreter and torch included. Methods that share a MAP each report its time.",
        ),
    )


def provenance(study: Study) -> Table:
    """Which program wrote the records."""
    records = study.records
    names = sorted({name for record in records for name in record.versions})
    rows = [
        *(
            (name, sorted({r.versions[name] for r in records if name in r.versions}))
            for name in names
        ),
        ("commit", sorted({record.commit for record in records})),
        ("config hash", sorted({record.config_hash for record in records})),
        ("threads", sorted({str(record.threads) for record in records})),
        ("seeds", [str(seed) for seed in study.seeds]),
    ]
    texts = [(name, [", ".join(held)]) for name, held in rows]
    return Table(
        "provenance",
        "What the records say of themselves.",
        "field",
        (Column("value"),),
        plain(texts),
        wordy=True,
    )


def _any_method(values: ByMethod) -> dict[int, float]:
    """One value a seed, of what does not depend on the method."""
    return {seed: value for by in values.values() for seed, value in by.items()}


def _printed(study: Study, name: str) -> RowGroup:
    rows: list[Row] = []
    for method, label in paper_values.METHODS.items():
        held = paper_values.PRINTED[method]
        places = [(task, split) for task in study.tasks for split in SPLITS]
        texts = [held[p].scores[name] if p in held else MISSING for p in places]
        rows.append(Row(label, tuple(map(Cell, texts))))
    return RowGroup(tuple(rows), "paper, as printed (one run)")


def _medians(
    study: Study,
    name: str,
    caption: str,
    read: Callable[[Record], float | None],
    methods: Mapping[str, str],
) -> Table:
    held = [study.values(task, read) for task in study.tasks]
    rows = [
        (label, [_range(by.get(method, {})) for by in held]) for method, label in methods.items()
    ]
    heads = tuple(Column(label) for label in study.tasks.values())
    return Table(name, caption, "method", heads, plain(rows))


def _range(values: Mapping[int, float]) -> str:
    finite = [value for value in values.values() if math.isfinite(value)]
    if not finite:
        return MISSING
    low, high = (f"{v:.3g}" for v in (min(finite), max(finite)))
    return f"{statistics.median(finite):.3g} ({low} to {high})"
