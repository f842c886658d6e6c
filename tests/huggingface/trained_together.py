"""A user's script, the same for one process and for several: `python -m … NAME ROWS OUT`."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import torch
from torch import Tensor
from transformers import Trainer

from regvar.huggingface import (
    AmortizedRefit,
    RegVarTrainer,
    SampledRefit,
    count,
    regvar_loss,
)

from .tiny import PRIOR, arguments, case_of, dataset, flat, steps_of, still


def answers(name: str, rows: int, folder: Path) -> dict[str, Tensor]:
    """θ̂ and variances: 12 rows, `rows` a process and micro-batch, two of these a step."""
    case = case_of(name)
    query = case.query()
    found: dict[str, Tensor] = {}
    kinds = {
        "sampled": SampledRefit(2),
        "probes": AmortizedRefit(probes=dataset(case, 6, seed=3)),
    }
    settings = {"per_device_train_batch_size": rows, "gradient_accumulation_steps": 2}
    for kind, refit in kinds.items():
        args = arguments(folder, train_sampling_strategy="random", **settings)
        data = dataset(case, 12)
        model = still(case)
        trainer = RegVarTrainer(model, args, train_dataset=data, prior=PRIOR, refit=refit)
        variance = trainer.regvar().moments(query).variance
        trainer.args.train_sampling_strategy = "sequential"
        trainer.train()
        found |= {f"{kind} variance": variance, f"{kind} map": flat(model)}
    model, data = still(case), dataset(case, 12)
    n, examples = count(model, steps_of(data, 4))
    loss = regvar_loss(model, n=n, rows=examples, steps=2, prior=PRIOR, lam=0.5)
    Trainer(
        model, arguments(folder, **settings), train_dataset=data, compute_loss_func=loss
    ).train()
    return {**found, "hook": flat(model)}


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        result = answers(sys.argv[1], int(sys.argv[2]), Path(place))
    torch.save(result, f"{sys.argv[3]}-{os.environ['RANK']}.pt")
