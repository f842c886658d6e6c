"""A language model's outputs stream through calibration and metrics: nothing piles up."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys, torch
from regvar import Categorical, Moments, metrics
from regvar.calibration import calibrate
from regvar.network import Network
from regvar.predictives import Probit

BATCHES, SHAPE, GRID = 12, (1, 64, 49152), [0.0, *(10 ** (k / 4) for k in range(-8, 9))]

class LanguageModel:
    network, solution = Network(torch.nn.Linear(1, 1)), None

    def moments(self, batch):
        draw = torch.Generator().manual_seed(int(batch[0].sum()))
        logits = 3 * torch.randn(batch[2], generator=draw)
        return Moments(logits, torch.rand(batch[2], generator=draw))

def network_free(uq, loader):
    uq.network.outputs_and_targets = lambda batch: (None, batch[1])
    uq.network.custom = True
    return calibrate(uq, loader, grid=GRID, predictive=Probit(Categorical()))

def text(batches, shape):
    draw = torch.Generator().manual_seed(0)
    for k in range(batches):
        words = torch.randint(0, shape[-1], shape[:-1], generator=draw)
        yield torch.full(shape[:1], k), words, shape

def score(batches, shape):
    loader = list(text(batches, shape))
    found = network_free(LanguageModel(), loader)
    kinds = (metrics.NLL, metrics.Brier, metrics.Accuracy, metrics.ECE, metrics.AdaptiveECE)
    totals = [kind() for kind in kinds]
    unsure = metrics.AUROC()
    for batch in loader:
        prediction = found.predict(batch)
        for metric in totals:
            metric.update(prediction.probs, batch[1])
        unsure.update(prediction.total, batch[1] % 2)
    return [metric.compute().count for metric in (*totals, unsure)]

def peak():
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

score(2, (2, 3, 50))  # what a first call loads
before = peak()
counts = score(BATCHES, SHAPE)
assert counts == [BATCHES * 64] * 6, counts
print((peak() - before) / (4 * SHAPE[1] * SHAPE[2]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="resource is a Unix module")
def test_memory_is_a_few_times_one_batch() -> None:
    """12 batches, 67 scales: kept logits would be 12 batches, all scales at once 67."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert float(run.stdout) < 10
