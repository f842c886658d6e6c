"""The examples of the pages run: every ```python block of a page, in order, in one namespace."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def program(text: str) -> str:
    """The page with everything but its Python blanked, so that line numbers stay the page's."""
    lines = [""] * len(text.splitlines())
    for block in BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(1))
        code = block.group(1).splitlines()
        lines[first : first + len(code)] = code
    return "\n".join(lines) + "\n"


WITH_CODE = [page for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
@pytest.mark.filterwarnings("error::regvar.SolverWarning")
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    default = torch.get_default_dtype()
    code = compile(program(page.read_text(encoding="utf-8")), str(page), "exec")
    page_module = ModuleType("page")  # dataclasses look their module up
    monkeypatch.setitem(sys.modules, "page", page_module)
    try:
        exec(code, vars(page_module))
    finally:
        torch.set_default_dtype(default)


def test_line_numbers_stay_the_pages() -> None:
    assert program("# Title\n\n```python\nx = 1\n```\ntext\n") == "\n\n\nx = 1\n\n\n"
