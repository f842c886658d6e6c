"""A caller, and one run of `regvar finetune` for all tests of this folder."""

from __future__ import annotations

import pytest

from regvar.cli.commands import execute
from tests.cli.calling import Call, Home, caller
from tests.finetuning import tiny


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    return caller(capsys)


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    root = tmp_path_factory.mktemp("home")
    made = Home(
        tiny.bert(root / "bert"),
        tiny.vit(root / "vit"),
        tiny.table(root / "rows.csv", tiny.sentences(40)),
        tiny.pictures(root / "pictures", 5),
        root / "run",
    )
    chosen = {"--data": made.table, "--model": made.bert, "--out": made.run}
    words = [str(word) for option in chosen.items() for word in option]
    assert execute(["finetune", *words, "--epochs", "1", "--samples", "1"]) == 0
    return made
