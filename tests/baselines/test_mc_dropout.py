"""Dropout passes against sub-networks built by hand: copied, edited and averaged in a loop."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence

import regvar
from regvar import baselines

PASSES, RATE = 6, 0.3


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def joint(model: nn.Module, x: object, y: Tensor) -> regvar.LogJoint:
    return regvar.LogJoint(
        model,
        [(x, y)],
        likelihood=regvar.Gaussian(sigma=1.0),
        prior=regvar.GaussianPrior(precision=1.0),
    )


def mlp() -> nn.Sequential:
    torch.manual_seed(0)
    layers = nn.Linear(3, 40), nn.Tanh(), nn.Linear(40, 30), nn.Tanh(), nn.Linear(30, 2)
    return nn.Sequential(*layers).double()


def keyed(seed: int, index: int, place: int, size: int) -> Tensor:
    """Factors 0 or 1/(1 − rate) as the documented stream of (seed, pass, place) gives them."""
    from regvar import noise

    generator = noise.generator((seed, index, place), -1)
    uniform = torch.rand(size, generator=generator, dtype=torch.float64)
    return torch.where(uniform < RATE, 0.0, 1 / (1 - RATE))


def test_moments_are_those_of_networks_with_edited_weights() -> None:
    """Dropping a feature of a layer's input is scaling a column of its weight."""
    model, x = mlp(), normal(7, 3)
    uq = baselines.mc_dropout(joint(model, x, x[:, :2]), rate=RATE, passes=PASSES, seed=5)
    assert uq.places == ("2", "4")
    outputs = []
    for index in range(PASSES):
        edited = mlp()
        with torch.no_grad():
            edited[2].weight.mul_(keyed(5, index, 0, 40))
            edited[4].weight.mul_(keyed(5, index, 1, 30))
            outputs.append(edited(x))
    stacked = torch.stack(outputs)
    moments = uq.moments(x)
    torch.testing.assert_close(moments.mean, stacked.mean(0), rtol=1e-12, atol=1e-14)
    exact = stacked.var(0, correction=0)
    torch.testing.assert_close(moments.variance, exact, rtol=1e-10, atol=1e-14)
    torch.testing.assert_close(uq.draws(x), stacked, rtol=1e-12, atol=1e-14)


def test_masks_have_the_rate_and_are_independent_between_passes_and_places() -> None:
    torch.manual_seed(1)
    wide = nn.Sequential(nn.Linear(1, 4000), nn.Linear(4000, 4000), nn.Linear(4000, 1)).double()
    with torch.no_grad():  # every hidden feature is 1, so that the hooks see the masks themselves
        for layer in wide:
            layer.weight.zero_()
            layer.bias.fill_(1.0)
    x = torch.zeros(2, 1, dtype=torch.float64)
    uq = baselines.mc_dropout(joint(wide, x, x), rate=RATE, passes=3, seed=0)
    found: list[Tensor] = []
    for layer in (wide[1], wide[2]):  # a forward hook sees what the pre-hooks hand on
        layer.register_forward_hook(lambda m, inputs, _: found.append(inputs[0][0]))
    uq.moments(x)
    seen = torch.stack(found)
    assert seen.shape == (6, 4000)
    values = torch.tensor([0.0, 1 / (1 - RATE)], dtype=torch.float64)
    torch.testing.assert_close(seen.unique(), values)
    share = (seen == 0).double().mean(1)
    assert ((share - RATE).abs() < 5 * (RATE * (1 - RATE) / 4000) ** 0.5).all()
    correlation = torch.corrcoef(seen)
    assert (correlation - torch.eye(6)).abs().max() < 5 / 4000**0.5


def test_the_variance_of_a_linear_readout_is_that_of_the_bernoulli() -> None:
    """f = wᵀ(z ⊙ h)/(1 − p): variance p/(1 − p) Σ (w h)², mean wᵀh; 4,000 passes."""
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(2, 9), nn.Tanh(), nn.Linear(9, 1)).double()
    x = normal(4, 2)
    uq = baselines.mc_dropout(joint(model, x, x[:, :1]), rate=RATE, passes=4000, seed=1)
    with torch.no_grad():
        terms = model[1](model[0](x)) * model[2].weight
    exact = RATE / (1 - RATE) * terms.square().sum(1, keepdim=True)
    moments = uq.moments(x)
    assert ((moments.variance / exact - 1).abs() < 0.15).all()
    off = (moments.mean - model(x)).abs() / (exact / 4000).sqrt()
    assert (off < 5).all()


