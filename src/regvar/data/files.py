"""A user's own texts: CSV, TSV or JSON lines, with a column of texts and one of labels.

Whatever is wrong with a file is said in one line that names the place and the remedy.
"""

from __future__ import annotations

import csv
import io
import json
import re
import reprlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

from regvar.data.catalogue import suggestion
from regvar.data.datasets import Texts
from regvar.errors import DataError

TEXT_COLUMNS = ("text", "sentence", "review", "content", "comment", "tweet", "message", "document")
LABEL_COLUMNS = ("label", "labels", "target", "class", "category", "sentiment", "rating", "y")
_LONGEST_FIELD = 2**31 - 1  # what fits a C long everywhere
_HALF_PAIR = re.compile("[\ud800-\udfff]")  # JSON can spell it, UTF-8 cannot
_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,18}")


@dataclass(frozen=True)
class _Row:
    line: int  # of the file, from 1, where the row begins
    fields: Mapping[str, str]


def read_labeled_texts(
    path: str | Path,
    text: str | None = None,
    label: str | None = None,
    classes: Sequence[str] | None = None,
) -> Texts:
    r"""Texts with labels, from a `.csv`, `.tsv` or `.jsonl` file.

    Args:
        path: the file, in UTF-8; the first line of a CSV or TSV file names its columns.
        text: the column of texts; by default the one with a name like `text` or `sentence`.
        label: the column of labels, by default the one with a name like `label` or `target`.
        classes: the labels there may be, in order; by default those that occur, sorted.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "mine.csv"
    ...     _ = path.write_text("sentence,target\nI like it.,good\nI do not.,bad\n")
    ...     found = read_labeled_texts(path)
    >>> found.texts, found.labels, found.classes
    (('I like it.', 'I do not.'), tensor([1, 0]), ('bad', 'good'))
    """
    source = Path(path)
    columns, rows = _read(source)
    column = text_column(source, columns, text)
    label_column = _column(source, "label", label, columns, LABEL_COLUMNS)
    texts = [_filled(source, row, column) for row in rows]
    labels = [_filled(source, row, label_column) for row in rows]
    known = tuple(classes) if classes is not None else _classes(source, label_column, labels)
    number = {name: k for k, name in enumerate(known)}
    for row, found in zip(rows, labels, strict=True):
        if found not in number:
            raise DataError(
                f"{label_column!r} in {source.name} must be one of {list(known)}, but it is "
                f"{reprlib.repr(found)} on line {row.line}." + suggestion(found, known)
            )
    indices = torch.tensor([number[name] for name in labels], dtype=torch.int64)
    return Texts(tuple(texts), indices, known)


def read_texts(path: str | Path, text: str | None = None) -> Texts:
    """Texts alone, from such a file; its other columns are not looked at.

    Args:
        path: the file.
        text: the column of texts; by default the one with a name like `text` or `sentence`.
    """
    source = Path(path)
    columns, rows = _read(source)
    column = text_column(source, columns, text)
    return Texts(tuple(_filled(source, row, column) for row in rows))


def read_columns(path: str | Path) -> dict[str, list[str]]:
    r"""All columns of such a file, as they are spelled in it: no number is read as one.

    Args:
        path: the file.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "mine.csv"
    ...     _ = path.write_text("id,text\n007,Fine.\n")
    ...     read_columns(path)
    {'id': ['007'], 'text': ['Fine.']}
    """
    columns, rows = _read(Path(path))
    return {
        name: [_HALF_PAIR.sub("\N{REPLACEMENT CHARACTER}", row.fields[name]) for row in rows]
        for name in columns
    }


# --- columns -------------------------------------------------------------------------------------


def text_column(path: str | Path, columns: Sequence[str], wanted: str | None = None) -> str:
    """Which of a file's columns holds the texts: the one wanted, or the one with such a name.

    Args:
        path: the file, for what is said when there is none.
        columns: their names.
        wanted: a name; by default the one like `text` or `sentence`.
    """
    return _column(Path(path), "text", wanted, columns, TEXT_COLUMNS)


def _column(
    path: Path, role: str, wanted: str | None, columns: Sequence[str], usual: Sequence[str]
) -> str:
    """The column a user named, or the only one whose name says what it is."""
    listed = ", ".join(map(reprlib.repr, columns))
    if wanted is not None:
        if wanted in columns:
            return wanted
        raise DataError(
            f"{role} must be a column of {path.name}, but {wanted!r} is not among {listed}."
            + suggestion(wanted, columns)
        )
    by_name = {c.strip().lower(): c for c in columns}
    found = [by_name[name] for name in usual if name in by_name]
    if found:
        return found[0]
    near = next((s for s in (suggestion(name, columns) for name in usual) if s), "")
    raise DataError(
        f"{path.name} must have a {role} column named {usual[0]!r}, {usual[1]!r} or the like, but "
        f"its columns are {listed}.{near} Say which with {role}=..."
    )


