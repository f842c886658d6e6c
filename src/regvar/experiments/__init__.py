"""One module per table or figure of the paper, over one pipeline; and the list of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regvar.experiments import finetuned, synthetic
from regvar.experiments.pipeline import Experiment, Outcome, Tally, build, choose

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


__all__ = ["EXPERIMENTS", "Experiment", "Outcome", "Tally", "build", "choose", "find"]
