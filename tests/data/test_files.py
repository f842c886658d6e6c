"""A user's own file is read, or its fault is named in one line with its place."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from regvar.data.datasets import Texts
from regvar.data.files import read_labeled_texts, read_texts
from regvar.errors import DataError

ROWS = [("I like it.", "good"), ('He said "no".\nTwice.', "bad"), ("So, so; tabs\there", "good")]


def write_csv(path: Path, columns: tuple[str, str], delimiter: str) -> Path:
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(ROWS)
    return path


def write_json(path: Path, columns: tuple[str, str]) -> Path:
    lines = [json.dumps(dict(zip(columns, row, strict=True))) for row in ROWS]
    path.write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    return path


def require_rows(found: Texts) -> None:
    assert found.texts == tuple(text for text, _ in ROWS)
    assert found.classes == ("bad", "good")
    assert found.labels is not None
    assert found.labels.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    "columns", [("text", "label"), ("Sentence", "Target"), ("review", "sentiment")]
)
def test_columns_are_found_by_their_names(tmp_path: Path, columns: tuple[str, str]) -> None:
    require_rows(read_labeled_texts(write_csv(tmp_path / "a.csv", columns, ",")))
    require_rows(read_labeled_texts(write_csv(tmp_path / "b.csv", columns, ";")))
    require_rows(read_labeled_texts(write_csv(tmp_path / "c.tsv", columns, "\t")))
    require_rows(read_labeled_texts(write_json(tmp_path / "d.jsonl", columns)))


def test_columns_may_be_named(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", ("text", "truth"), ",")
    require_rows(read_labeled_texts(path, label="truth"))
    path = write_json(tmp_path / "a.jsonl", ("words", "truth"))
    require_rows(read_labeled_texts(path, text="words", label="truth"))
    assert read_texts(path, text="words").texts == tuple(text for text, _ in ROWS)
    assert read_texts(path, text="words").labels is None


def save(folder: Path, content: str | bytes, name: str = "mine.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_numbers_as_labels_keep_their_order(tmp_path: Path) -> None:
    found = read_labeled_texts(save(tmp_path, "text,label\na,10\nb,2\nc,-1\nd,2\n"))
    assert found.classes == ("-1", "2", "10")
    assert found.labels is not None
    assert found.labels.tolist() == [2, 1, 0, 1]
    found = read_labeled_texts(save(tmp_path, "text,label\na,10\nb,--2\nc,+-1\nd,--2\n"))
    assert found.classes == ("+-1", "--2", "10")  # not all of them are numbers
    lines = '{"text": "a", "label": true}\n{"text": "b", "label": false}\n'
    assert read_labeled_texts(save(tmp_path, lines, "m.jsonl")).classes == ("false", "true")


def test_the_mark_at_the_start_and_empty_lines_do_not_disturb(tmp_path: Path) -> None:
    content = "\ufefftext,label\r\n\r\na,x\r\n\r\nb,y\r\n\r\n"
    found = read_labeled_texts(save(tmp_path, content))
    assert (found.texts, found.classes) == (("a", "b"), ("x", "y"))


def test_long_texts_are_read_and_the_limit_of_the_module_stays(tmp_path: Path) -> None:
    long = "word " * 100_000
    before = csv.field_size_limit()
    found = read_texts(save(tmp_path, f'text\n"{long}"\n'))
    assert found.texts == (long.strip(),)
    assert csv.field_size_limit() == before


def test_classes_of_before_are_kept(tmp_path: Path) -> None:
    path = save(tmp_path, "text,label\na,good\nb,good\n")
    found = read_labeled_texts(path, classes=("bad", "good"))
    assert found.labels is not None
    assert found.labels.tolist() == [1, 1]
    with pytest.raises(DataError, match=r"one of \['bad', 'god'\], but it is 'good' on line 2"):
        read_labeled_texts(path, classes=("bad", "god"))


WELL = "text,label\na,x\nb,y\n"
FAULTS: dict[str, tuple[str | bytes, str, str]] = {
    "empty": ("", "mine.csv", "mine.csv must hold texts, but it is empty"),
    "blank": (" \n\n", "mine.jsonl", "mine.jsonl must hold texts, but it is empty"),
    "header only": ("text,label\n", "mine.csv", "but it has no rows below its header"),
    "no label": (
        "text,lable\na,x\n",
        "mine.csv",
        "must have a label column named 'label', 'labels' or the like, but its columns are "
        "'text', 'lable'. Did you mean 'lable'? Say which with label=...",
    ),
    "no text": ("words,label\na,x\n", "mine.csv", "its columns are 'words', 'label'. Say which"),
    "one class": (
        "text,label\na,x\nb,x\n",
        "mine.csv",
        "'label' in mine.csv must have two classes at least, but it is 'x' on every row",
    ),
    "no classes": (
        "text,label\na,.1\nb,.2\nc,.3\n",
        "mine.csv",
        "must hold classes that repeat, but all its 3 values differ",
    ),
    "blank text": (WELL + "  ,x\n", "mine.csv", "'text' in mine.csv must be filled, but it is b"),
    "blank label": ("text,label\na,x\nb,\n", "mine.csv", "blank on line 3. Fill it in or delete"),
    "null": ('{"text": "a", "label": null}', "m.jsonl", "'label' in m.jsonl must be filled"),
    "missing key": (
        '{"text": "a", "label": 1}\n{"text": "b"}',
        "m.jsonl",
        "'label' in m.jsonl must be filled, but it is blank on line 2",
    ),
    "bytes": (
        b"text,label\na,x\ncaf\xe9,y\n",
        "mine.csv",
        "must be text in UTF-8, but line 3 holds the byte 0xe9",
    ),
    "too many fields": (
        "text,label\nyes, I do,x\n",
        "mine.csv",
        "must have 2 fields as its header, but line 2 has 3",
    ),
    "too few fields": (WELL + '"two\nlines"\n', "mine.csv", "but line 4 has 1"),
    "open quote": (
        WELL + '"never closed,x\nc,y\n',
        "mine.csv",
        "the row that begins on line 4 is not: unexpected end of data",
    ),
    "stray quote": (WELL + '"a" b,x\n', "mine.csv", "the row that begins on line 4 is not"),
    "same name": ("text,text\na,x\n", "mine.csv", "must differ, but 'text' is there twice"),
    "half a pair": (
        '{"text": "a", "label": 1}\n{"text": "b \\ud800", "label": 2}',
        "m.jsonl",
        "'text' in m.jsonl must be Unicode, but it holds half of a surrogate pair on line 2",
    ),
    "no json": ('{"text": 1}\n{text}\n', "m.jsonl", "line 2 is not JSON"),
    "no object": ("[1, 2]\n", "m.jsonl", "but line 1 holds list"),
    "other kind": (WELL, "mine.xlsx", "must end in .csv, .tsv, .jsonl, .ndjson, but it is 'mine"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_one_line(tmp_path: Path, fault: str) -> None:
    content, name, message = FAULTS[fault]
    with pytest.raises(DataError) as caught:
        read_labeled_texts(save(tmp_path, content, name))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_misspelled_argument_is_suggested(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"'txt' is not among 'text', 'label'\. Did you mean 'text'"
    ):
        read_texts(save(tmp_path, WELL), text="txt")


def test_a_missing_file_and_a_folder_are_said_to_be_that(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"must be a readable file, but: No such file"):
        read_texts(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match=r"must be a readable file, but: "):
        read_texts(tmp_path / "folder.csv")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=1))
def test_whatever_csv_writes_is_read_back(tmp_path: Path, texts: list[str]) -> None:
    path = tmp_path / "some.csv"
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, quoting=csv.QUOTE_ALL)
        writer.writerows([["text"], *([text] for text in texts)])
    if all(text.strip() for text in texts):
        assert read_texts(path).texts == tuple(text.strip() for text in texts)
    else:
        with pytest.raises(DataError, match="must be filled"):
            read_texts(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_texts_or_one_line_of_error(tmp_path: Path, data: bytes) -> None:
    for name in ("some.csv", "some.tsv", "some.jsonl"):
        said = ""
        try:
            read_labeled_texts(save(tmp_path, b"text,label\n" + data, name))
        except DataError as error:
            said = str(error)
        assert "\n" not in said
