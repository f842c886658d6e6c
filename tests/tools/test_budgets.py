"""The tools of `make check` and `make docs` find what they are for."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def house(tmp_path: Path) -> Path:
    for folder in ("src", "tests", "tools"):
        (tmp_path / folder).mkdir()
    return tmp_path


def test_size_budget_is_kept_by_a_small_file(house: Path) -> None:
    (house / "src" / "room.py").write_text("def f():\n" + "    pass\n" * 59)
    assert list(load("size_budget").offenses(house)) == []


def test_size_budget_finds_long_files_long_methods_and_vague_names(house: Path) -> None:
    (house / "src" / "room.py").write_text("x = 1\n" * 301)
    (house / "src" / "deep.py").write_text("class A:\n    def f(self):\n" + "        pass\n" * 60)
    (house / "tests" / "utils.py").write_text("")
    (house / "tests" / "test_room.py").write_text("x = 1\n" * 301)
    assert list(load("size_budget").offenses(house)) == [
        "src/deep.py:2: f has 61 lines, 60 allowed",
        "src/room.py: 301 lines, 300 allowed",
        "tests/test_room.py: 301 lines, 300 allowed",
        "tests/utils.py: the name says nothing of what is inside",
    ]


def test_docs_coverage_finds_every_kind_of_gap() -> None:
    package = ModuleType("package")

    def bare() -> None: ...

    def told() -> None:
        """Said."""

    @dataclass
    class Generated:
        x: int

    for thing in (bare, told, Generated):
        thing.__module__, thing.__qualname__ = "package.room", thing.__name__
        setattr(package, thing.__name__, thing)
    package.__all__ = ["Generated", "bare", "told"]
    documented = {"package.room.told", "package.room.Generated", "package.bare"}
    assert list(load("docs_coverage").gaps(package, documented)) == [
        "package.Generated: no docstring",
        "package.bare: no docstring",
        "package.bare: no `::: package.room.bare` in docs/reference",
    ]
