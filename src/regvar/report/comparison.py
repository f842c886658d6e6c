"""Methods side by side over seeds: mean and interval, which is best, which are tied with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from regvar.report import student
from regvar.report.tables import Cell, Column, Mark, Row, RowGroup, Table, number

BySeed = Mapping[int, float]  # seed → value
ByMethod = Mapping[str, BySeed]  # method → seed → value
Loss = Callable[[float], float]

LEVEL = 0.05
READING = "Cells: mean over seeds ± half the width of its 95 % interval (Student's t)."
ONE_SEED = "Cells: one seed, so no intervals. Bold: the best of the column; nothing is tested."
RULE = (
    "Bold: the best mean of the column. ≈: not told apart from the best by a two-sided paired "
    "t-test over seeds at 5 % (no correction for the number of tests). Cells whose seeds are "
    "incomplete or not finite take no part."
)


@dataclass(frozen=True)
class Spread:
    """Mean of some seeds' values and how far the choice of seeds may have moved it."""

    mean: float  # NaN where there is no value
    half_width: float  # of the 95 % interval; NaN for fewer than two values
    count: int

    def cell(self, decimals: int, mark: Mark = Mark.NONE, wanted: int | None = None) -> Cell:
        """Mean ± half width, and how many seeds are in it when that is fewer than wanted."""
        aside = "" if math.isnan(self.half_width) else f"± {number(self.half_width, decimals)}"
        if wanted is not None and 0 < self.count < wanted:
            aside = f"{aside} ({self.count} of {wanted} seeds)".strip()
        return Cell(number(self.mean, decimals), aside, mark)


def spread(values: Sequence[float]) -> Spread:
    """Mean and 95 % interval t₀.₉₅ s/√n of the finite values.

    >>> from regvar.report import comparison
    >>> comparison.spread([1.0, 2.0, 3.0]).cell(2).whole
    '2.00 ± 2.48'
    """
    finite = [v for v in values if math.isfinite(v)]
    count = len(finite)
    if not count:
        return Spread(math.nan, math.nan, 0)
    mean = math.fsum(finite) / count
    if count == 1:
        return Spread(mean, math.nan, 1)
    squares = math.fsum((v - mean) ** 2 for v in finite)
    error = math.sqrt(squares / (count - 1) / count)
    return Spread(mean, student.quantile(0.95, count - 1) * error, count)


def marks(losses: ByMethod, level: float = LEVEL) -> dict[str, Mark]:
    """Which method has the smallest mean loss, and which are statistically tied with it.

    Of equal bests the first is best and the others are tied. Only methods that have a finite loss
    for every seed that any method has take part: a mean over other seeds is a mean over other
    tasks. A method is tied when a two-sided paired t-test over the seeds does not tell its loss
    from the best one's at `level`. With one seed there is no test and so no tie.

    >>> from regvar.report import comparison
    >>> losses = {"a": {0: 1.0, 1: 1.1, 2: 0.9}, "b": {0: 1.1, 1: 1.0, 2: 1.0}, "c": {0: 0.5}}
    >>> [mark.name for mark in comparison.marks(losses).values()]
    ['BEST', 'TIED', 'NONE']
    """
    found = dict.fromkeys(losses, Mark.NONE)
    seeds = sorted({seed for values in losses.values() for seed in values})
    whole = {
        method: [values[seed] for seed in seeds]
        for method, values in losses.items()
        if all(math.isfinite(values.get(seed, math.nan)) for seed in seeds)
    }
    if not seeds or len(whole) < 2:
        return found
    totals = {method: math.fsum(values) for method, values in whole.items()}
    least = min(totals.values())
    best = next(m for m in whole if math.isclose(totals[m], least, rel_tol=student.ROUNDING))
    for method, values in whole.items():
        if student.paired_p_value(values, whole[best]) >= level:
            found[method] = Mark.TIED
    found[best] = Mark.BEST
    return found


@dataclass(frozen=True)
class Score:
    """What a column is scored by.

    `loss` turns a value into what is compared, smaller being better; `None` compares nothing.
    """

    decimals: int = 3
    loss: Loss | None = None


def compare(
    name: str,
    caption: str,
    columns: Mapping[Column, ByMethod],
    methods: Mapping[str, str],
    score: Score,
    below: Sequence[RowGroup] = (),
    notes: Sequence[str] = (),
) -> Table:
    """A table of methods, one row each, over columns.

    Args:
        name: of the table's files.
        caption: what the numbers are.
        columns: what each holds, method by method and seed by seed.
        methods: the rows in order, with their labels.
        score: decimals, and which values are better.
        below: rows from elsewhere, which take no part in the marks.
        notes: put below the table, before the rules of reading it.
    """
    most = max((len(v) for held in columns.values() for v in held.values()), default=0)
    standing = {
        column: marks({m: _losses(held[m], score.loss) for m in methods if m in held})
        for column, held in columns.items()
        if score.loss is not None
    }
    rows: list[Row] = []
    for method, label in methods.items():
        cells: list[Cell] = []
        for column, held in columns.items():
            mark = standing.get(column, {}).get(method, Mark.NONE)
            values = list(held.get(method, {}).values())
            cells.append(spread(values).cell(score.decimals, mark, most))
        rows.append(Row(label, tuple(cells)))
    ours = RowGroup(tuple(rows), "regvar" if any(group.label for group in below) else "")
    rules = (READING, RULE) if most > 1 else (ONE_SEED,)
    if score.loss is None:
        rules = rules[:1] if most > 1 else ()
    return Table(name, caption, "method", tuple(columns), (ours, *below), (*notes, *rules))


def _losses(values: BySeed, loss: Loss | None) -> dict[int, float]:
    return {seed: loss(v) if loss else v for seed, v in values.items()}
