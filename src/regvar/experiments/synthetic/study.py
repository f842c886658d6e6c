"""Appendix C, method by method: fit, predict, score, calibrate, audit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regvar.audit import audit
from regvar.calibration import calibrate
from regvar.curvature import GGN
from regvar.data.synthetic import TASKS
from regvar.estimators import Estimator
from regvar.experiments.pipeline import Experiment, Outcome
from regvar.experiments.synthetic import methods, parameters
from regvar.experiments.synthetic.config import Config
from regvar.experiments.synthetic.problem import Problem, prepare
from regvar.metrics import CRPS, NLL, PICP, Estimate
from regvar.records import Record
from regvar.results import Moments, Solution
from regvar.solvers import Direct

if TYPE_CHECKING:
    from regvar.report import Page

PAPER = Config()


def experiment(
    config: Config = PAPER,
    cells: tuple[str, ...] = tuple(TASKS),
    seeds: tuple[int, ...] = tuple(range(10)),
) -> Experiment[Problem]:
    """The study under a configuration; the paper's unless another is given."""
    return Experiment(
        name="synthetic",
        summary="Appendix C: four regressions, nine methods, in and out of distribution",
        methods=(*methods.METHODS, methods.PARAMETER),
        seeds=seeds,
        configs=dict.fromkeys(cells, config),
        prepare=lambda cell, seed: prepare(config, cell, seed),
        run=run,
        page=_page,
        threads=1,
    )


def reduced() -> Experiment[Problem]:
    """A smaller study with all methods, for a first look: two tasks, one seed."""
    config = Config(sigma2=(0.005, 0.01, 0.05, 0.1), adam_epochs=1000)
    return experiment(config, cells=("quadratic-inbetween", "sin-inbetween"), seeds=(0,))


def run(problem: Problem, method: str) -> Outcome:
    """One method on one task and seed."""
    if method == methods.PARAMETER:
        return _run_parameter(problem)
    begin = time.perf_counter()
    fitted = methods.METHODS[method](problem)
    ready = time.perf_counter()
    found = {split: fitted.uq.moments(problem.data[split][0]) for split in ("id", "ood")}
    seconds = {"fit": ready - begin, "inference": time.perf_counter() - ready}
    solution = _solution(fitted.uq.solution)
    calibrated = calibrate(fitted.uq, [problem.data["validation"]])
    metrics = {split: score(problem, moments, split) for split, moments in found.items()}
    for split, moments in found.items():
        scaled = Moments(moments.mean, calibrated.scale * moments.variance)
        metrics[f"{split}/calibrated"] = score(problem, scaled, split)
    extra: dict[str, Any] = {
        **_common(problem),
        "lam": fitted.lam,
        "lam_sweep": fitted.lam_sweep,
        "scale": calibrated.scale,
        "bands": _bands(problem, fitted.uq),
        "audit": _audit(problem, fitted.uq),
        "solution": solution,
    }
    variance = getattr(fitted.uq, "parameter_variance", None)
    if variance is not None:
        extra |= parameters.describe(problem, variance)
    return Outcome(metrics, extra, seconds)


def score(problem: Problem, moments: Moments, split: str) -> dict[str, Estimate]:
    """PICP, CRPS and NLL of N(f, σ²_f + σ²)."""
    y = problem.data[split][1]
    total = moments.variance + problem.sigma2
    picp, crps, nll = PICP(problem.config.level), CRPS(), NLL()
    picp.update(moments.mean, total, y)
    crps.update(moments.mean, total, y)
    nll.update_gaussian(moments.mean, total, y)
    return {"PICP": picp.compute(), "CRPS": crps.compute(), "NLL": nll.compute()}


def _page(found: Sequence[Record]) -> Page:
    # Imported here: running and listing experiments needs neither matplotlib nor jinja2.
    from regvar.experiments.synthetic.page import page

    return page(found)


def _run_parameter(problem: Problem) -> Outcome:
    """Algorithm 3 has no moments: intervals and sparsity only."""
    begin = time.perf_counter()
    uq, lam = methods.by_parameters(problem)
    seconds = {"fit": time.perf_counter() - begin, "inference": 0.0}
    extra = {**_common(problem), "lam": lam, "solution": _solution(uq.solution)}
    return Outcome({}, extra | parameters.describe(problem, uq.variance), seconds)


def _common(problem: Problem) -> dict[str, Any]:
    x, y = problem.data["train"]
    return {
        "sigma2": problem.sigma2,
        "sigma2_sweep": problem.sweep,
        "stationarity": problem.fit.stationarity,
        "train": {"x": _drawn(x[:, 0]), "y": _drawn(y[:, 0])},
    }


def _bands(problem: Problem, uq: Estimator) -> dict[str, list[float]]:
    low, high = problem.task.span
    grid = torch.linspace(low, high, problem.config.band_points, dtype=torch.float64)
    moments = uq.moments(grid[:, None])
    return {
        "x": _drawn(grid),
        "mean": _drawn(moments.mean[:, 0]),
        "std": _drawn(moments.std[:, 0]),
    }


def _drawn(values: Tensor) -> list[float]:
    """Six digits: these are drawn, not computed with, and make up most of a record."""
    return [float(f"{v:.6g}") for v in values.tolist()]


def _audit(problem: Problem, uq: Estimator) -> dict[str, Any]:
    """Against the exact GGN, at inputs in and out of distribution."""
    points = problem.config.audit_points
    report = audit(uq, problem.evaluation, points, seed=problem.seed, solver=Direct(GGN()))
    return {
        "verdict": report.verdict,
        "rank_correlation": report.rank_correlation,
        "scale": report.scale,
        "points": report.points,
    }


def _solution(solution: Solution | None) -> dict[str, Any] | None:
    if solution is None:
        return None
    return {
        "status": solution.status.value,
        "residual": solution.residual,
        "iterations": solution.iterations,
    }
