"""Effective features against the Jacobian by autograd, and refusals of what is no linear head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regvar
from regvar.baselines.head import Head, read
from regvar.baselines.head_finding import find
from regvar.network import Network
from tests.contracts.networks import CASES, NetworkCase, normal
from tests.contracts.snapshots import (
    differences,
    global_state,
    lived_in,
    network_state,
    set_switches,
)

from . import head_alone
from .head_alone import HEADS

every_network = pytest.mark.parametrize("network", CASES, ids=lambda case: case.name)


def dense(head: Head, features: Tensor, outputs: Tensor, layer: Any) -> Tensor:
    """∂f / ∂(W, b) as a matrix with the parameters in their own order, from φ̃."""
    classes = head.classes
    eye = torch.eye(classes, dtype=features.dtype)
    width = layer.weight[0].numel()
    weight = torch.einsum("qd,ce->qced", features[:, :width], eye).flatten(2)
    parts = [weight]
    if layer.bias is not None:
        parts.append(features[:, -1:, None] * eye)
    rows = torch.cat(parts, 2)
    number = head.unrows(torch.arange(len(features) * classes).reshape(-1, classes), outputs)
    return rows.flatten(0, 1)[number.flatten()]


def by_autograd(model: nn.Module, name: str, run: Callable[[nn.Module], Tensor]) -> Tensor:
    alone = head_alone.head_alone(model, name)
    leaves = list(alone.get_submodule(name).parameters())
    rows = [
        torch.cat([g.flatten() for g in torch.autograd.grad(f, leaves, retain_graph=True)])
        for f in run(alone).flatten()
    ]
    return torch.stack(rows)


def seen(model: nn.Module, x: Any, name: str | None = None) -> tuple[Head, Tensor, Tensor]:
    """The head found, f and the dense Jacobian made of φ̃."""
    network = Network(model)
    with torch.no_grad(), network.guard():
        head = find(network, x, name)
        reading = read(network, head, x)
    return (
        head,
        reading.outputs,
        dense(head, reading.features, reading.outputs, head.layer(network)),
    )


@every_network
def test_features_are_the_jacobian(network: NetworkCase) -> None:
    model, batch = network.model(), network.query_batch()
    own = Network(model, network.forward)
    with torch.no_grad(), own.guard():
        head = find(own, network.data()[0])
        reading = read(own, head, batch)
        plain = own.outputs(batch)
    assert head.name == HEADS[network.name]
    assert torch.equal(reading.outputs, plain)
    actual = dense(head, reading.features, reading.outputs, head.layer(own))
    expected = head_alone.jacobian(network)
    torch.testing.assert_close(actual, expected, rtol=0, atol=network.rounding)


class Around(nn.Module):
    """A head with something after it."""

    def __init__(self, after: Callable[[Tensor, Tensor], Tensor], classes: int = 3) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Linear(4, 5)
        self.head = nn.Linear(5, classes)
        self.side = nn.Linear(4, 2)
        self.after = after
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        h = self.head(torch.tanh(self.body(x)))
        self.side(x)  # runs last, and the outputs do not depend on it
        return self.after(h, x)


AFTER = {
    "mean over places": lambda h, x: h.mean(1),
    "weighted by the input": lambda h, x: (h * x[..., :1].softmax(1)).sum(1),
    "negative weights": lambda h, x: (h * torch.tensor([1.0, -2.0, 0.0, 3.0, -0.5])[:, None]).sum(
        1
    ),
    "the last place": lambda h, x: h[:, -1],
    "without the first place": lambda h, x: h[:, 1:],
    "in another order": lambda h, x: h.flip(1),
    "only some of all places": lambda h, x: h[x[..., 0] > 0],
    "pairs of places": lambda h, x: h[:, :4].unflatten(1, (2, 2)).sum(2),
    "a skip connection": lambda h, x: h + x[..., :3].sin(),
    "unscaled targets": lambda h, x: 20.0 * h.mean(1) + 1000.0,
    "classes first": lambda h, x: h.movedim(-1, 1),
    "changed in place": lambda h, x: h.mul_(3.0),
}


@pytest.mark.parametrize("after", AFTER)
def test_what_follows_the_head_is_read_off(after: str) -> None:
    model, x = Around(AFTER[after]), normal(40, 5, 4, seed=1)
    head, outputs, actual = seen(model, x)
    assert head.name == "head"
    assert torch.equal(outputs, model(x).detach())
    torch.testing.assert_close(
        actual, by_autograd(model, "head", lambda m: m(x)), rtol=1e-10, atol=1e-12
    )


def test_outputs_without_a_class_dimension() -> None:
    model, x = Around(lambda h, x: h.squeeze(-1), classes=1), normal(7, 4, seed=1)
    _, outputs, actual = seen(model, x)
    assert outputs.shape == (7,)
    torch.testing.assert_close(actual, by_autograd(model, "head", lambda m: m(x)))


class Twice(nn.Module):
    """One head on two views of the input, whose scores are subtracted: a reward model's margin."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = nn.Linear(4, 5), nn.Linear(5, 2)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        first, second = (self.head(self.body(part).tanh()) for part in (x, x.flip(1)))
        return first - 0.5 * second


