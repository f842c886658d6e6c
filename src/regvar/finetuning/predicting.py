"""Answers to new rows, from the directory of a run alone: `regvar predict`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from regvar import data
from regvar.data.folders import SUFFIXES
from regvar.errors import DataError
from regvar.finetuning import folder, networks, sources, tables
from regvar.finetuning.answers import Columns
from regvar.finetuning.settings import IMAGES


@dataclass(frozen=True)
class Predicted:
    """What came of it."""

    path: Path
    columns: Columns  # by name, one value per row
    shown: tuple[str, ...]  # the names of those for a terminal

    @property
    def rows(self) -> int:
        """How many rows were answered."""
        return len(next(iter(self.columns.values())))

    def head(self) -> str:
        """The first rows, for a terminal: what was asked, and the answers."""
        return tables.head({name: self.columns[name] for name in self.shown})


def predict(
    run: str | Path, source: str | Path, out: str | Path | None = None, text: str | None = None
) -> Predicted:
    """Answer each row of a file of texts, or each image of a folder, and write the answers.

    The columns of a file of texts are carried along; where one has the name of an answer, as when
    answers are answered again, the new answer takes its place.

    Args:
        run: the directory that `finetune` filled.
        source: a `.csv`, `.tsv` or `.jsonl` file, a folder of images, or one image.
        out: a `.csv` or `.jsonl` file; by default predictions.csv in the run's directory.
        text: the column of texts; by default that of the run, or one with such a name.
    """
    directory, given = Path(run), Path(source)
    target = directory / "predictions.csv" if out is None else Path(out)
    tables.require_target(target)
    if target.exists() and given.exists() and target.samefile(given):
        raise DataError(f"out must be another file than the input, but both are {str(given)!r}.")
    card = folder.card(directory)
    if not given.exists():
        raise DataError(f"input must be a file or a folder, but there is no {str(given)!r}.")
    wants_images = card.settings.task == IMAGES
    files = _images(given) if wants_images else []
    texts = None if wants_images else data.read_texts(given, text or card.settings.text)
    opened = folder.opened(directory)
    if texts is None:
        rows: sources.Rows = data.read_image_files(files, networks.side(opened.network))
        names = [str(file.relative_to(given)) if given.is_dir() else file.name for file in files]
        asked, given_columns = sources.heading(rows), {sources.heading(rows): names}
    else:
        rows, given_columns = texts, data.read_columns(given)
        asked = data.text_column(given, list(given_columns), text or card.settings.text)
    loader = networks.batches(opened.network, opened.settings, rows)
    before: Columns = {name: [*values] for name, values in given_columns.items()}
    answers = opened.reader.read(loader, len(rows))
    tables.write(before | answers, target)
    return Predicted(target, before | answers, (asked, *answers))


def _images(given: Path) -> list[Path]:
    """One image, those of a folder, or those of the folders in it."""
    if given.is_file() and given.suffix.lower() in SUFFIXES:
        return [given]
    if given.is_file():
        raise DataError(
            f"input must be an image ({', '.join(SUFFIXES)}) or a folder of images for this run, "
            f"but it is {given.name!r}."
        )
    found = sorted(
        path
        for pattern in ("*", "*/*")
        for path in given.glob(pattern)
        if path.suffix.lower() in SUFFIXES and path.is_file()
    )
    if not found:
        raise DataError(
            f"input must hold images ({', '.join(SUFFIXES)}) for this run, but there is none in "
            f"{str(given)!r}."
        )
    return found
