"""Fine-tune, estimate, calibrate, judge, and write all of it: `regvar finetune`."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from regvar import report
from regvar.calibration import Calibrated, calibrate
from regvar.errors import CalibrationWarning, SolverWarning
from regvar.estimators import Amortized, Sampled, amortized, sampled
from regvar.experiments.finetuned.scores import Split as Scored, score
from regvar.finetuning import folder, networks, page, sources, splitting, tables
from regvar.finetuning.answers import Columns, Reader, Value
from regvar.finetuning.folder import Run
from regvar.finetuning.settings import LANGUAGE, Settings
from regvar.finetuning.splitting import Split
from regvar.huggingface.loading import Pretrained
from regvar.likelihoods import Categorical
from regvar.log_joint import LogJoint
from regvar.map_fit import MapFit, fit_map
from regvar.predictives import Probit
from regvar.priors import GaussianPrior
from regvar.solvers import Finetune

Say = Callable[[str], None]
METRICS = ("NLL", "ECE", "accuracy", "AUROC of errors")


@dataclass(frozen=True)
class Finetuned:
    """What came of a run."""

    directory: Path
    page: Path
    scores: Mapping[str, Mapping[str, Any]]  # "map", "regvar" → metric → value and its error
    notes: tuple[str, ...]  # what to know before the numbers are trusted

    def summary(self) -> str:
        """The scores, for a terminal."""
        columns: Columns = {"": [*self.scores]}
        for name in METRICS:
            found = [held[name] for held in self.scores.values()]
            columns[name] = [None if one is None else one["value"] for one in found]
        return tables.head(columns)


def finetune(settings: Settings, out: str | Path, say: Say = lambda _: None) -> Finetuned:
    """Fit a network to a user's data, find its uncertainty, calibrate it, and judge both.

    Args:
        settings: which network, which data, and how.
        out: a new or an empty directory.
        say: told of each step, in a line.
    """
    target = Path(out)
    with folder.fresh(target) as scratch:
        first = sources.read(settings)
        splitting.require_rows(first)
        classes = first.classes
        settings = _absolute(settings)
        found = networks.pretrained(settings, classes, lora=settings.lora)
        whole = (
            first if sources.complete(settings) else sources.read(settings, networks.side(found))
        )
        parts = splitting.split(whole, settings.limit, settings.seed)
        say(_sizes(settings, parts))
        loaders = {
            name: networks.scored(found, settings, part.rows, shuffle=name == "train")
            for name, part in parts.items()
        }
        with _noted() as notes:
            calibrated, fit, seconds = _fitted(settings, found, loaders, say)
        shared = _shared(calibrated)
        reader = Reader(_estimator(calibrated), calibrated.scale, classes, shared)
        run = Run(settings, reader, found)
        scores = _judged(calibrated, loaders["test"])
        test = _answered(run, parts["test"])
        numbers = {who: _numbers(split) for who, split in scores.items()}
        folder.put_json(scratch / "metrics.json", _metrics(numbers, calibrated, parts))
        tables.write(test, scratch / "test.csv")
        facts = {**_facts(parts, found), "seconds": seconds, "notes": notes, "map": asdict(fit)}
        folder.write(run, _finite(facts), scratch)
        made = page.Judged(
            settings, parts, scores, numbers, test, calibrated.scale, shared, tuple(notes), facts
        )
        report.write(page.page(made), scratch)
    return Finetuned(target, target / "report.html", numbers, tuple(notes))


def _fitted(
    settings: Settings, found: Pretrained, loaders: Mapping[str, Any], say: Say
) -> tuple[Calibrated, MapFit, dict[str, float]]:
    """The MAP, its estimator and the scale of its variance."""
    networks.try_out(found, loaders["train"])
    joint = LogJoint(
        found.model,
        loaders["train"],
        likelihood=Categorical(),
        prior=GaussianPrior(precision=settings.precision),
    )
    begin = time.perf_counter()
    say(f"Fitting {found.name}: {found.trainable:,} parameters, {settings.epochs} epochs")
    fit = fit_map(joint, epochs=settings.epochs, lr=settings.lr, seed=settings.seed)
    done = time.perf_counter()
    refits = f"{settings.samples + 1} refits" if settings.method == "sampled" else "one refit"
    say(f"Fitted in {done - begin:.0f} s. Uncertainty: {refits}, an epoch each")
    uq = _uncertain(settings, joint)
    ready = time.perf_counter()
    say(f"Refitted in {ready - done:.0f} s. Calibrating on the validation rows")
    calibrated = _calibrated(uq, loaders["validation"], several=settings.task != LANGUAGE)
    end = time.perf_counter()
    seconds = {"fit": done - begin, "refits": ready - done, "calibration": end - ready}
    return calibrated, fit, seconds


def _uncertain(settings: Settings, joint: LogJoint) -> Sampled | Amortized:
    solver = Finetune(
        lam=settings.lam, lr=settings.refit_lr, measure_residual=False, seed=settings.seed
    )
    if settings.method == "amortized":
        return amortized(joint, solver=solver)
    return sampled(joint, settings.samples, solver, settings.seed)


def _calibrated(uq: Sampled | Amortized, loader: Any, *, several: bool) -> Calibrated:
    """By Eq. 20, or with one variance for all classes of a row where validation prefers that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)  # the best one's is given at the end
        found = [
            calibrate(uq, loader, predictive=Probit(Categorical(), shared))
            for shared in ((False, True) if several else (False,))
        ]
    best = max(found, key=lambda calibrated: calibrated.log_likelihood)
    if best.note:
        warnings.warn(best.note, CalibrationWarning, stacklevel=2)
    return best