def test_a_head_that_runs_twice() -> None:
    model, x = Twice(), normal(6, 4, seed=1)
    _, _, actual = seen(model, x)
    torch.testing.assert_close(actual, by_autograd(model, "head", lambda m: m(x)))


@pytest.mark.parametrize("pooled", [False, True])
def test_a_convolution_is_linear_in_its_patches(pooled: bool) -> None:
    torch.manual_seed(0)
    layer = nn.Conv2d(2, 3, (2, 3), stride=(1, 2), padding=(1, 0), dilation=(2, 1))
    last = [nn.AdaptiveAvgPool2d(1), nn.Flatten()] if pooled else []
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.Tanh(), layer, *last).double()
    x = normal(4, 1, 5, 7, seed=1)
    head, outputs, actual = seen(model, x)
    assert head.name == "2"
    assert torch.equal(outputs, model(x).detach())
    torch.testing.assert_close(actual, by_autograd(model, "2", lambda m: m(x)))


def test_half_precision_counts_rows_rightly() -> None:
    model, x = Around(AFTER["without the first place"]), normal(70, 5, 4, seed=1)
    _, _, exact = seen(model, x)
    head, _, actual = seen(model.to(torch.bfloat16), x.bfloat16())
    assert actual.dtype is torch.float32 and head.name == "head"
    torch.testing.assert_close(actual.double(), exact, rtol=0, atol=0.05)


CAPPED: Callable[[Tensor, Tensor], Tensor] = lambda h, x: 30 * torch.tanh(h / 30)  # noqa: E731
REFUSED = {
    "a cap": (CAPPED, "differently, as functions that are not linear do"),
    "the largest place": (lambda h, x: h.amax(1), "differently|in another way"),
    "differences of places": (lambda h, x: h[:, 1:] - h[:, :-1], "in another way"),
    "a scale per class": (lambda h, x: h * torch.arange(1.0, 4.0), "differently"),
    "mixed classes": (lambda h, x: h.cumsum(-1), "differently"),
    "another shape": (lambda h, x: h[..., :2], "shape|differently"),
}


@pytest.mark.parametrize("after", REFUSED)
def test_what_is_not_linear_in_the_head_is_refused(after: str) -> None:
    function, reason = REFUSED[after]
    model = Around(function)
    with pytest.raises(regvar.errors.ModelError, match=reason) as error:
        seen(model, normal(8, 5, 4, seed=1))
    assert "'head'" in str(error.value) and "Pass head=" in str(error.value)


def test_another_layer_can_be_named_and_must_fit() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Identity(), nn.Linear(3, 3)).double()
    x = normal(5, 4, seed=1)
    with pytest.raises(regvar.errors.ModelError, match="differently"):
        seen(model, x, "0")
    with pytest.raises(regvar.errors.ArgumentError, match=r"'1' does not.*\['0', '2'\]"):
        seen(model, x, "1")
    with pytest.raises(regvar.errors.ModelError, match=r"must have an nn\.Linear"):
        seen(nn.Sequential(nn.Flatten(), nn.ReLU()), x)


def test_a_layer_that_computes_more_is_refused() -> None:
    class Scaled(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return 2 * super().forward(input)

    with pytest.raises(regvar.errors.ModelError, match="computes more"):
        seen(nn.Sequential(Scaled(4, 3)).double(), normal(5, 4, seed=1))
    with pytest.raises(regvar.errors.ModelError, match="groups=1"):
        seen(nn.Sequential(nn.Conv2d(2, 2, 1, groups=2)).double(), normal(5, 2, 3, 3, seed=1))


@every_network
def test_looking_leaves_no_trace(network: NetworkCase) -> None:
    set_switches()
    model = lived_in(network.model())
    own = Network(model, network.forward)
    before, world = network_state(model), global_state()
    with torch.no_grad(), own.guard():
        read(own, find(own, network.data()[0]), network.query_batch())
    assert differences(before, network_state(model)) == []
    assert differences(world, global_state()) == []


def test_an_exception_leaves_no_trace() -> None:
    def fail(h: Tensor, x: Tensor) -> Tensor:
        if h.requires_grad:
            raise ArithmeticError
        return h

    model = lived_in(Around(fail))
    before = network_state(model)
    with pytest.raises(ArithmeticError):
        seen(model, normal(3, 4, seed=1))
    assert differences(before, network_state(model)) == []
