"""What a browser would find in a page, by the standard library's parser."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "hr", "col", "input"}


@dataclass
class Found:
    """What a page holds."""

    tags: list[tuple[str, dict[str, str]]] = field(default_factory=lambda: [])
    text: list[str] = field(default_factory=lambda: [])
    unclosed: list[str] = field(default_factory=lambda: [])
    tables: dict[str, list[list[str]]] = field(default_factory=lambda: {})  # id → rows of cells

    def all(self, tag: str) -> list[dict[str, str]]:
        """The attributes of every such tag."""
        return [attributes for name, attributes in self.tags if name == tag]


class Reader(HTMLParser):
    """Keeps tags, texts and the rows of tables; complains of tags that do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.found = Found()
        self.open: list[str] = []
        self.rows: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {key: value or "" for key, value in attrs}
        self.found.tags.append((tag, attributes))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "figure" and attributes["id"].startswith("table-"):
            self.rows = self.found.tables.setdefault(attributes["id"], [])
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.tags.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            self.found.unclosed.append(tag)
        else:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.found.text.append(data)
        if "th" in self.open or "td" in self.open:
            self.rows[-1][-1] += data


def read(html: str) -> Found:
    """Parse a page whole."""
    reader = Reader()
    reader.feed(html)
    reader.close()
    reader.found.unclosed += reader.open
    return reader.found