def _shared(calibrated: Calibrated) -> bool:
    predictive = calibrated.predictive
    assert isinstance(predictive, Probit)  # as `_calibrated` made it
    return predictive.shared


def _estimator(calibrated: Calibrated) -> Sampled | Amortized:
    uq = calibrated.uq
    assert isinstance(uq, Sampled | Amortized)  # as `_uncertain` made it
    return uq


def _judged(calibrated: Calibrated, loader: Any) -> dict[str, Scored]:
    """The network alone, whose variance counts for nothing, and with its uncertainty."""
    return {
        "map": score(replace(calibrated, scale=0.0), loader),
        "regvar": score(calibrated, loader),
    }


def _answered(run: Run, part: Split) -> Columns:
    """The test rows as `regvar predict` would answer them, beside their labels."""
    rows = part.rows
    bare = replace(rows, labels=None)
    columns = run.reader.read(networks.batches(run.network, run.settings, bare), len(rows))
    names: list[Value] = [*sources.names(run.settings, rows, part.indices)]
    labels: Columns = {}
    if rows.labels is not None:
        labels["label"] = [rows.classes[k] for k in rows.labels.tolist()]
    return {sources.heading(rows): names, **labels, **columns}


def _numbers(split: Scored) -> dict[str, Any]:
    """Value, standard error and count by metric; null where there is no such number."""
    found = split.metrics()
    return {name: _finite(asdict(found[name])) if name in found else None for name in METRICS}


def _metrics(
    numbers: Mapping[str, Any], calibrated: Calibrated, parts: Mapping[str, Split]
) -> dict[str, Any]:
    return {
        "test": dict(numbers),
        "validation": {
            "log_likelihood": calibrated.log_likelihood,
            "log_likelihood_of_map": calibrated.curve.log_likelihood[0],  # at the scale 0
            "scale": calibrated.scale,
            "shared": _shared(calibrated),
        },
        "rows": {name: len(part.rows) for name, part in parts.items()},
    }


def _facts(parts: Mapping[str, Split], found: Pretrained) -> dict[str, Any]:
    return {
        "origin": found.origin,
        "trainable": found.trainable,
        "data": {
            name: {
                "rows": len(part.rows),
                "by_class": splitting.counts(part.rows) if part.rows.labels is not None else {},
                "manifest": part.manifest,
            }
            for name, part in parts.items()
        },
    }


def _sizes(settings: Settings, parts: Mapping[str, Split]) -> str:
    sizes = ", ".join(f"{len(part.rows)} {name}" for name, part in parts.items())
    classes = parts["train"].rows.classes
    named = "" if settings.task == LANGUAGE else f"; {len(classes)} classes: {', '.join(classes)}"
    return f"Rows of {Path(settings.data).name}: {sizes}{named}"


def _absolute(settings: Settings) -> Settings:
    """An adapter's base may be looked for from anywhere."""
    base = Path(settings.model_name)
    if settings.lora and base.is_dir():
        return replace(settings, model=str(base.resolve()))
    return settings


@contextmanager
def _noted() -> Generator[list[str]]:
    """Our own warnings as sentences, each once; other libraries' are not the user's concern."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    ours = [str(w.message) for w in caught if issubclass(w.category, _OURS)]
    notes += dict.fromkeys(ours)


_OURS = (CalibrationWarning, SolverWarning)


def _finite(held: Any) -> Any:
    """JSON knows no NaN."""
    if isinstance(held, dict):
        return {k: _finite(v) for k, v in held.items()}
    return None if isinstance(held, float) and not math.isfinite(held) else held
