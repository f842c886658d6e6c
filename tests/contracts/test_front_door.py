"""The front door of the issue, line by line, and the paper's Figure 2 in a hand-written loop."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import regvar

from . import by_hand
from .estimators import label
from .networks import CASES, NetworkCase, integers, normal


def classifier() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3)).double()


def linear() -> nn.Module:
    model = nn.utils.skip_init(nn.Linear, 3, 2).double()
    with torch.no_grad():
        model.weight.copy_(normal(2, 3, seed=3))
        model.bias.copy_(normal(2, seed=4))
    return model


def loaders() -> tuple[DataLoader[tuple[Tensor, ...]], DataLoader[tuple[Tensor, ...]], Tensor]:
    """Three clusters to train on, inputs from all around to probe, and a few queries."""
    labels = integers(3, 30, seed=1)
    centers = torch.tensor([[2.0, 0.0], [-1.0, 1.7], [-1.0, -1.7]], dtype=torch.float64)
    inputs = centers[labels] + normal(30, 2, seed=2)
    train = DataLoader(TensorDataset(inputs, labels), batch_size=16, shuffle=True)
    probes = DataLoader(TensorDataset(3 * normal(10, 2, seed=3)), batch_size=5)
    return train, probes, 2 * normal(4, 2, seed=4)


@pytest.mark.filterwarnings("ignore::regvar.SolverWarning")
def test_the_front_door_as_it_is_written(tmp_path: Path) -> None:
    model = classifier()
    train_loader, eval_loader, x = loaders()
    directory, inputs = tmp_path / "uq", 2 * normal(40, 2, seed=5)

    joint = regvar.LogJoint(
        model,
        train_loader,
        likelihood=regvar.Categorical(),
        prior=regvar.GaussianPrior(precision=0.02),
    )
    before = joint.value()
    fit = regvar.fit_map(joint, optimizer=torch.optim.Adam, epochs=20)
    assert joint.value() > before + 1
    assert fit.value == pytest.approx(joint.value())
    gradient = torch.cat([g.flatten() for g in joint.gradient().values()])
    assert fit.gradient_norm == pytest.approx(float(gradient.norm()), rel=1e-6)
    assert str(fit)

    truth = regvar.pointwise(joint, solver=regvar.ConjugateGradient(regvar.GGN()))
    check(truth, x)
    finetune = regvar.Finetune(lam=1.0, epochs=1, lr=1e-3)
    check(regvar.amortized(joint, probes=eval_loader, solver=finetune), x)
    check(regvar.amortized(joint, probes=None, solver=finetune), x)
    solver = regvar.ConjugateGradient(regvar.GGN())
    uq = regvar.sampled(joint, samples=16, solver=solver, seed=0)
    check(uq, x)
    pu = regvar.parameter(joint, solver=solver)
    assert {k: v.shape for k, v in pu.variance.items()} == {
        k: p.shape for k, p in model.named_parameters()
    }

    m = uq.moments(x)
    assert uq.covariance(x, x).shape == (4, 3, 4, 3)
    assert truth.covariance(x[:1], x).shape == (1, 3, 4, 3)
    assert uq.draws(x).shape == (16, 4, 3)
    assert truth.draws(x).shape == (16, 4, 3)
    report = regvar.audit(uq, inputs, points=20)
    assert report.points == 20
    assert report.rank_correlation > 0.5
    assert 0.4 < report.scale < 2.5
    assert len(report.verdict.split()) > 3 and report.verdict in str(report)
    regvar.save(uq, directory)
    uq = regvar.load(directory, joint)
    assert torch.equal(uq.moments(x).variance, m.variance)


def check(uq: Any, x: Tensor) -> None:
    moments = uq.moments(x)
    assert moments.mean.shape == moments.variance.shape == (4, 3)
    assert (moments.variance >= 0).all() and (moments.variance > 0).any()


def test_data_augmentation_as_it_is_written() -> None:
    """In the limit it is the in-sample estimator (App. B)."""
    x, y = normal(12, 3, seed=1), normal(12, 2, seed=2)
    model = linear()
    joint = regvar.LogJoint(
        model,
        [(x[:6], y[:6]), (x[6:], y[6:])],
        likelihood=regvar.Gaussian(sigma=0.5),
        prior=regvar.GaussianPrior(precision=0.1),
    )
    regvar.fit_map(joint, optimizer=lbfgs, epochs=20, full_batch=True)
    solver = regvar.Finetune(lam=0.1, epochs=20, lr=1.0, optimizer=lbfgs, full_batch=True)
    augmented = regvar.data_augmentation(joint, solver=solver).moments(x)
    exact = regvar.amortized(joint, solver=regvar.Direct(regvar.GGN())).moments(x)
    torch.testing.assert_close(augmented.variance, exact.variance, rtol=1e-3, atol=1e-6)
    with pytest.warns(regvar.SolverWarning, match="residual"):  # one epoch of Adam
        short = regvar.data_augmentation(joint, lam=0.1)
    assert short.moments(x).variance.shape == (12, 2)


def lbfgs(parameters: Any, lr: float = 1.0) -> torch.optim.Optimizer:
    exact = {"tolerance_grad": 1e-12, "tolerance_change": 1e-14, "line_search_fn": "strong_wolfe"}
    return torch.optim.LBFGS(parameters, lr=lr, max_iter=50, **exact)


def test_the_penalty_is_the_formula_of_figure_2() -> None:
    outputs = normal(5, 2, 3, seed=1)
    rows = [sum(abs(v) for v in row.flatten().tolist()) for row in outputs]
    expected = 0.7 / 50 * sum(rows) / 5
    assert float(regvar.penalty(outputs, 0.7, 50)) == pytest.approx(expected, rel=1e-12)
    mean = regvar.penalty(outputs, 0.7, 50, mean_over_outputs=True)
    assert float(mean) == pytest.approx(expected / 6, rel=1e-12)
    leaf = outputs.clone().requires_grad_()
    regvar.penalty(leaf, 0.7, 50).backward()
    assert leaf.grad is not None
    torch.testing.assert_close(leaf.grad, 0.7 / 50 / 5 * outputs.sign())


def test_figure_2_in_a_hand_written_loop() -> None:
    """Refit by hand with the penalty: the two networks make the amortized, in-sample answer."""
    x, y, n, lam = normal(12, 3, seed=1), normal(12, 2, seed=2), 12, 0.1
    model = linear()

    def log_prior(theta: nn.Module) -> Tensor:
        return -0.5 * 0.1 * sum((p**2).sum() for p in theta.parameters())

    def train(theta: nn.Module, lam: float) -> None:
        optimizer = torch.optim.SGD(theta.parameters(), lr=0.1)
        for _ in range(400):
            for batch in (slice(0, 6), slice(6, 12)):
                f = theta(x[batch])
                loss = 0.5 * ((f - y[batch]) / 0.5).square().sum() / 6 - log_prior(theta) / n
                if lam:
                    loss = loss + regvar.penalty(f, lam, n)
                loss.backward()
            for p in theta.parameters():
                p.grad /= 2  # the mean over the two batches: the whole sum
            optimizer.step()
            optimizer.zero_grad()

    train(model, 0.0)
    refitted = copy.deepcopy(model)
    train(refitted, lam)
    query = normal(4, 3, seed=9)
    moments = regvar.from_refit(model, refitted, lam).moments(query)
    by_hand = (refitted(query) - model(query)).detach().abs() / lam
    torch.testing.assert_close(moments.variance, by_hand, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(moments.mean, model(query).detach())
    joint = regvar.LogJoint(
        model,
        [(x, y)],
        likelihood=regvar.Gaussian(sigma=0.5),
        prior=regvar.GaussianPrior(precision=0.1),
    )
    exact = regvar.amortized(joint, solver=regvar.Direct(regvar.GGN())).moments(query)
    torch.testing.assert_close(moments.variance, exact.variance, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("network", CASES, ids=label)
def test_the_log_joint_is_equation_2(network: NetworkCase) -> None:
    model, joint = network.model(), network.joint()
    batch, theta = network.data(size=5)[0], by_hand.trainable(model)
    likelihood, size = by_hand.log_likelihood(network, network.output(model, batch), batch)
    total = likelihood + by_hand.log_prior(theta)
    assert joint.size == size
    assert joint.value() == pytest.approx(float(total.detach()), rel=1e-6)
    assert joint.parameters.keys() == theta.keys()
    names = dict(joint.model.named_parameters())
    assert all(p is names[k] for k, p in joint.parameters.items())
    grads = torch.autograd.grad(total, list(theta.values()))
    gradient = joint.gradient()
    for name, expected in zip(theta, grads, strict=True):
        torch.testing.assert_close(gradient[name], expected, rtol=1e-5, atol=1e-6)
