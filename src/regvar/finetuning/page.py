"""The page of a run: what the network scores, how far its confidence holds, where it is unsure."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regvar.data import png
from regvar.data.datasets import Images
from regvar.experiments.finetuned.scores import Split as Scored
from regvar.finetuning.answers import Columns
from regvar.finetuning.settings import LANGUAGE, Settings
from regvar.finetuning.splitting import Split, counts
from regvar.metrics.estimate import Z_95
from regvar.plots import reliability as diagrams, style
from regvar.report import (
    Cell,
    Code,
    Column,
    Excerpt,
    Excerpts,
    Figure,
    Gallery,
    Items,
    Page,
    Picture,
    Row,
    RowGroup,
    Section,
    Table,
    Text,
    number,
    plain,
)
from regvar.report.page import Part

_NAMES = {"map": "the network alone", "regvar": "with RegVar, calibrated"}
_SHOWN = 8  # examples of each kind
_LETTERS = 600  # of a text that is shown
_MEANING = (
    "NLL: minus the mean log probability of the true label; lower is better.",
    "ECE: how far confidence and accuracy lie apart, on average; lower is better.",
    "AUROC of errors: how well the entropy of a prediction tells wrong ones from right ones: 0.5 "
    "is chance, 1 perfect. It is left out where all predictions are right, or all wrong.",
    "± is the half width of a 95 % interval over the test rows.",
)


@dataclass(frozen=True)
class Judged:
    """Everything that the page says."""

    settings: Settings
    parts: Mapping[str, Split]
    scored: Mapping[str, Scored]  # "map" and "regvar"
    numbers: Mapping[str, Mapping[str, Any]]
    test: Columns  # answers to the test rows
    scale: float
    shared: bool  # one variance for all classes of a row
    notes: Sequence[str]
    facts: Mapping[str, Any]

    @property
    def rows(self) -> int:
        """Of the test part."""
        return len(self.parts["test"].rows)


def page(made: Judged) -> Page:
    """Scores, reliability, examples, data, settings."""
    settings = made.settings
    sizes = ", ".join(f"{len(part.rows)} {name}" for name, part in made.parts.items())
    lead = (
        f"{settings.model_name} was fine-tuned on {settings.data} ({sizes} rows). The training "
        "rows fitted it, the validation rows chose how much its uncertainty counts, and the test "
        "rows, which it has not seen, are what this page is about.",
    )
    sections = [
        Section("Scores", (_scores(made), Items(_MEANING), *_remarks(made))),
        Section("Can its confidence be trusted", (_reliability(made),)),
        Section("Least and most certain", _examples(made)),
        Section("Data", (_data(made),)),
        Section("Settings", (_how(made), Code(_command(settings)))),
    ]
    return Page(f"{settings.model_name} on {_short_name(settings.data)}", lead, tuple(sections))


def _short_name(source: str) -> str:
    return source.rstrip("/").rsplit("/", 1)[-1]


def _scores(made: Judged) -> Table:
    metrics = list(made.numbers["map"])
    rows = tuple(
        Row(_NAMES[who], tuple(_cell(found[name]) for name in metrics))
        for who, found in made.numbers.items()
    )
    count = made.numbers["map"]["NLL"]["count"]
    what = "tokens" if made.settings.task == LANGUAGE else "rows"
    return Table(
        "scores",
        f"Scores on {count} test {what}.",
        "",
        tuple(Column(name) for name in metrics),
        (RowGroup(rows),),
    )


def _cell(estimate: Mapping[str, Any] | None) -> Cell:
    if estimate is None:
        return Cell(number(math.nan))
    error = estimate["standard_error"]
    aside = "" if error is None else f"± {number(Z_95 * error)}"
    return Cell(number(estimate["value"]), aside)


def _remarks(made: Judged) -> tuple[Part, ...]:
    """What to know before the numbers are trusted."""
    whose = "one variance for all classes of a row" if made.shared else "a variance for each class"
    by_class = "" if made.settings.task == LANGUAGE else f", with {whose}"
    said = [
        f"The variance counts {made.scale:.3g} times{by_class}, as the validation rows would have "
        "it."
    ]
    if made.settings.task != LANGUAGE and made.rows < 100:
        said.append(
            f"There are {made.rows} test rows only, so that the intervals are wide: a difference "
            "smaller than they are may be chance."
        )
    return (Text((*said, *made.notes)),)


def _reliability(made: Judged) -> Figure:
    looks = {label: style.look(k) for k, label in enumerate(_NAMES.values())}
    series = [
        diagrams.Bins(_NAMES[who], **split.reliability()) for who, split in made.scored.items()
    ]
    drawing = diagrams.reliability([diagrams.ReliabilityPanel("test rows", series)], looks)
    return Figure(
        "reliability",
        drawing,
        "Accuracy against confidence on the test rows, for the network alone and with RegVar.",
        "Of the predictions with a confidence of about 0.8, 80 % should be right: then they lie on "
        "the dashed line. Below it the network is too sure of itself. The bars are 95 % intervals, "
        "not drawn for fewer than five predictions; the strip below shows how many predictions "
        "have such a confidence.",
    )


def _examples(made: Judged) -> tuple[Part, ...]:
    """The ends of the test rows, sorted by how sure the network is of them."""
    by_text = made.settings.task == LANGUAGE
    measured = made.test["std" if by_text else "total"]
    known = [i for i, value in enumerate(measured) if isinstance(value, float)]
    order = sorted(known, key=lambda i: float(measured[i] or 0.0))
    shown = min(_SHOWN, len(order) // 2) or len(order)
    return (
        _list(made, "The least certain", order[::-1][:shown]),
        _list(made, "The most certain", order[:shown]),
    )


def _list(made: Judged, title: str, chosen: Sequence[int]) -> Part:
    rows = made.parts["test"].rows
    if isinstance(rows, Images):
        pictures = tuple(
            Picture(
                png.written(rows.pixels[i]),
                f"{made.test['file'][i]}",
                *_said(made.test, i),
            )
            for i in chosen
        )
        return Gallery(title, pictures)
    excerpts = tuple(Excerpt(_cut(rows.texts[i]), *_said(made.test, i)) for i in chosen)
    return Excerpts(title, excerpts)


def _said(test: Columns, i: int) -> tuple[str, str, bool | None]:
    """What stands beside an example: its label, the numbers, and whether it was right."""
    if "predicted" not in test:
        mean, std = test["mean_log_prob"][i], test["std"][i]
        return (f"mean log probability {mean:.3f}", f"± {std:.3f}", None)
    predicted, label = str(test["predicted"][i]), str(test["label"][i])
    right = predicted == label
    heading = f"{predicted}" if right else f"{predicted}, but it is {label}"
    aside = (
        f"confidence {test['confidence'][i]:.2f}, uncertainty {test['total'][i]:.2f}, "
        f"of which epistemic {test['epistemic'][i]:.3f}"
    )
    return (heading, aside, right)


def _cut(text: str) -> str:
    return text if len(text) <= _LETTERS else text[:_LETTERS] + " …"


def _data(made: Judged) -> Table:
    tallies = {name: counts(part.rows) for name, part in made.parts.items()}
    rows = [
        (label or "texts", [str(tally[label]) for tally in tallies.values()])
        for label in tallies["train"]
    ]
    columns = tuple(Column(name) for name in tallies)
    return Table("data", "Rows of each class.", "class", columns, plain(rows))


def _how(made: Judged) -> Items:
    settings, facts = made.settings, made.facts
    refits = (
        f"{settings.samples} refits under random pulls and one without"
        if settings.method == "sampled"
        else "one refit that pulls all outputs"
    )
    adapter = " of a LoRA adapter and a new head" if settings.lora else ""
    seconds = facts["seconds"]
    return Items(
        (
            f"{facts['trainable']:,} trained parameters{adapter}; seed {settings.seed}.",
            f"Fit: {settings.epochs} epochs of Adam at {settings.lr:g}, {settings.batch_size} rows "
            f"a batch, prior precision {settings.precision:g}; {seconds['fit']:.0f} s.",
            f"Uncertainty: {refits}, λ = {settings.lam:g}, one epoch of Adam at "
            f"{settings.refit_lr:g}; {seconds['refits']:.0f} s.",
        )
    )


def _command(settings: Settings) -> str:
    """The command that does it again."""
    plainly = settings.to_json()
    given = [
        f"--{name.replace('_', '-')}" if value is True else f"--{name} {_value(value)}"
        for name, value in plainly.items()
        if value is not None and value is not False and value != []
    ]
    return "regvar finetune " + " ".join(given) + " --out DIR"


def _value(value: Any) -> str:
    return shlex.quote(",".join(value) if isinstance(value, list) else str(value))
