"""One quiet style for every figure: readable in greyscale, few lines, no boxes."""

from __future__ import annotations

from typing import Any

INK = "#22272e"
BAND = "#9db8d9"
LINE = "#1f5a99"
FAINT = "#8b949e"
TRUTH = "#c2551b"

STYLE: dict[str, Any] = {
    "figure.dpi": 110,
    "savefig.dpi": 160,
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "text.color": INK,
    "legend.frameon": False,
    "axes.grid": False,
}
