"""report.html is one file, says what the other files say, and takes no text for markup."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest

from regvar.finetuning import Settings
from tests.finetuning import tiny
from tests.finetuning.fits import Fit, fit
from tests.report.html_reader import Found, read


def command(found: Found) -> dict[str, str]:
    """The options of the command that the page gives, as a shell would read them."""
    (text,) = (text for text in found.text if text.strip().startswith("regvar finetune --"))
    given: dict[str, str] = {}
    for word in shlex.split(text)[2:]:
        if word.startswith("--"):
            given[last := word] = ""
        else:
            given[last] = word
    return given


def test_a_page_needs_nothing_that_is_not_in_it(
    any_fit: Fit, images_fit: Fit, language_fit: Fit
) -> None:
    for one in (any_fit, images_fit, language_fit):
        found = read(one.html)
        assert found.unclosed == []
        for _, attributes in found.tags:
            for name in ("src", "href", "xlink:href", "srcset", "action", "poster"):
                assert attributes.get(name, "#").startswith(("#", "data:"))
        assert not found.all("script") and not found.all("iframe")
        assert not re.search(r"@import|url\((?!#|'?data:)", one.html)


def test_the_least_and_the_most_certain_texts_are_on_the_page(any_fit: Fit) -> None:
    text = " ".join(read(any_fit.html).text)
    rows = sorted(any_fit.test, key=lambda row: float(row["total"]))
    for row in (*rows[:8], *rows[-8:]):
        assert row["text"] in text
        right = row["predicted"] == row["label"]
        assert (row["predicted"] if right else f"{row['predicted']}, but it is {row['label']}") in (
            text
        )
        assert f"confidence {float(row['confidence']):.2f}" in text


def test_the_tables_hold_the_scores_and_the_counts(any_fit: Fit) -> None:
    tables = read(any_fit.html).tables
    _, alone, ours = tables["table-scores"]
    for row, who in ((alone, "map"), (ours, "regvar")):
        held = any_fit.metrics["test"][who]["NLL"]
        assert row[1].split()[0] == f"{held['value']:.3f}"
        assert float(row[1].split()[-1]) == pytest.approx(1.96 * held["standard_error"], abs=0.001)
    counts = {row[0]: [int(cell) for cell in row[1:]] for row in tables["table-data"][1:]}
    parts = any_fit.card["data"]
    for name, found in counts.items():
        assert found == [parts[p]["by_class"][name] for p in ("train", "validation", "test")]


def test_its_command_does_the_same_again(any_fit: Fit) -> None:
    given = command(read(any_fit.html))
    assert given.pop("--out") == "DIR"
    lora = {"--lora": ""} if any_fit.settings.lora else {}
    settings = any_fit.settings
    assert given == lora | {
        f"--{f.name}": str(getattr(settings, f.name))
        for f in fields(Settings)
        if f.name not in ("lora", "frozen") and getattr(settings, f.name) is not None
    }


def test_texts_and_names_are_never_markup(networks: Path, tmp_path: Path) -> None:
    rows = [
        (f"<script>alert(1)</script> & <b>{text}", f"<i>{label}</i>")
        for text, label in tiny.sentences(60)
    ]
    folder = tmp_path / "it's $HOME & <here>"
    folder.mkdir()
    data = tiny.table(folder / "rows of mine.csv", rows)
    settings = Settings(
        str(data), model=str(networks / "bert"), epochs=1, samples=1, frozen=("word_embeddings",)
    )
    made = fit(settings, tmp_path / "run")
    found = read(made.html)
    assert found.unclosed == [] and not found.all("script") and not found.all("i")
    text = " ".join(found.text)
    assert made.test[0]["label"] in text and "<script>alert(1)</script> & <b>" in text
    given = command(found)
    assert given["--data"] == str(data) and given["--frozen"] == "word_embeddings"
