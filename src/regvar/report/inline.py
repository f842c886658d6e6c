"""matplotlib's SVG made part of a page: its colors follow the page, light or dark."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from regvar.plots import style

_PROLOG = re.compile(r"^.*?(?=<svg)", re.DOTALL)
_UNUSED = re.compile(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", re.DOTALL)
_ROOT = re.compile(r"<svg[^>]*>")
_VIEW = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
_NAMED = re.compile(r'(\bid="|href="#|url\(#)')
_BLANK = re.compile(r"\n\s*")
_PIXELS = 96 / 72  # CSS pixels a point


def variable(color: str) -> str:
    """The CSS variable that stands for a color of the style.

    >>> from regvar.report import inline
    >>> inline.variable("#22272e")
    '--c-22272e'
    """
    return "--c-" + color.removeprefix("#")


def svg(text: str, name: str, alt: str) -> Markup:
    """The drawing as an element of a page.

    Args:
        text: what `plots.files.svg` wrote.
        name: put before every id, since all drawings share the page.
        alt: read out in place of the drawing.
    """
    body = _UNUSED.sub("", _PROLOG.sub("", text, count=1))
    body = _NAMED.sub(rf"\g<1>{name}-", body)
    for color in style.DARK:
        body = re.sub(f"(?<=[ :]){color}\\b", f"var({variable(color)})", body)
    root = _ROOT.search(body)
    view = _VIEW.search(body)
    if root is None or view is None:
        raise ValueError(f"{name} is not an SVG that matplotlib wrote")
    width = float(view[1]) * _PIXELS
    head = (
        f'<svg role="img" aria-label="{escape(alt)}" viewBox="0 0 {view[1]} {view[2]}" '
        f'style="width: {width:.0f}px" xmlns:xlink="http://www.w3.org/1999/xlink">'
    )
    return Markup(_BLANK.sub("\n", head + body[root.end() :]).strip())
