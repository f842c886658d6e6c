"""`finetune` and `predict` on a user's own data: what they say, and each fault in one line."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.cli.calling import Answer, Call, Home
from tests.finetuning import tiny

GOOD = "text,label\n" + "".join(f"{text},{label}\n" for text, label in tiny.sentences(12))
SHORT = ("--epochs", "1", "--samples", "1")

# What a file holds, and what is said of it.
BROKEN: dict[str, tuple[str | bytes, str]] = {
    "ragged": (
        GOOD + "good film,positive,more\n",
        "must have 2 fields as its header, but line 14",
    ),
    "latin": (GOOD.encode() + b"caf\xe9,positive\n", "must be text in UTF-8, but line 14 holds"),
    "utf-16": (GOOD.encode("utf-16"), "must be text in UTF-8, but line 1 holds the byte 0xff"),
    "quote": (GOOD + '"never closed,positive\n', "must be well-formed, but the row that begins"),
    "one class": (GOOD.replace("negative", "positive"), "must have two classes at least"),
    "few": ("text,label\na,x\nb,y\nc,x\nd,y\n", "must be 3 or more of each class"),
    "empty": ("", "mine.csv must hold texts, but it is empty"),
    "header": ("text,label\n", "but it has no rows below its header"),
    "no label": ("text,lable\na,x\n", "must have a label column named 'label'"),
    "no text": (GOOD.replace("text", "words"), "must have a text column named 'text'"),
    "blank": (
        GOOD + ",positive\n",
        "'text' in mine.csv must be filled, but it is blank",
    ),
}
# What `predict` needs no labels for is no fault of its input.
ABOUT_LABELS = {"one class", "few", "no label"}
# Options besides --data and --out, and what is said of them.
OPTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "label": (("--label", "lable"), "'lable' is not among 'text', 'label'. Did you mean 'label'?"),
    "text": (("--text", "txt"), "Did you mean 'text'?"),
    "near model": (("--model", "minlm"), "there is no 'minlm'. Did you mean 'minilm'?"),
    "model": (("--model", "./no/network"), "there is no './no/network'."),
    "model of images": (("--model", "{vit}"), "cannot be read: Unrecognized configuration class"),
    "task": (("--task", "causal-ml"), "Did you mean 'causal-lm'?"),
    "images": (("--task", "image-classification"), "must be a folder with one folder of images"),
    "method": (("--method", "sample"), "Did you mean 'sampled'?"),
    "samples": (("--samples", "0"), "samples must be at least 1, but it is 0."),
    "rate": (("--lr", "0"), "lr must be a positive number, but it is 0.0."),
    "seed": (("--seed", "-1"), "seed must be in 0…4294967295, but it is -1."),
    "frozen": (("--frozen", "embedings"), "Did you mean 'embeddings'?"),
    "limit": (("--limit", "2"), "raise --limit"),
}


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*")}


@pytest.fixture
def fitted(call: Call, home: Home, tmp_path: Path) -> Answer:
    arguments = ("--data", home.table, "--model", home.bert, "--out", tmp_path / "run", *SHORT)
    return call("finetune", *arguments)


def test_finetune_tells_its_steps_and_where_to_go_on(fitted: Answer, tmp_path: Path) -> None:
    assert (fitted.code, fitted.err) == (0, "")
    lines = fitted.out.splitlines()
    assert lines[0] == (
        "Rows of rows.csv: 24 train, 8 validation, 8 test; 2 classes: negative, positive"
    )
    assert "On the test rows:" in lines
    assert lines[-2] == f"The page is at {tmp_path / 'run' / 'report.html'}"
    assert lines[-1] == (
        f"For predictions: regvar predict --run {tmp_path / 'run'} --input FILE_OR_FOLDER"
    )
    assert left(tmp_path) >= {"report.html", "test.csv", "metrics.json", "run.json"}


def test_predict_shows_the_first_rows_and_writes_all(
    call: Call, home: Home, tmp_path: Path
) -> None:
    out = tmp_path / "p.csv"
    found = call("predict", "--run", home.run, "--input", home.table, "--out", out)
    assert (found.code, found.err) == (0, "")
    head, *rows, blank, last = found.out.splitlines()
    assert head.split()[:3] == ["text", "predicted", "confidence"]
    assert len(rows) == 5 and blank == "" and last == f"40 rows, in {out}"
    with out.open(encoding="utf-8", newline="") as stream:
        written = list(csv.DictReader(stream))
    assert [row["text"] for row in written] == [text for text, _ in tiny.sentences(40)]
    for shown, row in zip(rows, written, strict=False):
        assert shown.split()[-4:-1] == [
            f"{float(row[name]):.3f}"
            for name in ("probability_negative", "probability_positive", "total")
        ]


def test_predict_reads_the_column_that_it_is_told(call: Call, home: Home, tmp_path: Path) -> None:
    table = tiny.table(tmp_path / "new.jsonl", tiny.sentences(4), ("words", "label"))
    arguments = ("--run", home.run, "--input", table, "--out", tmp_path / "p.jsonl")
    assert "Did you mean" not in call("predict", *arguments).refusal
    assert call("predict", *arguments, "--text", "words").code == 0
    assert len((tmp_path / "p.jsonl").read_text(encoding="utf-8").splitlines()) == 4


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_file_is_one_line(call: Call, home: Home, tmp_path: Path, fault: str) -> None:
    content, said = BROKEN[fault]
    path = tmp_path / "mine.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = call("finetune", "--data", path, "--model", home.bert, "--out", tmp_path / "run")
    assert said in found.refusal
    if fault not in ABOUT_LABELS:
        out = tmp_path / "p.csv"
        assert said in call("predict", "--run", home.run, "--input", path, "--out", out).refusal
    assert left(tmp_path) == {"mine.csv"}


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_that_does_not_fit_is_one_line(
    call: Call, home: Home, tmp_path: Path, option: str
) -> None:
    given, said = OPTIONS[option]
    words = [word.format(vit=home.vit) for word in given]
    out = tmp_path / "run"
    found = call("finetune", "--data", home.table, "--out", out, "--model", home.bert, *words)
    assert said in found.refusal
    assert left(tmp_path) == set()


def test_missing_data_is_one_line_with_what_may_have_been_meant(
    call: Call, home: Home, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    near = home.table.with_name("row.csv")
    said = call("finetune", "--data", near, "--out", out).refusal
    assert said.endswith(f"but there is no {str(near)!r}. Did you mean {str(home.table)!r}?")
    assert "Did you mean 'imdb'?" in call("finetune", "--data", "imbd", "--out", out).refusal
    said = call("finetune", "--data", home.pictures, "--out", out).refusal
    assert said.endswith("is a folder. For a folder of images, give --task image-classification.")
    assert left(tmp_path) == set()


def test_an_out_directory_that_holds_other_things_is_left_alone(
    call: Call, home: Home, tmp_path: Path
) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    arguments = ("finetune", "--data", home.table, "--model", home.bert, "--out")
    assert call(*arguments, tmp_path).refusal == (
        f"out must be a new or an empty directory, but {str(tmp_path)!r} holds other things. "
        "Choose another --out, or remove it."
    )
    assert "is a file" in call(*arguments, tmp_path / "thesis.tex").refusal
    assert "is a file" in call(*arguments, tmp_path / "thesis.tex" / "run").refusal
    assert (tmp_path / "thesis.tex").read_text() == "years of work"
    assert left(tmp_path) == {"thesis.tex"}


def test_predict_refuses_what_is_no_run_and_what_is_no_input(
    call: Call, home: Home, tmp_path: Path
) -> None:
    out = tmp_path / "p.csv"
    for run, source, said in (
        (tmp_path, home.table, "has no run.json. Run `regvar finetune --out DIR` first."),
        (tmp_path / "none", home.table, "is no directory. Run `regvar finetune"),
        (home.run, tmp_path / "none.csv", "input must be a file or a folder, but there is no"),
        (home.run, home.pictures, "a file of texts must end in .csv"),
    ):
        found = call("predict", "--run", run, "--input", source, "--out", out)
        assert said in found.refusal and found.out == ""
    found = call("predict", "--run", home.run, "--input", home.table, "--out", tmp_path / "p.txt")
    assert found.refusal == "out must end in .csv or .jsonl, but it is 'p.txt'. Rename it."
    assert left(tmp_path) == set()
