"""The synthetic study end to end against the same study written naively.

The oracle trains the plain network with plain torch, takes Jacobian and Hessian of flat functions
with torch.func, inverts matrices, and scores with scipy: nothing of regvar but the data.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from regvar import records
from regvar.data import synthetic as data
from regvar.experiments import pipeline, synthetic
from regvar.experiments.synthetic.problem import Problem
from regvar.experiments.synthetic.study import run
from regvar.records import Record
from tests.experiments.dense import CONFIG, CURVED, SEED, TASK, Oracle, evaluation, scores


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Record]:
    directory = tmp_path_factory.mktemp("records")
    study = synthetic.experiment(CONFIG)
    tally = pipeline.build(study, directory, cells=[TASK], seeds=[SEED])
    assert tally.built == len(study.methods) == 10
    return {record.method: record for record in records.read(directory)}


@pytest.fixture(scope="module")
def problem() -> Problem:
    return synthetic.experiment(CONFIG).prepare(TASK, SEED)


@pytest.fixture(scope="module")
def oracle(problem: Problem) -> Oracle:
    theta = torch.cat([p.detach().reshape(-1) for p in problem.joint.model.parameters()])
    return Oracle(theta, problem.sigma2)


def test_the_observation_variance_is_the_validation_sets_choice(
    found: dict[str, Record],
) -> None:
    """Each network of the sweep, trained again by plain Adam on −L/n."""
    x, y = data.task(TASK).draw(SEED)
    x_held, y_held = data.task(TASK).draw(SEED, "validation")
    nll = []
    for sigma2 in CONFIG.sigma2:
        torch.manual_seed(SEED)
        layers = nn.Linear(1, CONFIG.hidden), nn.Tanh(), nn.Linear(CONFIG.hidden, 1)
        net = nn.Sequential(*layers).double()
        adam = torch.optim.Adam(net.parameters(), lr=0.005)
        for _ in range(CONFIG.adam_epochs):
            adam.zero_grad()
            loss = 0.5 * (net(x) - y).square().sum() / sigma2
            loss = loss + sum(p.square().sum() for p in net.parameters()) / 6.0
            (loss / len(x)).backward()
            adam.step()
        with torch.no_grad():
            fit = net(x_held)
        nll.append(-stats.norm.logpdf(y_held, fit, math.sqrt(sigma2)).mean())
    for record in found.values():
        sweep = record.extra["sigma2_sweep"]
        assert sweep["sigma2"] == list(CONFIG.sigma2)
        assert sweep["nll"] == pytest.approx(nll, rel=1e-6)
        assert record.extra["sigma2"] == CONFIG.sigma2[int(np.argmin(nll))]


def test_the_network_is_at_a_strict_maximum(problem: Problem, oracle: Oracle) -> None:
    gradient = torch.func.grad(oracle.log_joint)(oracle.theta)
    pull = oracle.theta / 3.0  # the prior's part, which the data's cancels
    assert float(gradient.norm() / pull.norm()) < 1e-9
    assert float(torch.linalg.eigvalsh(oracle.hessian)[0]) > 0
    assert problem.fit.stationarity < 1e-9 and problem.fit.converged


@pytest.mark.parametrize(
    "method",
    [*CURVED, "pointwise", "map_only", "temperature", "amortized_eval", "amortized_in_sample"],
)
def test_scores_are_those_of_dense_algebra_and_scipy(
    method: str, found: dict[str, Record], problem: Problem, oracle: Oracle
) -> None:
    record = found[method]
    amortized = method.startswith("amortized")
    if amortized:  # the paper's refit at λ = 10⁻⁴ has an error of that order
        record = small_lam(method, problem)
    tolerance = 1e-3 if amortized else 1e-6
    for split in ("id", "ood"):
        x, y = data.task(TASK).draw(SEED, split)
        mean = oracle.output(oracle.theta, x).numpy()
        variance = oracle.variance(method, x).numpy()
        for suffix, scale in (("", 1.0), ("/calibrated", record.extra["scale"])):
            naive = scores(mean, scale * variance + oracle.sigma2, y[:, 0].numpy())
            for name, each in naive.items():
                estimate = record.metrics[split + suffix][name]
                assert estimate["value"] == pytest.approx(each.mean(), abs=tolerance)
                assert estimate["count"] == len(y)
                error = each.std(ddof=0 if name == "PICP" else 1) / math.sqrt(len(y))
                assert estimate["standard_error"] == pytest.approx(error, abs=tolerance)


def small_lam(method: str, problem: Problem) -> Record:
    outcome = run(replace(problem, config=replace(CONFIG, lam=(1e-4,))), method)
    metrics = {s: {k: vars(e) for k, e in m.items()} for s, m in outcome.metrics.items()}
    return replace(_EMPTY, metrics=metrics, extra=outcome.extra)


_EMPTY = Record("", "", "", 0, {}, "", {}, {}, {}, 0.0, {}, "", 1)


@pytest.mark.parametrize("method", [*CURVED, "pointwise"])
def test_bands_are_the_dense_ones(method: str, found: dict[str, Record], oracle: Oracle) -> None:
    held = found[method].extra["bands"]
    x = torch.linspace(-2.5, 3.0, 17, dtype=torch.float64)[:, None]
    assert held["x"] == pytest.approx(x[:, 0].tolist(), rel=1e-5)
    assert held["mean"] == pytest.approx(oracle.output(oracle.theta, x).tolist(), rel=1e-5)
    std = oracle.variance(method, x).sqrt()
    assert held["std"] == pytest.approx(std.tolist(), rel=1e-5)


def test_sampled_is_within_its_stated_error_of_the_ggn(
    found: dict[str, Record], oracle: Oracle
) -> None:
    """Variances are χ² means of K draws: relative standard error √(2/K) at every input."""
    x = torch.tensor(found["sampled"].extra["bands"]["x"], dtype=torch.float64)[:, None]
    variance = np.square(found["sampled"].extra["bands"]["std"])
    ratio = variance / oracle.variance("ggn", x).numpy()
    low, high = stats.chi2.ppf([1e-4, 1 - 1e-4], CONFIG.samples) / CONFIG.samples
    assert (low < ratio).all() and (ratio < high).all()
    gap = (
        found["sampled"].metrics["ood"]["NLL"]["value"]
        - (found["ggn"].metrics["ood"]["NLL"]["value"])
    )
    assert abs(gap) < math.sqrt(2 / CONFIG.samples)  # |d NLL / d log variance| is at most about 1


@pytest.mark.parametrize("method", ["amortized_eval", "amortized_in_sample"])
def test_lam_is_the_validation_sets_choice(
    method: str, found: dict[str, Record], oracle: Oracle
) -> None:
    extra = found[method].extra
    assert extra["lam_sweep"]["lam"] == list(CONFIG.lam)
    assert extra["lam"] == CONFIG.lam[int(np.argmin(extra["lam_sweep"]["nll"]))]
    x, y = data.task(TASK).draw(SEED, "validation")
    mean = oracle.output(oracle.theta, x).numpy()
    variance = oracle.variance(method, x).numpy() + oracle.sigma2
    limit = scores(mean, variance, y[:, 0].numpy())["NLL"].mean()
    assert extra["lam_sweep"]["nll"][0] == pytest.approx(limit, abs=1e-3)


@pytest.mark.parametrize("method", ["ggn", "eigenvectors", "pointwise", "temperature"])
def test_the_scale_is_the_best_for_validation(
    method: str, found: dict[str, Record], oracle: Oracle
) -> None:
    x, y = data.task(TASK).draw(SEED, "validation")
    mean, variance = oracle.output(oracle.theta, x), oracle.variance(method, x)

    def nll(scale: float) -> float:
        sd = (scale * variance + oracle.sigma2).sqrt()
        return -stats.norm.logpdf(y[:, 0], mean, sd).mean()

    scale = found[method].extra["scale"]
    grid = np.concatenate([[0.0], np.geomspace(1e-8, 1e8, 2001)])
    assert nll(scale) <= min(nll(s) for s in grid) + 1e-7


@pytest.mark.parametrize("method", ["exact_hessian", "eigenvectors", "pointwise"])
def test_the_audit_is_a_rank_correlation_with_the_ggn(
    method: str, found: dict[str, Record], oracle: Oracle
) -> None:
    held = found[method].extra["audit"]
    estimate, truth = (oracle.variance(m, evaluation()) for m in (method, "ggn"))
    assert held["points"] == len(evaluation()) == 77
    rank = stats.spearmanr(estimate, truth).statistic
    assert held["rank_correlation"] == pytest.approx(rank, abs=1e-6)
    assert held["scale"] == pytest.approx(float(np.median(estimate / truth)), rel=1e-6)


def test_what_is_constant_has_no_rank(found: dict[str, Record]) -> None:
    for method in ("map_only", "temperature"):
        assert found[method].extra["audit"]["rank_correlation"] is None
        assert found[method].extra["solution"] is None


@pytest.mark.parametrize("method", [*CURVED, "parameter"])
def test_parameters_and_sparse_networks(
    method: str, found: dict[str, Record], oracle: Oracle
) -> None:
    extra = found[method].extra
    theta = oracle.theta
    if method == "parameter":
        variance = torch.linalg.solve(oracle.hessian, theta.sign()).abs()
    else:
        variance = oracle.inverse(method).diagonal()
    std = variance.sqrt()
    tolerance = {"parameter": 5e-3, "eigenvectors": 1e-5}.get(method, 1e-6)
    index = extra["parameters"]["index"]
    assert len(set(index)) == 9 and index == found["ggn"].extra["parameters"]["index"]
    assert extra["parameters"]["theta"] == pytest.approx(theta[index].tolist(), rel=1e-6)
    assert extra["parameters"]["std"] == pytest.approx(std[index].tolist(), rel=tolerance)
    keep = theta.abs() > std
    assert extra["sparsity"]["zeroed"] == int((~keep).sum())
    for split in ("id", "ood"):
        x, y = data.task(TASK).draw(SEED, split)
        dense = (oracle.output(theta, x) - y[:, 0]).abs().mean()
        sparse = (oracle.output(theta * keep, x) - y[:, 0]).abs().mean()
        assert extra["sparsity"][f"dense_{split}"] == pytest.approx(float(dense), rel=1e-6)
        assert extra["sparsity"][split] == pytest.approx(float(sparse), rel=1e-6)


def test_algorithm_3_makes_no_predictions(found: dict[str, Record]) -> None:
    record = found["parameter"]
    assert record.metrics == {} and "bands" not in record.extra
    assert record.extra["lam"] == CONFIG.parameter_lam


def test_the_same_seed_gives_the_same_record(found: dict[str, Record], problem: Problem) -> None:
    for method in ("sampled", "amortized_eval"):
        again = run(problem, method)
        for split, metrics in again.metrics.items():
            for name, estimate in metrics.items():
                assert estimate.value == found[method].metrics[split][name]["value"]


def test_methods_leave_the_network_as_it_was(problem: Problem) -> None:
    before = {k: v.clone() for k, v in problem.joint.model.state_dict().items()}
    for method in ("amortized_eval", "parameter", "sampled", "exact_hessian"):
        run(problem, method)
    after = problem.joint.model.state_dict()
    assert all(torch.equal(v, after[k]) for k, v in before.items())


def test_the_reduced_study_has_all_methods() -> None:
    small, whole = synthetic.reduced(), synthetic.experiment()
    assert small.methods == whole.methods
    assert set(small.cells) < set(whole.cells) and small.seeds == (0,)
    assert all(small.configs[cell] != whole.configs[cell] for cell in small.cells)


def test_every_record_is_on_the_page(found: dict[str, Record], tmp_path: Path) -> None:
    from regvar import report

    page = synthetic.experiment(CONFIG).page(list(found.values()))
    text = report.write(page, tmp_path).read_text(encoding="utf-8")
    assert "Quadratic-Inbetween" in text
