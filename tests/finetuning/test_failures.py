"""What fails leaves nothing behind, is said in one line, and is said before the work is done."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from regvar.errors import ArgumentError, DataError, ModelError, RegvarError, StorageError
from regvar.finetuning import Settings, finetune, predict
from tests.finetuning import tiny
from tests.finetuning.fits import Fit, tree

ROWS = tiny.sentences(30)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    tiny.table(tmp_path / "rows.csv", ROWS)
    (tmp_path / "few.csv").write_text("text,label\na,x\nb,y\nc,x\nd,y\n")
    (tmp_path / "short.csv").write_text("text\n" + "good\n" * 40 + "good bad\n" * 10)
    (tmp_path / "numbers.csv").write_text("text,label\na,.1\nb,.2\nc,.3\n")
    return tmp_path


# What is wrong → the settings, the kind of error, and what it must say.
FAULTS: dict[str, tuple[dict[str, Any], type[RegvarError], str]] = {
    "no data": ({"data": "raws.csv"}, DataError, "no 'raws.csv'. Did you mean 'rows.csv'?"),
    "few rows": ({"data": "few.csv"}, DataError, "3 or more of each class"),
    "limit": ({"limit": 3}, DataError, "raise --limit"),
    "numbers": ({"data": "numbers.csv"}, DataError, "must hold classes that repeat"),
    "no column": ({"label": "lable"}, DataError, "Did you mean 'label'?"),
    "folder": ({"data": "."}, DataError, "give --task image-classification"),
    "file": ({"task": "image-classification"}, DataError, "is a file"),
    "model file": ({"model": "rows.csv"}, ModelError, "'rows.csv' is a file"),
    "model path": ({"model": "./none"}, ModelError, "there is no './none'"),
    "model name": ({"model": "minlm"}, ModelError, "Did you mean 'minilm'?"),
    "model empty": ({"model": "."}, ModelError, "'.' cannot be read"),
    "images": ({"model": "{vit}"}, ModelError, "cannot be read"),
    "no places": ({"task": "causal-lm", "model": "{bert}"}, ModelError, "looks at later ones"),
    "frozen name": ({"frozen": ("bart",)}, ArgumentError, "Did you mean 'bert'?"),
    "frozen": ({"frozen": ("bert", "classifier")}, ModelError, "frozen must leave a module"),
    "rate": ({"lr": 1e30}, RegvarError, "must be finite"),
    "short": (
        {"task": "causal-lm", "model": "{gpt2}", "data": "short.csv", "limit": 20},
        DataError,
        "two tokens or more",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_run_that_fails_leaves_nothing_behind(
    networks: Path, home: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.chdir(home)
    given, kind, said = FAULTS[fault]
    chosen = {"data": "rows.csv", "model": "{bert}", "epochs": 1, "samples": 1, **given}
    chosen["model"] = chosen["model"].format(**{p.name: str(p) for p in networks.iterdir()})
    before = tree(home)
    with pytest.raises(kind) as caught:
        finetune(Settings(**chosen), "new/folder/run")
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert tree(home) == before


@pytest.mark.parametrize("step", ["Rows of", "Fitting", "Refitted in"])
def test_an_interruption_leaves_nothing_behind(networks: Path, home: Path, step: str) -> None:
    def interrupt(line: str) -> None:
        if line.startswith(step):
            raise KeyboardInterrupt

    before = tree(home)
    chosen = Settings(str(home / "rows.csv"), model=str(networks / "bert"), epochs=1, samples=1)
    with pytest.raises(KeyboardInterrupt):
        finetune(chosen, home / "run", interrupt)
    assert tree(home) == before


def test_a_directory_that_holds_other_things_is_left_alone(networks: Path, home: Path) -> None:
    chosen = Settings(str(home / "rows.csv"), model=str(networks / "bert"))
    before = tree(home)
    for out, said in (
        (home, "holds other things"),
        (home / "few.csv", "is a file"),
        (home / "few.csv" / "run", "must be in a directory, but .*few.csv' is a file"),
    ):
        with pytest.raises(StorageError, match=said):
            finetune(chosen, out)
    assert tree(home) == before


def test_an_empty_directory_is_filled_and_kept_empty_by_a_failure(
    networks: Path, home: Path
) -> None:
    out = home / "run"
    out.mkdir()
    chosen = {"data": str(home / "rows.csv"), "model": str(networks / "bert"), "samples": 1}
    with pytest.raises(RegvarError):
        finetune(Settings(**chosen, epochs=1, lr=1e30), out)
    assert tree(out) == set()
    made = finetune(Settings(**chosen, epochs=1), out)
    assert made.page.is_file() and made.page.parent == out
    assert tree(out) >= {"run.json", "metrics.json", "test.csv", "report.html", "model", "uq"}
    assert not [p for p in home.iterdir() if p.name.startswith(".")]


def test_folders_above_a_run_are_made_with_it(networks: Path, home: Path) -> None:
    chosen = Settings(str(home / "rows.csv"), model=str(networks / "bert"), epochs=1, samples=1)
    made = finetune(chosen, home / "new" / "folder" / "run")
    assert made.directory == home / "new" / "folder" / "run" and made.page.is_file()
    assert {path.name for path in (home / "new").rglob("*")} >= {"folder", "run", "run.json"}


SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"task": "sequence-clasification"}, "Did you mean 'sequence-classification'?"),
    ({"method": "sample"}, "Did you mean 'sampled'?"),
    ({"samples": 0}, "samples must be at least 1, but it is 0"),
    ({"epochs": 0}, "epochs must be at least 1"),
    ({"tokens": 1}, "tokens must be at least 2"),
    ({"batch": 0}, "batch must be at least 1"),
    ({"limit": 0}, "limit must be at least 1"),
    ({"lr": 0.0}, "lr must be a positive number"),
    ({"lam": -1.0}, "lam must be a positive number"),
    ({"precision": float("inf")}, "precision must be a positive number"),
    ({"lr": float("nan")}, "lr must be a positive number, but it is nan"),
    ({"seed": -1}, "seed must be in 0…4294967295, but it is -1"),
    ({"seed": 2**64}, "seed must be in 0…4294967295"),
]


@pytest.mark.parametrize(("given", "said"), SETTINGS)
def test_settings_that_cannot_be_run_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        Settings("rows.csv", **given)
    assert said in str(caught.value)


def test_settings_come_back_from_their_card() -> None:
    chosen = Settings("a.csv", text="body", lora=True, frozen=("embeddings",), limit=7, lr=3e-5)
    held = json.loads(json.dumps(chosen.to_json()))
    assert Settings.from_json(held) == chosen
    assert Settings.from_json({**held, "of a later version": 1}) == chosen


CARDS = {
    "no JSON": ("{", "run.json must be JSON"),
    "a list": ("[]", "must be that of a run of format 2"),
    "another format": ('{"format": 3}', "must be that of a run of format 2"),
    "no settings": (
        '{"format": 2, "settings": {}, "classes": [], "scale": 1, "shared": false}',
        "other settings",
    ),
    "a word": (
        '{"format": 2, "settings": "a", "classes": [], "scale": 1, "shared": false}',
        "other settings",
    ),
}


@pytest.mark.parametrize("damage", CARDS)
def test_a_damaged_card_is_said_to_be_that(texts_fit: Fit, home: Path, damage: str) -> None:
    written, said = CARDS[damage]
    run = home / "run"
    shutil.copytree(texts_fit.directory, run)
    (run / "run.json").write_text(written)
    with pytest.raises(StorageError, match=said):
        predict(run, home / "rows.csv")
    assert not (run / "predictions.csv").exists()


@pytest.mark.parametrize("part", ["uq/displacement-0001.safetensors", "uq/card.json", "model"])
def test_a_run_that_lacks_a_part_is_refused_by_its_name(
    texts_fit: Fit, home: Path, part: str
) -> None:
    run = home / "run"
    shutil.copytree(texts_fit.directory, run)
    (run / part).rename(home / "away")
    with pytest.raises(StorageError, match=Path(part).name):
        predict(run, home / "rows.csv")


def test_what_is_no_run_is_said_to_be_none(home: Path) -> None:
    with pytest.raises(StorageError, match=r"has no run.json. Run `regvar finetune --out DIR`"):
        predict(home, home / "rows.csv")
    with pytest.raises(StorageError, match="is no directory"):
        predict(home / "none", home / "rows.csv")


def test_inputs_of_another_task_are_refused(texts_fit: Fit, images_fit: Fit, home: Path) -> None:
    (home / "empty").mkdir()
    for run, source, said in (
        (texts_fit, images_fit.settings.data, "a file of texts must end in .csv"),
        (texts_fit, home / "none.csv", "but there is no '.*none.csv'"),
        (images_fit, home / "rows.csv", "input must be an image .* but it is 'rows.csv'"),
        (images_fit, home / "empty", "input must hold images"),
        (images_fit, home / "none", "but there is no '.*none'"),
    ):
        with pytest.raises(DataError, match=said):
            predict(run.directory, source, home / "p.csv")
    assert not (home / "p.csv").exists()
