"""A page as Markdown, read back by another reader of Markdown."""

from __future__ import annotations

from itertools import pairwise

from markdown_it import MarkdownIt
from matplotlib.figure import Figure as Drawing

from regvar.report import (
    Cell,
    Code,
    Column,
    Excerpt,
    Excerpts,
    Figure,
    Items,
    Page,
    Row,
    RowGroup,
    Section,
    Table,
    Text,
    markdown,
)

TABLE = Table(
    "nll",
    "Two <b>tasks</b>.",
    "method",
    (Column("ID"),),
    (RowGroup((Row("ours", (Cell("0.5"),)),)),),
)
PAGE = Page(
    "A study * of stars",
    ("What was run.",),
    (
        Section("Results", (Text(("One | two.", "Three.")), Items(("a_b", "c")), TABLE)),
        Section("Seen", (Excerpts("Texts", (Excerpt("not shown"),)),)),
        Section("Drawn", (Figure("curve", Drawing(), "A [curve].", "It rises."), Code("x = 1"))),
    ),
)


def tokens(kind: str) -> list[str]:
    found = MarkdownIt().enable("table").parse(markdown(PAGE, "figures/a"))
    contents = [after.content for token, after in pairwise(found) if token.type == kind]
    return [MarkdownIt().renderInline(text) for text in contents]


def test_words_are_what_they_were() -> None:
    assert tokens("heading_open") == ["A study * of stars", "Results", "Drawn"]
    said = tokens("paragraph_open")
    assert said[:3] == ["What was run.", "One | two.", "Three."]
    assert said[3:5] == ["a_b", "c"]
    assert "Two &lt;b&gt;tasks&lt;/b&gt;." in said and "It rises." in said
    assert tokens("th_open") == ["method", "ID"] and tokens("td_open") == ["ours", "0.5"]


def test_figures_are_links_and_code_stays_code() -> None:
    text = markdown(PAGE, "figures/a")
    assert '<img src="figures/a/curve.png" alt="A [curve]." />' in MarkdownIt().render(text)
    assert "```\nx = 1\n```" in text


def test_examples_to_look_at_are_left_to_the_html_page() -> None:
    assert "not shown" not in markdown(PAGE) and "Seen" not in markdown(PAGE)
