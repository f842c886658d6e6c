"""The directory of a run: what is in it, how it is written whole, how it is opened.

run/
  run.json          settings, classes, scale, versions, which rows
  model/            the fitted network and its tokenizer or image processor, by `save_pretrained`
  uq/               the estimator, by `regvar.save`; of an adapter by `save_adapters`, with the
                    fitted adapter and in place of model/: the base is loaded by its name
  metrics.json      scores of the test rows
  test.csv          predictions for the test rows, beside their labels
  report.html       the page; its tables/ and figures/ beside it
"""

from __future__ import annotations

import importlib.metadata
import json
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from regvar import records, storage
from regvar.errors import StorageError
from regvar.estimators import Amortized, Sampled
from regvar.finetuning import networks
from regvar.finetuning.answers import Reader
from regvar.finetuning.settings import Settings
from regvar.huggingface.adapters import load_adapters, save_adapters
from regvar.huggingface.loading import Pretrained
from regvar.huggingface.quiet import quiet

FORMAT = 2
_CARD, _MODEL, _UQ = "run.json", "model", "uq"
_NEEDED = {"format", "settings", "classes", "scale", "shared"}


@dataclass(frozen=True)
class Card:
    """What a run.json says that predictions depend on."""

    settings: Settings
    classes: tuple[str, ...]
    scale: float  # s*
    shared: bool  # one variance for all classes of a row


@dataclass(frozen=True)
class Run:
    """What predictions are made with."""

    settings: Settings
    reader: Reader
    network: Pretrained


@contextmanager
def fresh(out: Path) -> Generator[Path]:
    """A folder to fill, which becomes `out` at the end unless an exception passes."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        what = "holds other things" if out.is_dir() else "is a file"
        raise StorageError(
            f"out must be a new or an empty directory, but {str(out)!r} {what}. Choose another "
            "--out, or remove it."
        )
    # Folders above it that are not there are made at the end too: a failure leaves none behind.
    above = next(place for place in out.absolute().parents if place.exists())
    if not above.is_dir():
        raise StorageError(
            f"out must be in a directory, but {str(above)!r} is a file. Choose another --out."
        )
    with tempfile.TemporaryDirectory(dir=above, prefix=".regvar-") as scratch:
        folder = Path(scratch) / "run"
        folder.mkdir()
        yield folder
        if out.exists():
            out.rmdir()
        out.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(out)


def write(run: Run, facts: Mapping[str, Any], folder: Path) -> None:
    """Everything that `opened` needs, and what else is to be known of the run."""
    settings, uq, found = run.settings, run.reader.uq, run.network
    with quiet():
        if settings.lora:
            save_adapters(uq, folder / _UQ)
        else:
            cast("Any", found.model).save_pretrained(folder / _MODEL)
            found.processor.save_pretrained(folder / _MODEL)
            storage.save(uq, folder / _UQ)
    content = {
        "format": FORMAT,
        "settings": settings.to_json(),
        "classes": list(run.reader.classes),
        "scale": run.reader.scale,
        "shared": run.reader.shared,
        **facts,
        "versions": versions(),
    }
    put_json(folder / _CARD, content)


def opened(directory: Path) -> Run:
    """A run as it was written: its moments are those of the day it was made."""
    held = card(directory)
    settings, classes = held.settings, held.classes
    uq: Sampled | Amortized
    if settings.lora:
        base = networks.pretrained(settings, classes, lora=False)
        with quiet():
            uq = load_adapters(directory / _UQ, base.model)
        found = Pretrained(base.name, base.origin, uq.network.model, base.processor)
    else:
        found = networks.fitted(directory / _MODEL, settings, classes)
        uq = storage.load(directory / _UQ, found.model)
    return Run(settings, Reader(uq, held.scale, classes, held.shared), found)


def card(directory: Path) -> Card:
    """A run's card, or an error that says what the directory is instead."""
    path = directory / _CARD
    if not path.is_file():
        what = f"has no {_CARD}" if directory.is_dir() else "is no directory"
        raise StorageError(
            f"run must be a directory that `regvar finetune` wrote, but {str(directory)!r} "
            f"{what}. Run `regvar finetune --out DIR` first."
        )
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StorageError(f"{_CARD} must be JSON, but {error}. Run finetune again.") from error
    held = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    if not held.keys() >= _NEEDED or held["format"] != FORMAT:
        raise StorageError(
            f"{_CARD} must be that of a run of format {FORMAT}, but {str(path)!r} is not. Read it "
            "with the version of regvar that wrote it."
        )
    try:
        settings = Settings.from_json(held["settings"])
        scale, shared = float(held["scale"]), bool(held["shared"])
        return Card(settings, tuple(held["classes"]), scale, shared)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StorageError(
            f"{_CARD} must be as `regvar finetune` wrote it, but {str(path)!r} holds other "
            "settings. Run finetune again."
        ) from error


def versions() -> dict[str, str]:
    """Of everything that the numbers depend on."""
    others = ("transformers", "peft", "tokenizers")
    return {
        **records.provenance().versions,
        **{name: importlib.metadata.version(name) for name in others},
    }


def put_json(path: Path, content: Mapping[str, Any]) -> None:
    """A JSON file that people can read."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")
