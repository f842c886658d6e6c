"""The last-layer ensemble against plain training loops and against copies of the network."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regvar
from regvar.baselines.ensemble import LastLayerEnsemble, last_layer_ensemble
from tests.contracts.networks import BY_NAME, CASES, NetworkCase, integers, normal
from tests.contracts.snapshots import (
    Fuse,
    differences,
    global_state,
    lived_in,
    network_state,
    set_switches,
)

from .head_alone import HEADS, head_alone

every_network = pytest.mark.parametrize("network", CASES, ids=lambda case: case.name)


def untied(model: nn.Module, name: str, weights: dict[str, Tensor]) -> nn.Module:
    """A copy with another head; a tied weight keeps its other role."""
    alone = head_alone(model, name)
    with torch.no_grad():
        for slot, value in weights.items():
            getattr(alone.get_submodule(name), slot).copy_(value)
    return alone


@every_network
@pytest.mark.parametrize("trunk", [False, True])
def test_moments_are_those_of_the_population(network: NetworkCase, trunk: bool) -> None:
    joint = network.joint()
    uq = last_layer_ensemble(joint, heads=3, lr=0.05, trunk=trunk)
    moments = uq.moments(network.query())
    moved = copy.deepcopy(joint.model)
    assert (uq.displacement is not None) == (trunk and network.name != "frozen")  # all but the head
    if uq.displacement is not None:
        assert any(v.abs().max() > 1e-3 for v in uq.displacement.delta.values())
        with torch.no_grad():
            for name, p in moved.named_parameters():
                if name in uq.displacement.delta:
                    p.add_(uq.displacement.delta[name])
    name = HEADS[network.name]
    copies = [untied(moved, name, {s: v[k] for s, v in uq.weights.items()}) for k in range(3)]
    with torch.no_grad():
        outputs = torch.stack([network.output(m, network.query_batch()) for m in copies])
    rounding = max(network.rounding, 1e-10)
    scale = float(outputs.abs().max())
    torch.testing.assert_close(moments.mean, outputs.mean(0), rtol=0, atol=rounding * scale)
    truth = outputs.var(0, correction=0)
    torch.testing.assert_close(moments.variance, truth, rtol=0, atol=rounding * scale**2)
    again = LastLayerEnsemble.unpack(uq.pack(), joint.network, uq.fitted, None, joint)
    assert torch.equal(again.moments(network.query()).variance, moments.variance)
    assert torch.equal(again.moments(network.query()).mean, moments.mean)


class Known(nn.Linear):
    """A layer that begins with known weights."""

    def reset_parameters(self) -> None:
        with torch.no_grad():
            self.weight.copy_(torch.linspace(-1, 1, self.weight.numel()).view_as(self.weight))
            self.bias.copy_(torch.linspace(0, 1, len(self.bias)))


def classifier() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), Known(4, 3)).double()
    with torch.no_grad():
        model[2].weight.normal_()  # the fitted head is another one
    return model


def classes(n: int, seed: int) -> tuple[Tensor, Tensor]:
    return normal(n, 3, seed=seed), integers(3, n, seed=seed + 1)


def plain_training(
    model: nn.Module, data: list[Any], epochs: int, trainable: Callable[[nn.Module], list[Tensor]]
) -> nn.Module:
    """Adam on −(1/n) [N Σ_b log p + log p(θ)], batch by batch, as anyone would write it."""
    model = copy.deepcopy(model)
    model[2].reset_parameters()
    optimizer = torch.optim.Adam(trainable(model), lr=0.02)
    n = sum(len(y) for _, y in data)
    for _ in range(epochs):
        for x, y in data:
            optimizer.zero_grad()
            nll = nn.functional.cross_entropy(model(x), y, reduction="sum")
            prior = sum(0.5 * 1.5 * p.square().sum() for p in model.parameters())
            loss = len(data) / n * (nll + prior / len(data))
            loss.backward()
            optimizer.step()
    return model


@pytest.mark.parametrize("trunk", [False, True])
def test_one_head_is_plain_training(trunk: bool) -> None:
    data = [classes(4, 1), classes(3, 5)]
    prior, likelihood = regvar.GaussianPrior(precision=1.5), regvar.Categorical()
    joint = regvar.LogJoint(classifier(), data, likelihood=likelihood, prior=prior)
    uq = last_layer_ensemble(joint, heads=1, epochs=5, lr=0.02, trunk=trunk)
    trained = plain_training(
        classifier(), data, 5, lambda m: list((m if trunk else m[2]).parameters())
    )
    torch.testing.assert_close(uq.weights["weight"][0], trained[2].weight.detach())
    torch.testing.assert_close(uq.weights["bias"][0], trained[2].bias.detach())
    if uq.displacement is not None:
        delta = uq.displacement.delta
        moved = trained[0].weight.detach() - joint.model[0].weight.detach()
        torch.testing.assert_close(delta["0.weight"], moved)
        assert not delta["2.weight"].any()
    x = normal(5, 3, seed=9)
    moments = uq.moments(x)
    torch.testing.assert_close(moments.mean, trained(x).detach())
    assert not moments.variance.any()


def shares(size: int, seed: int, heads: int = 3, epochs: int = 1) -> Tensor:
    """Which head each of 12 examples has trained: [heads, 12], found out by one-hot inputs."""
    x, y = torch.eye(12).double(), torch.ones(12, 1).double()
    data = [(x[i : i + size], y[i : i + size]) for i in range(0, 12, size)]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Identity(), nn.Linear(12, 1, bias=False)).double()
    likelihood, prior = regvar.Gaussian(sigma=1.0), regvar.LaplacePrior(rate=1e-9)
    joint = regvar.LogJoint(model, data, likelihood=likelihood, prior=prior)
    optimizer = torch.optim.SGD
    still = last_layer_ensemble(joint, heads, epochs=1, lr=1e-12, optimizer=optimizer, seed=seed)
    uq = last_layer_ensemble(joint, heads, epochs=epochs, lr=0.1, optimizer=optimizer, seed=seed)
    return (uq.weights["weight"] - still.weights["weight"])[:, 0].abs() > 1e-6


def test_each_example_trains_one_head_whatever_the_batches() -> None:
    whole = shares(12, seed=0)
    assert torch.equal(whole.sum(0), torch.ones(12, dtype=torch.long))
    assert (whole.sum(1) > 0).all()
    for size in (1, 5):
        assert torch.equal(shares(size, seed=0), whole)
    assert not torch.equal(shares(12, seed=1), whole)
    assert (shares(12, seed=0, epochs=40).sum(0) == 3).all()  # drawn anew in each epoch


def test_a_head_trains_on_its_examples_with_their_share_of_the_prior() -> None:
    """Two steps of SGD, by hand, for each of three heads."""
    x, y = normal(6, 2, seed=1), normal(6, 1, seed=2)
    torch.manual_seed(0)
    model = nn.Linear(2, 1, bias=False).double()
    model = nn.Sequential(model)
    likelihood, prior = regvar.Gaussian(sigma=0.5), regvar.GaussianPrior(precision=3.0)
    data = [(x[:4], y[:4]), (x[4:], y[4:])]
    joint = regvar.LogJoint(model, data, likelihood=likelihood, prior=prior)
    sgd = torch.optim.SGD
    start = last_layer_ensemble(joint, 3, lr=1e-15, optimizer=sgd).weights["weight"]
    uq = last_layer_ensemble(joint, 3, lr=0.1, optimizer=sgd)

    def one_hot(size: int) -> Tensor:
        return shares(size, seed=0)[:, :6]

    mine = one_hot(12)  # the draw of a row depends on its number and the seed alone
    for k in range(3):
        w = start[k, 0].clone()
        for rows in (slice(0, 4), slice(4, 6)):
            own = mine[k, rows]
            residual = (y[rows][own, 0] - x[rows][own] @ w) / 0.25
            gradient = x[rows][own].T @ residual - float(own.sum()) / len(own) * 3.0 * w / 2
            w = w + 0.1 * (2 / 6) * gradient
        torch.testing.assert_close(uq.weights["weight"][k, 0], w)


class Capped(nn.Module):
    """A head whose outputs are capped: not linear in it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = nn.Linear(3, 4), nn.Linear(4, 2)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        return 2 * torch.tanh(self.head(self.body(x).tanh()) / 2)


