"""Plain text made safe for Markdown and LaTeX; HTML is left to jinja2."""

from __future__ import annotations

import re

_MARKDOWN = re.compile(r"([\\`*_|<>\[\]~$])")

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "−": r"$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "≈": r"$\approx$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "∞": r"$\infty$",
    "→": r"$\to$",
    "∣": r"$\mid$",
    "√": r"$\surd$",
    "²": r"$^2$",
    "³": r"$^3$",
    "⁻": r"$^-$",
    "¹": r"$^1$",
    "α": r"$\alpha$",
    "δ": r"$\delta$",
    "θ": r"$\theta$",
    "κ": r"$\kappa$",
    "λ": r"$\lambda$",
    "σ": r"$\sigma$",
    "π": r"$\pi$",
    "Λ": r"$\Lambda$",
    "Σ": r"$\Sigma$",
    "–": "--",
    "—": "---",
    "…": r"\dots{}",
    "\u2019": "'",
    "“": "``",
    "”": "''",
    "\u00a0": "~",
    "\u202f": r"\,",
    "\n": " ",
}
_LATEX_TABLE = str.maketrans(_LATEX)


def markdown(text: str) -> str:
    r"""No mark-up in it, and on one line, so that it fits a table's cell.

    >>> from regvar.report import escape
    >>> escape.markdown("a|b *c*")
    'a\\|b \\*c\\*'
    """
    return _MARKDOWN.sub(r"\\\1", text).replace("\n", " ")


def latex(text: str) -> str:
    r"""No commands in it, and the signs of mathematics as commands of their own.

    >>> from regvar.report import escape
    >>> escape.latex("σ² of 5 % & more")
    '$\\sigma$$^2$ of 5 \\% \\& more'
    """
    return text.translate(_LATEX_TABLE)
