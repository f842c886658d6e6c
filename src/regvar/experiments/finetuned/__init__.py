"""Fine-tuned networks on real data: every method's likelihood, calibration and sense of shift."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regvar.errors import ModelError
from regvar.experiments.finetuned.cells import DEMO, METHODS, STUDIES, Study
from regvar.experiments.pipeline import Experiment, Outcome
from regvar.records import Record

if TYPE_CHECKING:
    from regvar.experiments.finetuned.problem import Problem
    from regvar.report import Page

# What needs transformers, matplotlib or jinja2 is imported when it is called: listing experiments
# needs none of them.


def experiment(study: Study) -> Experiment[Any]:
    """A study of `cells`."""

    def prepare(cell: str, seed: int) -> Problem:
        try:
            from regvar.experiments.finetuned import problem
        except ModuleNotFoundError as error:
            if error.name not in ("transformers", "peft", "accelerate"):
                raise
            raise ModelError(
                f"{study.name} needs {error.name}, but it is not installed. "
                "Run `pip install 'regvar[hf,weights]'`."
            ) from error
        return problem.prepare(study.cells[cell], seed)

    return Experiment(
        name=study.name,
        summary=study.summary,
        methods=METHODS,
        seeds=study.seeds,
        configs=study.cells,
        prepare=prepare,
        run=_run,
        page=_page,
        without=study.without,
    )


def experiments() -> tuple[Experiment[Any], ...]:
    """All studies."""
    return tuple(experiment(study) for study in STUDIES)


def reduced() -> Experiment[Any]:
    """A smaller study with the methods that take seconds each, for a first look."""
    return experiment(DEMO)


def _run(problem: Problem, method: str) -> Outcome:
    from regvar.experiments.finetuned.study import run

    return run(problem, method)


def _page(found: Sequence[Record]) -> Page:
    from regvar.experiments.finetuned.page import page

    return page(found)


def overview(found: Sequence[Record]) -> Page:
    """One page over the records of several studies."""
    from regvar.experiments.finetuned.page_overview import overview

    return overview(found)


__all__ = ["METHODS", "STUDIES", "Study", "experiment", "experiments", "overview", "reduced"]
