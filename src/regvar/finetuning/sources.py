"""Where a user's rows come from: a file of texts, a folder of images, or a short name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regvar import data
from regvar.data.catalogue import suggestion
from regvar.data.datasets import Images, Texts
from regvar.data.loading import LOADERS
from regvar.errors import DataError
from regvar.finetuning.settings import IMAGES, LANGUAGE, Settings

Rows = Texts | Images
_FILES = ".csv, .tsv or .jsonl"


def read(settings: Settings, side: int = 1) -> Rows:
    """All rows that a run may use.

    Args:
        settings: of the run.
        side: pixels of an image file's height and width. One pixel is enough to learn the classes
            and that every file can be read, before a network is loaded.
    """
    path = Path(settings.data)
    if path.exists():
        return _own(settings, path, side)
    if settings.data in LOADERS:
        return _known(settings)
    raise DataError(
        f"data must be a {_FILES} file, a folder of images by class, or one of "
        f"{', '.join(sorted(LOADERS))}, but there is no {settings.data!r}."
        + suggestion(settings.data, [*LOADERS, *_neighbors(path)])
    )


def complete(settings: Settings) -> bool:
    """Whether rows are the same at any `side`: all but those of image files."""
    return settings.task != IMAGES or not Path(settings.data).exists()


def names(settings: Settings, rows: Rows, indices: Sequence[int]) -> list[str]:
    """What a person knows rows by: their texts, their files, or their places in the data.

    Args:
        settings: of the run.
        rows: some of the data.
        indices: which of them.
    """
    if isinstance(rows, Texts):
        return list(rows.texts)
    if complete(settings):
        return [str(i) for i in indices]
    root = Path(settings.data)
    files = [path for name in rows.classes for path in data.image_files(root / name)]
    return [str(files[i].relative_to(root)) for i in indices]


def heading(rows: Rows) -> str:
    """Of the column that holds the names."""
    return "text" if isinstance(rows, Texts) else "file"


def _own(settings: Settings, path: Path, side: int) -> Rows:
    if settings.task == IMAGES:
        if not path.is_dir():
            raise DataError(
                f"data must be a folder with one folder of images per class for {IMAGES}, but "
                f"{settings.data!r} is a file."
            )
        return data.read_labeled_images(path, side)
    if path.is_dir():
        raise DataError(
            f"data must be a {_FILES} file for {settings.task}, but {settings.data!r} is a "
            f"folder. For a folder of images, give --task {IMAGES}."
        )
    if settings.task == LANGUAGE:
        return data.read_texts(path, settings.text)
    return data.read_labeled_texts(path, settings.text, settings.label)


def _known(settings: Settings) -> Rows:
    """The training rows of a data set of ours, or all where it has no such split."""
    splits: Mapping[str, Any] = data.load(settings.data)
    rows = splits["train"] if "train" in splits else splits["all"]
    wanted = Images if settings.task == IMAGES else Texts
    if not isinstance(rows, wanted):
        raise DataError(
            f"data must be {wanted.__name__.lower()} for {settings.task}, but {settings.data!r} "
            f"holds {_kind(rows)}. Choose another --task or --data."
        )
    if rows.labels is None and settings.task != LANGUAGE:
        raise DataError(
            f"data must have labels for {settings.task}, but {settings.data!r} has none. "
            f"Give --task {LANGUAGE}."
        )
    return Texts(rows.texts) if settings.task == LANGUAGE and isinstance(rows, Texts) else rows


def _kind(rows: object) -> str:
    """What the rows are, in a word."""
    return "a table of numbers" if isinstance(rows, data.Table) else type(rows).__name__.lower()


def _neighbors(path: Path) -> list[str]:
    """What lies beside a path, spelled as it was."""
    folder = path.parent
    if not folder.is_dir():
        return []
    return [str(folder / other.name) for other in folder.iterdir()]
