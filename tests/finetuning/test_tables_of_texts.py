"""Tables as people have them: other names of columns, more columns, JSON lines, odd rows."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from regvar.errors import ArgumentError, DataError
from regvar.finetuning import Settings, predict, sources
from regvar.finetuning.sources import Texts
from tests.finetuning import tiny
from tests.finetuning.fits import Fit, fit, numbers

WIDE = ("id", "text", "body", "label", "truth", "note")


def wide(path: Path, rows: Sequence[tuple[str, str]]) -> Path:
    """Texts and labels in `body` and `truth`, among columns that look like them and are not."""
    lines = [
        [str(k), "not this", text, ("x", "y")[k % 3 == 0], label, ""]
        for k, (text, label) in enumerate(rows)
    ]
    if path.suffix == ".jsonl":
        text = "\n".join(json.dumps(dict(zip(WIDE, line, strict=True))) for line in lines)
        path.write_text(text, encoding="utf-8")
        return path
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([WIDE, *lines])
    return path


def held(found: sources.Rows) -> list[tuple[str, str]]:
    assert isinstance(found, Texts) and found.labels is not None
    labels = [found.classes[k] for k in found.labels.tolist()]
    return list(zip(found.texts, labels, strict=True))


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize(
    "columns", [("text", "label"), ("Sentence", "Target"), ("review", "sentiment")]
)
def test_columns_are_found_by_their_usual_names(
    tmp_path: Path, suffix: str, columns: tuple[str, str]
) -> None:
    rows = tiny.sentences(20)
    path = tiny.table(tmp_path / f"rows.{suffix}", rows, columns)
    assert held(sources.read(Settings(str(path)))) == rows


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_columns_that_are_named_are_taken_in_place_of_the_usual(
    tmp_path: Path, suffix: str
) -> None:
    rows = tiny.sentences(20)
    path = wide(tmp_path / f"rows.{suffix}", rows)
    assert held(sources.read(Settings(str(path), text="body", label="truth"))) == rows
    usual = held(sources.read(Settings(str(path))))
    assert {text for text, _ in usual} == {"not this"} and {label for _, label in usual} == {
        "x",
        "y",
    }


@pytest.fixture(scope="module")
def wide_fit(tmp_path_factory: pytest.TempPathFactory, networks: Path) -> Fit:
    root = tmp_path_factory.mktemp("wide")
    settings = Settings(
        str(wide(root / "rows.jsonl", tiny.sentences(40))),
        model=str(networks / "bert"),
        text="body",
        label="truth",
        epochs=1,
        samples=1,
    )
    return fit(settings, root / "run")


def test_a_run_remembers_its_column_of_texts(wide_fit: Fit, tmp_path: Path) -> None:
    rows = [(row["text"], row["label"]) for row in wide_fit.test]
    assert set(rows) <= set(tiny.sentences(40))
    made = predict(wide_fit.directory, wide(tmp_path / "new.csv", rows), tmp_path / "p.csv")
    for found, before in zip(tiny.written(made.path), wide_fit.test, strict=True):
        assert found["body"] == before["text"]
        assert numbers({name: found[name] for name in numbers(before)}) == numbers(before)
    plain = tiny.table(tmp_path / "plain.csv", rows)
    with pytest.raises(DataError, match="'body' is not among 'text', 'label'"):
        predict(wide_fit.directory, plain, tmp_path / "q.csv")
    told = predict(wide_fit.directory, plain, tmp_path / "q.csv", text="text")
    answers = set(told.columns) - {"text", "label"}
    assert {name: told.columns[name] for name in answers} == {
        name: made.columns[name] for name in answers
    }


def test_columns_of_the_input_are_carried_along_as_they_are_spelled(
    texts_fit: Fit, tmp_path: Path
) -> None:
    source = tmp_path / "new.csv"
    source.write_text(
        'id,text,confidence,note\n007, a good film ,high,\n1e3,a bad film,low,"x, y"\n',
        encoding="utf-8",
    )
    made = predict(texts_fit.directory, source, tmp_path / "p.csv")
    rows = tiny.written(made.path)
    assert list(rows[0])[:5] == ["id", "text", "confidence", "note", "predicted"]
    assert [row["id"] for row in rows] == ["007", "1e3"]
    assert [row["text"] for row in rows] == [" a good film ", "a bad film"]
    assert [row["note"] for row in rows] == ["", "x, y"]
    for row in rows:  # an answer takes the place of a column of its name
        assert float(row["confidence"]) == float(row[f"probability_{row['predicted']}"])
    again = predict(texts_fit.directory, made.path, tmp_path / "q.csv")
    assert again.path.read_bytes() == made.path.read_bytes()


def test_half_of_a_surrogate_pair_in_a_column_that_is_carried_along_is_replaced(
    texts_fit: Fit, tmp_path: Path
) -> None:
    source = tmp_path / "new.jsonl"
    source.write_text('{"text": "a good film", "by": "\\ud83d"}\n', encoding="utf-8")
    made = predict(texts_fit.directory, source, tmp_path / "p.csv")
    assert made.columns["by"] == ["\N{REPLACEMENT CHARACTER}"]


def test_json_lines_say_what_a_table_says_and_hold_numbers(texts_fit: Fit, tmp_path: Path) -> None:
    rows = [(row["text"], row["label"]) for row in texts_fit.test]
    source = tiny.table(tmp_path / "new.jsonl", rows)
    made = predict(texts_fit.directory, source, tmp_path / "p.jsonl")
    lines = [json.loads(line) for line in made.path.read_text(encoding="utf-8").splitlines()]
    for line, before in zip(lines, texts_fit.test, strict=True):
        assert list(line) == list(before)
        assert (line["text"], line["predicted"]) == (before["text"], before["predicted"])
        for name, value in numbers(before).items():
            assert isinstance(line[name], float)
            assert line[name] == pytest.approx(value, rel=1e-8)


def test_texts_with_commas_quotes_and_line_ends_come_back_as_they_were(
    texts_fit: Fit, tmp_path: Path
) -> None:
    texts = ["good, fine", 'the "bad" film', "warm\nbright", "caf\u00e9 \u2014 \u6620\u753b", "-"]
    source = tiny.table(tmp_path / "new.csv", [(text, "") for text in texts])
    for name in ("p.csv", "p.jsonl"):
        predict(texts_fit.directory, source, tmp_path / name)
    lines = (tmp_path / "p.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["text"] for line in lines] == texts
    assert [row["text"] for row in tiny.written(tmp_path / "p.csv")] == texts


def test_an_empty_text_is_named_with_its_line(
    texts_fit: Fit, networks: Path, tmp_path: Path
) -> None:
    rows = [*tiny.sentences(20), ("  ", "positive")]
    source = tiny.table(tmp_path / "rows.csv", rows)
    with pytest.raises(DataError, match=r"'text' in rows.csv must be filled, but it is blank on"):
        fit(Settings(str(source), model=str(networks / "bert")), tmp_path / "run")
    with pytest.raises(DataError, match=r"blank on line 22. Fill it in or delete the row"):
        predict(texts_fit.directory, source, tmp_path / "p.csv")
    assert not (tmp_path / "run").exists() and not (tmp_path / "p.csv").exists()


def test_long_texts_are_cut_to_what_the_network_has_places_for(
    texts_fit: Fit, tmp_path: Path
) -> None:
    begin = " ".join(["good", "film"] * 6)  # twelve places
    source = tiny.table(tmp_path / "new.csv", [(begin, ""), (begin + " bad" * 50, "")])
    made = predict(texts_fit.directory, source, tmp_path / "p.csv")
    short, long = map(numbers, tiny.written(made.path))
    assert long == short


def test_predictions_lie_in_the_run_unless_told(texts_fit: Fit, tmp_path: Path) -> None:
    source = tiny.table(tmp_path / "new.csv", tiny.sentences(3))
    made = predict(texts_fit.directory, source)
    assert made.path == texts_fit.directory / "predictions.csv"
    assert tiny.written(made.path)[0]["text"] == made.columns["text"][0]
    made.path.unlink()
    elsewhere = predict(texts_fit.directory, source, tmp_path / "new" / "folder" / "p.CSV")
    assert len(tiny.written(elsewhere.path)) == 3


def test_an_output_that_cannot_be_written_is_refused_at_once(
    texts_fit: Fit, tmp_path: Path
) -> None:
    source = tiny.table(tmp_path / "new.csv", tiny.sentences(3))
    (tmp_path / "folder.csv").mkdir()
    for name, said in (
        ("p.xlsx", r"out must end in .csv or .jsonl, but it is 'p.xlsx'"),
        ("folder.csv", r"out must be a file, but '.*folder.csv' is a directory"),
    ):
        with pytest.raises(ArgumentError, match=said):
            predict(texts_fit.directory, source, tmp_path / name)
    with pytest.raises(DataError, match="out must be another file than the input"):
        predict(texts_fit.directory, source, tmp_path / "folder.csv" / ".." / "new.csv")
    assert held(sources.read(Settings(str(source)))) == tiny.sentences(3)
