"""`fit_map` against closed forms and a plain training loop; what it leaves behind."""

from __future__ import annotations

import random
import warnings
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import regvar
from regvar.errors import RegvarError

SIGMA, PRECISION = 0.5, 2.0


def rows(seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(12, 3, generator=generator, dtype=torch.float64)
    return x, x[:, :1] - 0.3 * torch.randn(12, 1, generator=generator, dtype=torch.float64)


def network(dropout: float = 0.0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        layers = nn.Linear(3, 4), nn.Tanh(), nn.Dropout(dropout), nn.Linear(4, 1)
        return nn.Sequential(*layers).double()


def joint_of(model: nn.Module, batch: int = 5) -> regvar.LogJoint:
    return regvar.LogJoint(
        model,
        DataLoader(TensorDataset(*rows()), batch_size=batch, shuffle=True),
        likelihood=regvar.Gaussian(sigma=SIGMA),
        prior=regvar.GaussianPrior(precision=PRECISION),
    )


def weights(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_of_a_linear_network_it_is_ridge_regression() -> None:
    model = nn.Linear(3, 1, bias=False).double()
    exactly = partial(torch.optim.LBFGS, tolerance_grad=0, tolerance_change=0)
    fit = regvar.fit_map(joint_of(model), exactly, epochs=20, lr=1.0, full_batch=True)
    x, y = rows()
    exact = torch.linalg.solve(x.T @ x / SIGMA**2 + PRECISION * torch.eye(3), x.T @ y / SIGMA**2)
    torch.testing.assert_close(model.weight.detach(), exact.T, rtol=1e-6, atol=1e-8)
    assert fit.stationarity < 1e-5
    prior = PRECISION * float(exact.norm())
    assert fit.prior_gradient_norm == pytest.approx(prior, rel=1e-5)
    assert fit.data_gradient_norm == pytest.approx(prior, rel=1e-4)  # they cancel
    assert "stationary" in str(fit)


def test_its_steps_are_those_of_a_plain_loop() -> None:
    """The loss is −L/n, its prior shared out over the N batches of an epoch."""
    ours, plain = network(), network()
    joint = joint_of(ours)
    regvar.fit_map(joint, torch.optim.Adam, epochs=3, lr=1e-2, seed=4)
    optimizer = torch.optim.Adam(plain.parameters(), lr=1e-2)
    for epoch in range(3):
        for x, y in joint.batches(4 + epoch):
            fit = ((plain(x) - y) ** 2).sum() / (2 * SIGMA**2)
            prior = PRECISION / 2 * sum((p**2).sum() for p in plain.parameters())
            optimizer.zero_grad()
            (3 / 12 * (fit + prior / 3)).backward()
            optimizer.step()
    torch.testing.assert_close(weights(ours), weights(plain), rtol=1e-10, atol=1e-12)


def test_the_same_seed_gives_the_same_network_with_dropout_too() -> None:
    found: list[Tensor] = []
    for before, seed in ((1, 7), (2, 7), (1, 8)):
        torch.manual_seed(before)  # what ran earlier in the program must not matter
        model = network(dropout=0.5)
        regvar.fit_map(joint_of(model), torch.optim.Adam, epochs=2, lr=1e-2, seed=seed)
        found.append(weights(model))
    assert torch.equal(found[0], found[1])
    assert not torch.allclose(found[0], found[2], rtol=1e-3)
    bare = network()
    regvar.fit_map(joint_of(bare), torch.optim.Adam, epochs=2, lr=1e-2, seed=7)
    assert not torch.allclose(found[0], weights(bare), rtol=1e-3)  # dropout was live


def test_the_users_random_numbers_go_on_as_if_nothing_had_happened() -> None:
    torch.manual_seed(3)
    random.seed(3)
    expected = torch.rand(2), random.random()
    torch.manual_seed(3)
    random.seed(3)
    regvar.fit_map(joint_of(network(dropout=0.5)), epochs=1)
    assert torch.equal(torch.rand(2), expected[0]) and random.random() == expected[1]


def test_the_network_comes_back_in_eval_mode_without_gradients() -> None:
    model = network(dropout=0.5)
    regvar.fit_map(joint_of(model), epochs=1, lr=1e-2)
    assert not any(module.training for module in model.modules())
    assert all(p.grad is None for p in model.parameters())


def test_training_that_ends_below_where_it_began_is_announced() -> None:
    with pytest.warns(regvar.SolverWarning, match="lower lr"):
        regvar.fit_map(joint_of(network()), torch.optim.SGD, epochs=2, lr=50.0)


def test_beginning_and_end_are_compared_in_eval_mode_with_batch_norm_too() -> None:
    """One step raises L in eval mode, where running means lag, to far below that of train mode."""
    torch.manual_seed(0)
    x = 5.0 + torch.randn(40, 2)
    joint = regvar.LogJoint(
        nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2)),
        [(x, (x[:, 0] > 5).long())],
        likelihood=regvar.Categorical(),
        prior=regvar.GaussianPrior(precision=0.1),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        regvar.fit_map(joint, epochs=1, lr=1e-3)


def test_it_stops_when_an_epoch_no_longer_moves() -> None:
    fit = regvar.fit_map(
        joint_of(network(), batch=12), torch.optim.Adam, epochs=3000, lr=3e-2, tolerance=1e-4
    )
    assert fit.converged and fit.epochs < 3000


def test_a_built_optimizer_is_used_and_has_its_own_learning_rate() -> None:
    ours, other = network(), network()
    optimizer = torch.optim.SGD(ours.parameters(), lr=1e-2)
    regvar.fit_map(joint_of(ours), optimizer, epochs=2)
    regvar.fit_map(joint_of(other), torch.optim.SGD, epochs=2, lr=1e-2)
    assert torch.equal(weights(ours), weights(other))
    with pytest.raises(RegvarError, match="lr must be None with a built optimizer"):
        regvar.fit_map(joint_of(ours), optimizer, epochs=2, lr=1e-2)
    with pytest.raises(RegvarError, match="epochs must be at least 1"):
        regvar.fit_map(joint_of(ours), optimizer, epochs=0)
