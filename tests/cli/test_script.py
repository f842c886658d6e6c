"""The installed script itself: exit codes and streams as a shell sees them."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path

from regvar.version import __version__
from tests.finetuning import tiny

SCRIPT = Path(sysconfig.get_path("scripts")) / "regvar"


def run(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, *arguments],
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},  # or a hub is asked for the unknown name
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_script_says_its_version(tmp_path: Path) -> None:
    done = run("--version", folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"regvar {__version__}\n", "")


def test_a_name_that_no_hub_knows_is_one_line_on_stderr(tmp_path: Path) -> None:
    tiny.table(tmp_path / "rows.csv", tiny.sentences(20))
    options = ("--data", "rows.csv", "--model", "nobody/nothing", "--out", "run")
    done = run("finetune", *options, folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("regvar: model must be a directory with a saved network, one of")
    assert "but 'nobody/nothing' cannot be read" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]
