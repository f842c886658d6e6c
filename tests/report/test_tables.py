"""One table, three languages; what is in a cell never becomes mark-up."""

from __future__ import annotations

import math
import re

import pytest
from markdown_it import MarkdownIt

from regvar.errors import ArgumentError
from regvar.report import Cell, Column, Mark, Row, RowGroup, Table, escape, number

NASTY = r"a|b *c* _d_ <b>e</b> & 50 % $x$ #1 {y} ~z ^w \q [l](http://x) `code`"


def table() -> Table:
    first = Row("one & two", (Cell("0.5", "± 0.1", Mark.BEST), Cell("−1.0", "", Mark.TIED)))
    second = Row(NASTY, (Cell("–"), Cell("3")))
    theirs = Row("printed", (Cell("0.9375"), Cell("7")))
    return Table(
        "scores",
        "Scores, 5 % apart.",
        "method",
        (Column("ID", "Sin"), Column("OOD", "Sin")),
        (RowGroup((first, second), "regvar"), RowGroup((theirs,), "paper")),
        ("A note with λ² ± 1.",),
    )


def test_markdown_is_read_back_with_the_same_texts() -> None:
    html = MarkdownIt("commonmark").enable("table").render(table().markdown())
    rows = re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    assert cells[0] == ["method", "Sin ID", "Sin OOD"]
    assert cells[1][0] == "<em>regvar</em>"
    assert cells[2] == ["one &amp; two", "<strong>0.5 ± 0.1</strong>", "−1.0 ≈"]
    escaped = NASTY.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert cells[3] == [escaped, "–", "3"]
    assert cells[5] == ["printed", "0.9375", "7"]
    assert "<p>A note with λ² ± 1.</p>" in html


def test_latex_has_every_cell_and_no_stray_command() -> None:
    text = table().latex()
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert body[0] == r" & \multicolumn{2}{c}{Sin} \\"
    assert body[1] == r"method & ID & OOD \\"
    assert body[3] == r"one \& two & \textbf{\boldmath 0.5 $\pm$ 0.1} & $-$1.0 $\approx$ \\"
    assert body[-1] == r"printed & 0.9375 & 7 \\"
    assert r"\caption{Scores, 5 \% apart.}" in text
    assert r"A note with $\lambda$$^2$ $\pm$ 1." in text
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
    assert text.isascii()


def test_every_special_character_of_latex_is_escaped() -> None:
    for sign in "&%$#_{}":
        assert escape.latex(sign) == "\\" + sign
    assert escape.latex("\\") == r"\textbackslash{}"
    assert escape.latex("~^") == r"\textasciitilde{}\textasciicircum{}"
    assert escape.latex(NASTY).count("&") == escape.latex(NASTY).count(r"\&")


def test_markdown_keeps_a_cell_on_one_line() -> None:
    assert escape.markdown("a\nb|c") == r"a b\|c"


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(ArgumentError, match="row 'x' must be as wide as its table, 1"):
        Table("t", "c", "m", (Column("A"),), (RowGroup((Row("x", ()),)),))


@pytest.mark.parametrize(
    ("value", "decimals", "wanted"),
    [
        (-0.8841, 3, "−0.884"),
        (-0.0001, 3, "0.000"),
        (12.0, 1, "12.0"),
        (123456.0, 1, "1.2e+05"),
        (-1e-9, 2, "0.00"),
        (math.nan, 2, "–"),
        (math.inf, 2, "∞"),
        (-math.inf, 2, "−∞"),
    ],
)
def test_numbers_are_set_to_be_read(value: float, decimals: int, wanted: str) -> None:
    assert number(value, decimals) == wanted