def _filled(path: Path, row: _Row, column: str) -> str:
    value = row.fields[column].strip()
    if not value:
        raise DataError(
            f"{column!r} in {path.name} must be filled, but it is blank on line {row.line}. "
            "Fill it in or delete the row."
        )
    if _HALF_PAIR.search(value):
        raise DataError(
            f"{column!r} in {path.name} must be Unicode, but it holds half of a surrogate pair on "
            f"line {row.line}. Write both halves."
        )
    return value


def _classes(path: Path, column: str, labels: Sequence[str]) -> tuple[str, ...]:
    counts = Counter(labels)
    if len(counts) == 1:
        raise DataError(
            f"{column!r} in {path.name} must have two classes at least, but it is "
            f"{reprlib.repr(labels[0])} on every row. Add examples of another class."
        )
    if len(labels) > 2 and max(counts.values()) == 1:
        raise DataError(
            f"{column!r} in {path.name} must hold classes that repeat, but all its {len(labels)} "
            "values differ. Name the column of labels with label=..."
        )
    if all(_WHOLE_NUMBER.fullmatch(name) for name in counts):
        return tuple(sorted(counts, key=int))
    return tuple(sorted(counts))


# --- rows ----------------------------------------------------------------------------------------


def _read(path: Path) -> tuple[list[str], list[_Row]]:
    """The columns' names and the rows, at least one of each."""
    readers: dict[str, Callable[[Path, str], tuple[list[str], list[_Row]]]] = {
        ".csv": _read_csv,
        ".tsv": _read_csv,
        ".jsonl": _read_json_lines,
        ".ndjson": _read_json_lines,
    }
    if path.suffix.lower() not in readers:
        raise DataError(
            f"a file of texts must end in {', '.join(readers)}, but it is {path.name!r}."
        )
    content = _decoded(path)
    columns, rows = readers[path.suffix.lower()](path, content) if content.strip() else ([], [])
    if not rows:
        what = "has no rows below its header" if columns else "is empty"
        raise DataError(f"{path.name} must hold texts, but it {what}.")
    return columns, rows


def _decoded(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} must be a readable file, but: {error.strerror}.") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise DataError(
            f"{path.name} must be text in UTF-8, but line {line} holds the byte "
            f"0x{data[error.start]:02x}. Save it as UTF-8."
        ) from error


def _read_csv(path: Path, content: str) -> tuple[list[str], list[_Row]]:
    lines = _records(path, content)
    _, columns = next(lines)
    twice = [name for name, count in Counter(columns).items() if count > 1]
    if twice:
        raise DataError(f"columns of {path.name} must differ, but {twice[0]!r} is there twice.")
    rows: list[_Row] = []
    for line, fields in lines:
        if len(fields) != len(columns):
            raise DataError(
                f"rows of {path.name} must have {len(columns)} fields as its header, but line "
                f"{line} has {len(fields)}. Put double quotes around texts with separators."
            )
        rows.append(_Row(line, dict(zip(columns, fields, strict=True))))
    return columns, rows


def _records(path: Path, content: str) -> Iterator[tuple[int, list[str]]]:
    """Each record that is not an empty line, with the line it begins on."""
    header = content.lstrip("\r\n").split("\n", 1)[0]
    comma = ";" if header.count(";") > header.count(",") else ","
    delimiter = "\t" if path.suffix.lower() == ".tsv" else comma
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            with _long_fields():
                fields = next(reader, None)
        except csv.Error as error:
            raise DataError(
                f"{path.name} must be well-formed, but the row that begins on line {line} is not: "
                f"{error}. Write a double quote inside quotes twice."
            ) from error
        if fields is None:
            return
        if fields:
            yield line, fields


@contextmanager
def _long_fields() -> Generator[None]:
    before = csv.field_size_limit(_LONGEST_FIELD)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _read_json_lines(path: Path, content: str) -> tuple[list[str], list[_Row]]:
    rows: list[_Row] = []
    for line, raw in enumerate(content.split("\n"), start=1):
        if not raw.strip():
            continue
        try:
            value = json.loads(raw)
        except ValueError as error:
            raise DataError(
                f"{path.name} must hold one JSON object per line, but line {line} is not JSON: "
                f"{error}."
            ) from error
        if not isinstance(value, dict):
            raise DataError(
                f"{path.name} must hold one JSON object per line, but line {line} holds "
                f"{type(value).__name__}."
            )
        fields = {k: _plain(v) for k, v in cast("dict[str, Any]", value).items()}
        rows.append(_Row(line, fields))
    columns = list(rows[0].fields)
    return columns, [_complete(row, columns) for row in rows]


def _plain(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _complete(row: _Row, columns: Iterable[str]) -> _Row:
    return _Row(row.line, {name: row.fields.get(name, "") for name in columns})
