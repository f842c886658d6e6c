"""Point estimates and drift, against networks copied and trained by hand."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import regvar
from regvar import baselines
from tests.oracles.cases import Case, at_map, untrained
from tests.oracles.densities import log_likelihood
from tests.oracles.front_door import log_joint
from tests.oracles.networks import TanhNet

CASE = Case(TanhNet, "gaussian")
LR, EPOCHS = 0.05, 3


def normed() -> nn.Module:
    """A network with buffers and a frozen layer, in float64."""
    torch.manual_seed(0)
    layers = (
        nn.Linear(2, 4, bias=False),
        nn.BatchNorm1d(4),
        nn.Tanh(),
        nn.Linear(4, 3),
        nn.Linear(3, 1),
    )
    model = nn.Sequential(*layers).double().eval()
    model[3].requires_grad_(False)
    return model


def fine_tuned(model: nn.Module) -> nn.Module:
    """The same after some training, which moves parameters and running statistics."""
    model = copy.deepcopy(model)
    x = torch.randn(16, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    model.train()
    for _ in range(3):
        optimizer.zero_grad()
        (model(x) - x[:, :1]).square().mean().backward()
        optimizer.step()
    optimizer.zero_grad()
    return model.eval()


def joint(model: nn.Module) -> regvar.LogJoint:
    x = torch.randn(6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    return regvar.LogJoint(
        model,
        [(x, x[:, :1])],
        likelihood=regvar.Gaussian(sigma=1.0),
        prior=regvar.GaussianPrior(precision=1.0),
    )


QUERIES = torch.tensor([[0.3, -1.0], [2.0, 0.5]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("fit", "constant"), [(baselines.map_only, 0.0), (baselines.temperature, 1.0)]
)
def test_the_network_itself_with_a_constant_variance(fit: object, constant: float) -> None:
    problem = at_map(CASE)
    moments = fit(log_joint(problem)).moments(problem.queries)
    assert torch.equal(moments.mean, problem.model(problem.queries))
    assert torch.equal(moments.variance, torch.full_like(moments.mean, constant))
    half = copy.deepcopy(problem.model).to(torch.bfloat16)
    batches = [(x.bfloat16(), y.bfloat16()) for x, y in problem.batches]
    small = regvar.LogJoint(
        half, batches, likelihood=regvar.Gaussian(sigma=1.0), prior=regvar.GaussianPrior(1.0)
    )
    assert fit(small).moments(problem.queries.bfloat16()).variance.dtype is torch.float32


@pytest.mark.parametrize("form", ["module", "state dict"])
def test_the_pretrained_network_comes_back_to_the_bit(form: str, tmp_path: Path) -> None:
    old = normed()
    new = fine_tuned(old)
    expected = old(QUERIES).detach()
    given = old if form == "module" else {k: v.clone() for k, v in old.state_dict().items()}
    log = joint(new)
    uq = baselines.pretrained(log, given)
    del given
    now = copy.deepcopy(new.state_dict())
    moments = uq.moments(QUERIES)
    assert torch.equal(moments.mean, expected)
    assert not torch.equal(moments.mean, new(QUERIES))
    assert torch.equal(moments.variance, torch.zeros_like(expected))
    assert all(torch.equal(v, now[k]) for k, v in new.state_dict().items())
    assert set(uq.weights) == {
        *("0.weight", "1.weight", "1.bias", "4.weight", "4.bias"),
        *("1.running_mean", "1.running_var", "1.num_batches_tracked"),
    }  # and no more: layer 3 is frozen
    regvar.save(uq, tmp_path)
    assert torch.equal(regvar.load(tmp_path, joint(new)).moments(QUERIES).mean, expected)


def test_the_pretrained_network_is_no_view_of_the_one_handed_over() -> None:
    old = normed()
    uq = baselines.pretrained(joint(fine_tuned(old)), old)
    expected = old(QUERIES).detach()
    with torch.no_grad():
        old[0].weight.zero_()
    assert torch.equal(uq.moments(QUERIES).mean, expected)


def test_another_network_is_refused() -> None:
    log = joint(normed())
    with pytest.raises(regvar.RegvarError, match=r"'0\.weight' is missing.*deepcopy"):
        baselines.pretrained(log, nn.Linear(2, 1))
    state = normed().state_dict()
    state["3.weight"] = torch.zeros(7, 7)
    with pytest.raises(regvar.RegvarError, match=r"'3\.weight' is missing or has another shape"):
        baselines.pretrained(log, state)
    with pytest.raises(regvar.RegvarError, match=r"joint must be a regvar\.LogJoint"):
        baselines.pretrained(normed(), normed())


def trained_on(model: nn.Module, batches: list[tuple[Tensor, Tensor]], n: int) -> nn.Module:
    """Plain SGD on −L/n by hand: sigma 0.6 and prior precision 1, as the case has them."""
    model = copy.deepcopy(model)
    for _ in range(EPOCHS):
        for x, y in batches:
            model.zero_grad()
            fit = log_likelihood("gaussian", model(x), y, 0.6)
            prior = -0.5 * sum(p.square().sum() for p in model.parameters()) / len(batches)
            (-len(batches) / n * (fit + prior)).backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= LR * p.grad
    return model


def test_drift_is_where_training_goes_on_to() -> None:
    problem = untrained(CASE)
    before = copy.deepcopy(problem.model.state_dict())
    log = log_joint(problem)
    solver = regvar.Finetune(lam=7.0, epochs=EPOCHS, lr=LR, optimizer=torch.optim.SGD, paired=True)
    uq = baselines.drift(log, solver)
    assert all(torch.equal(v, before[k]) for k, v in problem.model.state_dict().items())
    x = problem.queries
    further = trained_on(problem.model, problem.batches, len(problem.inputs))(x)
    here = problem.model(x)
    moments = uq.moments(x)
    assert torch.equal(moments.mean, here)
    torch.testing.assert_close(moments.variance, (further - here).abs(), rtol=1e-9, atol=1e-12)
    assert uq.solution.converged
    assert uq.solution.iterations == EPOCHS


def test_drift_is_the_control_of_a_refit() -> None:
    """`amortized` less its control is the paper's difference less the drift, signs and all."""
    problem = untrained(CASE)
    settings = {"lam": 0.5, "epochs": 2, "lr": LR, "optimizer": torch.optim.SGD}
    log, x = log_joint(problem), problem.queries
    quiet = regvar.Finetune(**settings, measure_residual=False)
    plain = regvar.amortized(log, solver=quiet)
    held = regvar.amortized(log, solver=replace(quiet, control=True))
    drift = baselines.drift(log, regvar.Finetune(**settings))
    for name, move in drift.displacement.delta.items():
        both = plain.displacement.delta[name] - held.displacement.delta[name]
        torch.testing.assert_close(move, 0.5 * both, rtol=1e-9, atol=1e-12)
    assert float(drift.moments(x).variance.min()) > 0


def test_drift_that_diverges_is_announced_and_other_solvers_are_refused() -> None:
    problem = untrained(CASE)
    before = copy.deepcopy(problem.model.state_dict())
    wild = regvar.Finetune(lr=1e308, optimizer=torch.optim.SGD, full_batch=True)
    with pytest.warns(regvar.SolverWarning, match="lower lr"):
        uq = baselines.drift(log_joint(problem), wild)
    assert uq.solution.status is regvar.Status.DIVERGED
    assert all(torch.equal(v, before[k]) for k, v in problem.model.state_dict().items())
    with pytest.raises(regvar.RegvarError, match="solver of drift must be Finetune"):
        baselines.drift(log_joint(problem), regvar.ConjugateGradient())