def test_a_head_that_is_not_linear_runs_whole() -> None:
    x, y = normal(6, 3, seed=1), normal(6, 2, seed=2)
    prior = regvar.GaussianPrior(precision=1.0)
    joint = regvar.LogJoint(Capped(), [(x, y)], likelihood=regvar.Gaussian(sigma=1.0), prior=prior)
    uq = last_layer_ensemble(joint, heads=4, trunk=False)
    assert uq.head is None
    assert uq.heads == 4
    outputs = torch.stack(
        [
            untied(joint.model, "head", {s: v[k] for s, v in uq.weights.items()})(x).detach()
            for k in range(4)
        ]
    )
    moments = uq.moments(x)
    torch.testing.assert_close(moments.mean, outputs.mean(0))
    torch.testing.assert_close(moments.variance, outputs.var(0, correction=0))


@every_network
def test_the_network_is_left_alone(network: NetworkCase) -> None:
    set_switches()
    model = lived_in(network.model())
    fuse = Fuse(model)
    before, world = network_state(model), global_state()
    joint = network.joint(model=model)
    uq = last_layer_ensemble(joint, heads=2, lr=0.1)
    uq.moments(network.query())
    assert differences(before, network_state(model)) == []
    assert differences(world, global_state()) == []
    fuse.arm(10**6)
    last_layer_ensemble(joint, heads=2, lr=0.1)
    for at in (fuse.calls // 2, fuse.calls):
        fuse.arm(at)
        with pytest.raises(ArithmeticError):
            last_layer_ensemble(joint, heads=2, lr=0.1)
        assert differences(before, network_state(model)) == []


@pytest.mark.parametrize("name", ["mlp", "tied", "cnn"])
def test_seeds_and_dtypes(name: str) -> None:
    network = BY_NAME[name]
    x = network.query()
    first, again, other = (
        last_layer_ensemble(network.joint(), heads=3, seed=seed).moments(x) for seed in (4, 4, 5)
    )
    assert torch.equal(first.variance, again.variance)
    assert not torch.allclose(first.variance, other.variance)
    single = last_layer_ensemble(network.joint(torch.float32), heads=3, seed=4)
    moments = single.moments(network.query(torch.float32))
    assert moments.variance.dtype is torch.float32
    torch.testing.assert_close(moments.variance.double(), first.variance, rtol=1e-2, atol=1e-4)


def test_heads_begin_as_the_layer_would() -> None:
    """nn.Linear draws from U(−1/√D, 1/√D): mean 0, variance 1/(3 D)."""
    x = normal(2, 400, seed=1).float()
    model = nn.Sequential(nn.Linear(400, 50))
    joint = regvar.LogJoint(
        model,
        [(x, torch.zeros(2, 50))],
        likelihood=regvar.Gaussian(sigma=1.0),
        prior=regvar.GaussianPrior(precision=1.0),
    )
    weights = last_layer_ensemble(joint, heads=5, lr=1e-12).weights["weight"]
    assert weights.shape == (5, 50, 400)
    assert float(weights.abs().max()) <= 1 / 20 + 1e-6
    assert abs(float(weights.var()) * 1200 - 1) < 0.02
    flat = weights.flatten(1)
    assert float((torch.corrcoef(flat) - torch.eye(5)).abs().max()) < 0.03


def test_refusals() -> None:
    joint = BY_NAME["mlp"].joint()
    for wrong, match in (({"heads": 0}, "heads must be"), ({"epochs": 0}, "epochs must be")):
        with pytest.raises(regvar.errors.ArgumentError, match=match):
            last_layer_ensemble(joint, **wrong)
    normed = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)).double())
    with pytest.raises(regvar.errors.ModelError, match="must own its weight"):
        last_layer_ensemble(BY_NAME["mlp"].joint(model=normed))
    head = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    head[2].requires_grad_(False)
    named = BY_NAME["mlp"].joint(model=head)
    named.prior = regvar.GaussianPrior(precision={"0.weight": 1.0, "0.bias": 1.0})
    with pytest.raises(regvar.errors.ArgumentError, match=r"lacks \['2.bias', '2.weight'\]"):
        last_layer_ensemble(named)
