"""Two processes of `torchrun` give the one-process answer: MAP, refits and the hook."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from .trained_together import answers

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_two_processes_are_one(name: str, tmp_path: Path) -> None:
    command = [
        *[sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"],
        *["-m", "tests.huggingface.trained_together", name, "2", str(tmp_path / "two")],
    ]
    quiet = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    ended = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, timeout=300)
    assert ended.returncode == 0, ended.stderr.decode()[-3000:]
    alone = answers(name, 4, tmp_path)
    for rank in (0, 1):
        found = torch.load(tmp_path / f"two-{rank}.pt")
        assert found.keys() == alone.keys()
        for key, value in alone.items():
            assert float(value.abs().max()) > 0
            torch.testing.assert_close(found[key], value, rtol=1e-9, atol=1e-13)
