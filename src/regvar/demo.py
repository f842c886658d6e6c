"""`make demo`: the Sin-Inbetween network of Appendix C and what each method makes of it.

Trains the paper's network (50 tanh units, Adam 0.005, prior variance 3) to its MAP, fits the
estimators of the library, draws mean ± 2 sd of each beside the exact Hessian and GGN, and prints
how far each is from the pointwise truth.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

import regvar
from regvar.data import synthetic
from regvar.estimators import Estimator
from regvar.plots.bands import Panel, draw_bands

HIDDEN = 50
PRIOR_VARIANCE = 3.0
SIGMA = 0.1
EDGES = (-2.0, 1.7)
SAMPLES = 32
LBFGS = partial(
    torch.optim.LBFGS,
    line_search_fn="strong_wolfe",
    max_iter=1000,
    history_size=50,
    tolerance_grad=1e-12,
    tolerance_change=1e-15,
)


def train(seed: int, epochs: int) -> tuple[regvar.LogJoint, tuple[Tensor, Tensor]]:
    """The MAP of Appendix C: Adam as in the paper, then LBFGS to the very bottom."""
    x, y = synthetic.task("sin-inbetween").draw(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(1, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1)).double()
    joint = regvar.LogJoint(
        net,
        [(x, y)],
        likelihood=regvar.Gaussian(sigma=SIGMA),
        prior=regvar.GaussianPrior(precision=1 / PRIOR_VARIANCE),
    )
    regvar.fit_map(joint, torch.optim.Adam, epochs=epochs, lr=0.005)
    fit = regvar.fit_map(joint, LBFGS, epochs=3, lr=1.0, full_batch=True)
    print(fit)
    return joint, (x, y)


def estimators(joint: regvar.LogJoint, x: Tensor, seed: int) -> list[tuple[str, Estimator]]:
    """Every variant, by the tangent solve and by the paper's refit."""
    cg = regvar.ConjugateGradient(regvar.GGN())
    probes = [torch.linspace(*EDGES, 64, dtype=torch.float64)[:, None]]
    refit = regvar.Finetune(
        lam=0.1, epochs=2, lr=1.0, optimizer=LBFGS, full_batch=True, paired=True
    )
    return [
        ("exact Hessian", regvar.pointwise(joint, regvar.Direct(regvar.Hessian()))),
        ("exact GGN", regvar.pointwise(joint, regvar.Direct(regvar.GGN()))),
        ("pointwise (Alg. 2)", regvar.pointwise(joint, cg)),
        ("amortized, in-sample (Eq. 16)", regvar.amortized(joint, solver=cg)),
        ("amortized, evaluation probes (Alg. 1)", regvar.amortized(joint, probes, cg)),
        ("amortized by refit, ±λ pair (Alg. 1)", regvar.amortized(joint, probes, refit)),
        ("sampled, 4 draws", regvar.sampled(joint, 4, cg, seed)),
        (f"sampled, {SAMPLES} draws", regvar.sampled(joint, SAMPLES, cg, seed)),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(prog="python -m regvar.demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo_output"), help="where to draw")
    parser.add_argument("--seed", type=int, default=0, help="of data, network and draws")
    parser.add_argument("--epochs", type=int, default=3000, help="of Adam")
    chosen = parser.parse_args(arguments)
    warnings.simplefilter("always", regvar.SolverWarning)
    joint, data = train(chosen.seed, chosen.epochs)
    grid = torch.linspace(*EDGES, 120, dtype=torch.float64)[:, None]
    found = estimators(joint, data[0], chosen.seed)
    truth = regvar.Direct(regvar.GGN())
    panels: list[Panel] = []
    for name, uq in found:
        moments = uq.moments(grid)
        report = regvar.audit(uq, grid, points=40, solver=truth)
        print(f"\n{name}\n  {report}")
        note = f"rank {report.rank_correlation:+.2f}, scale {report.scale:.2g}"
        panels.append(Panel(name, note, moments.mean[:, 0], moments.std[:, 0]))
    chosen.out.mkdir(parents=True, exist_ok=True)
    path = chosen.out / "sin_inbetween.png"
    exact = next(p.std for p in panels if p.title == "exact GGN")
    draw_bands(path, grid[:, 0], panels, (data[0][:, 0], data[1][:, 0]), exact)
    print(f"\nThe picture is at {path.resolve()}")


if __name__ == "__main__":
    main()
