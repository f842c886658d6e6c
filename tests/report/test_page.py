"""The page stands alone, is well formed, is read without eyes, and is the same twice."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure as Drawing

from regvar import report
from regvar.errors import ArgumentError
from regvar.plots import style
from tests.report.html_reader import Found, read

NASTY = "<script>alert('a & b')</script> \"quoted\""


def drawing() -> Drawing:
    with style.quiet():
        drawn = style.panels(1, 1, (3.0, 2.0))
        drawn.axes[0].plot([0, 1, 2], [1, 3, 2], color=style.LINE, marker="o", label="a")
        drawn.axes[0].set_title("title")
        style.legend(drawn.figure, drawn.axes)
    return drawn.figure


def table(name: str = "scores") -> report.Table:
    cells = (
        report.Cell("0.5", "± 0.1", report.Mark.BEST),
        report.Cell("0.6", "± 0.2", report.Mark.TIED),
    )
    columns = (report.Column("ID", "Sin"), report.Column("OOD", "Sin"))
    rows = report.RowGroup((report.Row(NASTY, cells),), "ours")
    return report.Table(name, NASTY, "method", columns, (rows,), (NASTY,))


def page() -> report.Page:
    return report.Page(
        "Title " + NASTY,
        ("Lead.", NASTY),
        (
            report.Section("First: λ & more", (report.Text((NASTY,)), report.Items(("x", NASTY)))),
            report.Section(
                "Second",
                (
                    table(),
                    report.Figure("one", drawing(), "A line. " + NASTY, "Caption."),
                    report.Figure("two", drawing(), "Another.", "Caption."),
                    report.Code("run --it\n" + NASTY),
                ),
            ),
        ),
    )


@pytest.fixture(scope="module")
def found() -> Found:
    return read(report.render(page()))


def test_every_tag_is_closed_in_order(found: Found) -> None:
    assert found.unclosed == []


def test_nothing_is_fetched(found: Found) -> None:
    links = {
        attributes[key]
        for _, attributes in found.tags
        for key in ("src", "href", "xlink:href", "srcset", "data", "action")
        if key in attributes
    }
    assert all(link.startswith(("#", "data:")) for link in links)
    assert not found.all("script")
    html = report.render(page())
    assert not re.search(r"@import|url\((?!#)", html)
    (policy,) = [m for m in found.all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in policy["content"]


def test_text_is_text(found: Found) -> None:
    text = "".join(found.text)
    assert text.count(NASTY) == 9  # title twice, lead, text, item, caption, row, note, code
    assert found.all("svg")[0]["aria-label"] == "A line. " + NASTY


def test_links_lead_somewhere_and_ids_are_unique(found: Found) -> None:
    ids = [a["id"] for _, a in found.tags if "id" in a]
    assert len(ids) == len(set(ids))
    inner = [a["href"][1:] for a in found.all("a")]
    assert inner == ["first-more", "second"]
    assert set(inner) <= set(ids)
    uses = {a["xlink:href"][1:] for a in found.all("use")}
    assert uses
    assert uses <= set(ids)
    clips = set(re.findall(r"url\(#([^)]*)\)", report.render(page())))
    assert clips <= set(ids)


def test_it_is_read_without_eyes(found: Found) -> None:
    assert all(a.get("alt", "").strip() for a in found.all("img"))
    pictures = found.all("svg")
    assert len(pictures) == 2
    assert all(a["role"] == "img" and a["aria-label"].strip() for a in pictures)
    assert all(a.get("scope") in ("col", "row", "colgroup", "rowgroup") for a in found.all("th"))
    assert found.all("html") == [{"lang": "en"}]
    text = "".join(found.text)
    assert "(best)" in text
    assert "(tied with the best)" in text


def test_cells_are_those_of_the_table(found: Found) -> None:
    rows = found.tables["table-scores"]
    assert rows[0] == ["method", "Sin"]
    assert rows[1] == ["ID", "OOD"]
    assert rows[2] == ["ours"]
    assert rows[3] == [NASTY, "0.5 ± 0.1 (best)", "0.6 ± 0.2≈ (tied with the best)"]


def test_drawings_follow_the_page_in_light_and_dark() -> None:
    html = report.render(page())
    drawn = html[html.index("<svg") : html.rindex("</svg>")]
    assert not re.findall(r"#[0-9a-f]{6}\b", drawn)
    used = set(re.findall(r"var\((--c-[0-9a-f]+)\)", drawn))
    light, dark = html.split("prefers-color-scheme: dark")
    for variable in used:
        assert f"{variable}: " in light
        assert f"{variable}: " in dark


def test_files_are_written_and_the_same_again(tmp_path: Path) -> None:
    target = report.write(page(), tmp_path / "a")
    assert target == tmp_path / "a" / "report.html"
    with mpl.rc_context({"font.size": 30, "svg.hashsalt": None, "savefig.dpi": 10}):
        report.write(page(), tmp_path / "b")
    first, second = (
        {p.relative_to(root): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}
        for root in (tmp_path / "a", tmp_path / "b")
    )
    assert first == second
    names = {str(name) for name in first}
    assert names == {
        "report.html",
        "tables/scores.md",
        "tables/scores.tex",
        "figures/one.png",
        "figures/one.svg",
        "figures/two.png",
        "figures/two.svg",
    }
    assert first[Path("figures/one.png")].startswith(b"\x89PNG")
    root = ET.fromstring(first[Path("figures/one.svg")])
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert b"<dc:date>" not in first[Path("figures/one.svg")]
    assert first[Path("tables/scores.md")].decode() == table().markdown() + "\n"


def test_pages_that_cannot_be_written_are_refused() -> None:
    section = report.Section("Same", ())
    with pytest.raises(ArgumentError, match=r"sections must be named once each.*'same'"):
        report.Page("t", (), (section, section))
    with pytest.raises(ArgumentError, match=r"named once each.*'table scores'"):
        report.Page("t", (), (report.Section("a", (table(), table())),))
    with pytest.raises(ArgumentError, match="name must be lower-case letters"):
        report.Page("t", (), (report.Section("a", (table("../up"),)),))
    silent = report.Figure("f", drawing(), " ", "caption")
    with pytest.raises(ArgumentError, match="alt of f must be words"):
        report.Page("t", (), (report.Section("a", (silent,)),))
