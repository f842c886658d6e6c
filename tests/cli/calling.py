"""`regvar` as it is called, where it is called: the exit code and what stands on both streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from regvar.cli.commands import execute


@dataclass(frozen=True)
class Answer:
    """What a call gave."""

    code: int
    out: str
    err: str

    @property
    def refusal(self) -> str:
        """The one line of a call that was refused, without its mark."""
        assert self.code == 1
        assert self.err.count("\n") == 1 and self.err.endswith("\n"), self.err
        assert self.err.startswith("regvar: ") and "Traceback" not in self.err
        return self.err.removeprefix("regvar: ").removesuffix("\n")


@dataclass(frozen=True)
class Home:
    """Networks, data and a run, which tests only read."""

    bert: Path
    vit: Path
    table: Path
    pictures: Path
    run: Path


Call = Callable[..., Answer]


def caller(capsys: pytest.CaptureFixture[str]) -> Call:
    """Run the command line in this process."""

    def call(*arguments: object) -> Answer:
        capsys.readouterr()
        code = execute([str(argument) for argument in arguments])
        found = capsys.readouterr()
        return Answer(code, found.out, found.err)

    return call
