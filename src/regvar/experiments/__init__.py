"""One module per table or figure of the paper, over one pipeline; and the list of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from regvar.experiments import finetuned, synthetic
from regvar.experiments.pipeline import Experiment, Outcome, Tally, build, choose

if TYPE_CHECKING:
    from regvar.records import Record
    from regvar.report import Page

EXPERIMENTS: Mapping[str, Experiment[Any]] = {
    experiment.name: experiment for experiment in (synthetic.experiment(), *finetuned.experiments())
}


def find(name: str) -> Experiment[Any]:
    """An experiment by name; an unknown one is an error with a suggestion.

    >>> from regvar import experiments
    >>> experiments.find("synthetic").name
    'synthetic'
    """
    (known,) = choose("NAME", [name], tuple(EXPERIMENTS))
    return EXPERIMENTS[known]


def overview(found: Sequence[Record]) -> Page | None:
    """One page over the studies of Table 1, where the records are of several of them."""
    names = {study.name for study in finetuned.STUDIES}
    held = [record for record in found if record.experiment in names]
    several = len({record.experiment for record in held}) > 1
    return finetuned.overview(held) if several else None


__all__ = ["EXPERIMENTS", "Experiment", "Outcome", "Tally", "build", "choose", "find", "overview"]
