"""The command line: `regvar --help`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; without its dependencies, say what to install."""
    try:
        from regvar.cli.commands import execute
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"typer", "jinja2", "matplotlib"}:
            raise
        needed = "pip install 'regvar[bench]'"
        sys.exit(f"regvar: the command line needs {error.name}, but it is not installed: {needed}")
    sys.exit(execute())
