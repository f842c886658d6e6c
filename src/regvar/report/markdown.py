"""A page as Markdown, for documentation that is built from the same records.

Figures are links to the files that `report.write` puts beside the page. Examples to look at, which
need shades and pictures, are left to the HTML page.
"""

from __future__ import annotations

from regvar.report import escape
from regvar.report.page import Code, Figure, Items, Page, Part, Section, Text
from regvar.report.tables import Table


def markdown(page: Page, figures: str = "figures") -> str:
    """The page, with its figures as PNG files in a folder.

    Args:
        page: what is written.
        figures: the folder, as the links have it.

    >>> from regvar import report
    >>> part = report.Text(("None yet.",))
    >>> print(report.markdown(report.Page("Study", ("What was run.",),
    ...                                   (report.Section("Results", (part,)),))))
    # Study
    <BLANKLINE>
    What was run.
    <BLANKLINE>
    ## Results
    <BLANKLINE>
    None yet.
    """
    blocks = [f"# {escape.markdown(page.title)}", *map(escape.markdown, page.lead)]
    for section in page.sections:
        blocks += _section(section, figures)
    return "\n\n".join(blocks)


def _section(section: Section, figures: str) -> list[str]:
    written = [text for part in section.parts if (text := _part(part, figures))]
    return [f"## {escape.markdown(section.title)}", *written] if written else []


def _part(part: Part, figures: str) -> str:
    if isinstance(part, Text):
        return "\n\n".join(escape.markdown(p) for p in part.paragraphs)
    if isinstance(part, Items):
        return "\n".join(f"- {escape.markdown(item)}" for item in part.items)
    if isinstance(part, Code):
        return f"```\n{part.text}\n```"
    if isinstance(part, Figure):
        link = f"![{escape.markdown(part.alt)}]({figures}/{part.name}.png)"
        return f"{link}\n\n{escape.markdown(part.caption)}"
    return part.markdown() if isinstance(part, Table) else ""
