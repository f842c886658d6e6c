"""Real processes that talk over gloo."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[2]
PATIENCE = 240


def launch(what: str, folder: Path, count: int = 2) -> list[dict[str, Any]]:
    """What each of `count` processes of `worker` has found."""
    out, meeting = folder / "found", folder / "meeting"
    commands = [
        [sys.executable, "-m", "tests.distributed.worker", what, out, rank, count, meeting]
        for rank in range(count)
    ]
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    running = [
        subprocess.Popen(
            [str(part) for part in command],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for command in commands
    ]
    try:
        texts = [process.communicate(timeout=PATIENCE)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    assert all(process.returncode == 0 for process in running), "\n".join(texts)
    return [torch.load(f"{out}.{rank}") for rank in range(count)]