def test_dropout_layers_are_used_where_there_are_any() -> None:
    """At the rate asked for, their own ignored, by feature or by channel."""
    torch.manual_seed(3)
    body = nn.Conv2d(1, 6, 3), nn.Dropout2d(0.9), nn.Flatten(), nn.Dropout(0.0), nn.Linear(24, 2)
    model = nn.Sequential(*body).double().eval()
    x = normal(5, 1, 4, 4)
    uq = baselines.mc_dropout(joint(model, x, normal(5, 2)), rate=RATE, passes=PASSES, seed=2)
    assert uq.places == ("1", "3")
    outputs = []
    with torch.no_grad():
        for index in range(PASSES):
            h = model[0](x) * keyed(2, index, 0, 6)[:, None, None]
            outputs.append(model[4](h.flatten(1) * keyed(2, index, 1, 24)))
    stacked = torch.stack(outputs)
    moments = uq.moments(x)
    torch.testing.assert_close(moments.mean, stacked.mean(0), rtol=1e-10, atol=1e-14)
    torch.testing.assert_close(moments.variance, stacked.var(0, correction=0))


def test_convolutions_drop_channels() -> None:
    torch.manual_seed(4)
    model = nn.Sequential(nn.Conv1d(2, 5, 2), nn.ReLU(), nn.Conv1d(5, 3, 2)).double()
    x = normal(4, 2, 6)
    uq = baselines.mc_dropout(joint(model, x, normal(4, 3, 4)), rate=RATE, passes=PASSES)
    with torch.no_grad():
        hidden = model[1](model[0](x))
        stacked = torch.stack(
            [model[2](hidden * keyed(0, index, 0, 5)[:, None]) for index in range(PASSES)]
        )
    torch.testing.assert_close(uq.moments(x).variance, stacked.var(0, correction=0))


class Recurrent(nn.Module):
    """A projection, a GRU called by keyword, and its last state; plain or packed sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(2, 5)
        self.gru = nn.GRU(5, 3, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.gru(input=self.project(x))[1][0]


class Packed(Recurrent):
    def forward(self, x: Tensor) -> Tensor:
        rows = pack_sequence(list(self.project(x)))
        assert isinstance(rows, PackedSequence)
        return self.gru(rows)[1][0]


@pytest.mark.parametrize("kind", [Recurrent, Packed])
def test_recurrent_layers_drop_the_same_features_at_each_step(kind: type[Recurrent]) -> None:
    torch.manual_seed(5)
    model, x = kind().double(), normal(4, 6, 2)
    uq = baselines.mc_dropout(joint(model, x, normal(4, 3)), rate=RATE, passes=PASSES, seed=8)
    assert uq.places == ("gru",)
    outputs = []
    with torch.no_grad():
        for index in range(PASSES):
            inputs = model.project(x) * keyed(8, index, 0, 5)
            outputs.append(model.gru(inputs)[1][0])
    exact = torch.stack(outputs).var(0, correction=0)
    torch.testing.assert_close(uq.moments(x).variance, exact, rtol=1e-8, atol=1e-14)


def test_statistics_are_streamed_without_cancellation() -> None:
    """Outputs near 10⁸ that differ by some 10⁻²: squares of outputs would lose every digit."""
    model, x = mlp(), normal(3, 3)
    with torch.no_grad():
        model[4].bias.fill_(1e8)
    uq = baselines.mc_dropout(joint(model, x, x[:, :2] + 1e8), rate=RATE, passes=PASSES)
    draws = uq.draws(x) - 1e8
    exact = draws.var(0, correction=0)
    torch.testing.assert_close(uq.moments(x).variance, exact, rtol=1e-5, atol=0)


def test_seeds_storage_and_hooks(tmp_path: Path) -> None:
    model, x = mlp(), normal(4, 3)
    log = joint(model, x, x[:, :2])
    uq = baselines.mc_dropout(log, seed=3)
    moments = uq.moments(x)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert torch.equal(baselines.mc_dropout(log, seed=3).moments(x).variance, moments.variance)
    other = baselines.mc_dropout(log, seed=4).moments(x)
    assert not torch.allclose(other.variance, moments.variance)
    regvar.save(uq, tmp_path)
    again = regvar.load(tmp_path, log)
    assert again.places == uq.places
    assert torch.equal(again.moments(x).variance, moments.variance)


def test_what_cannot_drop_is_refused() -> None:
    x = normal(4, 3)
    linear = joint(nn.Linear(3, 3).double(), x, x)
    with pytest.raises(regvar.RegvarError, match=r"model must have a dropout layer.*nn\.Dropout"):
        baselines.mc_dropout(linear)
    log = joint(mlp(), x, x[:, :2])
    for rate in (0.0, 1.0, -0.1):
        with pytest.raises(regvar.RegvarError, match="rate must be between 0 and 1"):
            baselines.mc_dropout(log, rate=rate)
    with pytest.raises(regvar.RegvarError, match="passes must be at least 2"):
        baselines.mc_dropout(log, passes=1)
