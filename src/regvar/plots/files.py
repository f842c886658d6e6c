"""Figures as bytes: the same figure gives the same bytes, on any day."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

from regvar.plots import style


def svg(figure: Figure) -> str:
    """The figure as SVG, its letters drawn as paths, without a date."""
    stream = io.StringIO()
    with style.quiet():
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return stream.getvalue()


def png(figure: Figure) -> bytes:
    """The figure as PNG, on white."""
    stream = io.BytesIO()
    with style.quiet():
        figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()
