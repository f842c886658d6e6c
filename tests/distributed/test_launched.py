"""`accelerate launch --num_processes 2` of a script gives what the script gives alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("accelerate")

SCRIPT = Path(__file__).with_name("script.py")
# --multi_gpu: without it or a GPU, accelerate launches one process whatever is asked for. The
# script's own Accelerator(cpu=True) keeps to the CPU.
LAUNCHED = ["-m", "accelerate.commands.launch", "--multi_gpu", "--mixed_precision", "no"]


def run(count: int, out: Path, way: str) -> list[dict[str, torch.Tensor]]:
    """What each process has found."""
    several = [*LAUNCHED, "--num_machines", "1", "--dynamo_backend", "no", "--main_process_port"]
    launcher = [] if count == 1 else [*several, "0", "--num_processes", str(count)]
    quiet = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *launcher, str(SCRIPT), str(out), way]
    ended = subprocess.run(command, env=quiet, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return [torch.load(f"{out}.{rank}") for rank in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["default", "split", "seedable", "dispatched"])
def test_two_launched_processes_are_one(way: str, tmp_path: Path) -> None:
    (alone,) = run(1, tmp_path / "one", way)
    together = run(2, tmp_path / "two", way)
    assert alone["counts"].tolist() == [14.0, 4.0]
    for found in together:
        assert found.keys() == alone.keys()
        for key, value in alone.items():
            assert float(value.abs().max()) > 0
            torch.testing.assert_close(found[key], value, rtol=1e-5, atol=1e-7, msg=key)
