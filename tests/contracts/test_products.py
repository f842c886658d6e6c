"""J·v and Jᵀ·u on every network: exact, adjoint to each other, and leaving no trace."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

import regvar

from .estimators import label
from .networks import CASES, NetworkCase, count, normal, rows
from .snapshots import differences, global_state, lived_in, network_state, set_switches

every_network = pytest.mark.parametrize("network", CASES, ids=label)
both_precisions = pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32], ids=["float64", "float32"]
)


@pytest.fixture(autouse=True)
def fresh_switches() -> None:
    set_switches()


def direction(joint: regvar.LogJoint) -> dict[str, Tensor]:
    """A fixed direction in the space of the parameters."""
    return {
        name: normal(*p.shape, seed=i, dtype=p.dtype)
        for i, (name, p) in enumerate(joint.parameters.items())
    }


def by_hand(network: NetworkCase, v: dict[str, Tensor], dtype: torch.dtype) -> Tensor:
    """Central differences on two copies of the network, Richardson-extrapolated."""
    batch = network.data(dtype)[0]

    def difference(h: float) -> Tensor:
        ends = []
        for side in (h, -h):
            moved = copy.deepcopy(network.model(dtype))
            with torch.no_grad():
                for name, p in moved.named_parameters():
                    if name in v:
                        p.add_(side * v[name])
                ends.append(network.output(moved, batch))
        return (ends[0] - ends[1]) / (2 * h)

    h = 2e-3 if dtype is torch.float32 or network.rounding > 1e-6 else 1e-4
    return (4 * difference(h / 2) - difference(h)) / 3


@every_network
@both_precisions
def test_products_are_exact(network: NetworkCase, dtype: torch.dtype) -> None:
    joint, batch = network.joint(dtype), network.data(dtype)[0]
    v = direction(joint)
    response = joint.network.jvp(batch, v)
    assert joint.network.mode == "forward"
    assert response.shape == (count(batch), *network.outputs)
    assert not response.requires_grad
    expected = by_hand(network, v, dtype)
    loose = dtype is torch.float32 or network.rounding > 1e-6
    atol = (5e-3 if loose else 1e-7) * float(expected.norm())
    torch.testing.assert_close(response, expected, rtol=0, atol=atol)


@every_network
@both_precisions
def test_products_are_adjoint(network: NetworkCase, dtype: torch.dtype) -> None:
    joint, batch = network.joint(dtype), network.data(dtype)[0]
    v = direction(joint)
    u = normal(count(batch), *network.outputs, seed=77, dtype=dtype)
    forward = joint.network.jvp(batch, v)
    backward = joint.network.vjp(batch, u)
    assert backward.keys() == joint.parameters.keys()
    terms = [(backward[k] * v[k]).flatten() for k in v]
    left, right = (forward * u).double().sum(), torch.cat(terms).double().sum()
    size = float(torch.cat(terms).abs().sum())
    exact = dtype is torch.float64 and network.rounding < 1e-6
    assert float(left) == pytest.approx(float(right), abs=(1e-12 if exact else 1e-4) * size)


@every_network
@both_precisions
def test_central_differences_can_be_forced(network: NetworkCase, dtype: torch.dtype) -> None:
    batch = network.data(dtype)[0]
    exact = network.joint(dtype)
    v = direction(exact)
    forced = regvar.LogJoint(
        network.model(dtype),
        network.data(dtype),
        likelihood=network.likelihood(),
        prior=regvar.GaussianPrior(precision=1.0),
        forward=network.forward,
        jvp=regvar.CentralDifferences(),
    )
    response, expected = forced.network.jvp(batch, v), exact.network.jvp(batch, v)
    assert forced.network.mode == "central"
    loose = dtype is torch.float32 or network.rounding > 1e-6
    atol = (1e-2 if loose else 1e-6) * float(expected.norm())
    torch.testing.assert_close(response, expected, rtol=0, atol=atol)


@every_network
@pytest.mark.parametrize("mode", ["ForwardMode", "CentralDifferences"])
def test_products_leave_no_trace(network: NetworkCase, mode: str) -> None:
    model = lived_in(network.model())
    before, world = network_state(model), global_state()
    joint = regvar.LogJoint(
        model,
        network.data(),
        likelihood=network.likelihood(),
        prior=regvar.GaussianPrior(precision=1.0),
        forward=network.forward,
        jvp=getattr(regvar, mode)(),
    )
    batch, v = network.data()[0], direction(joint)
    joint.network.jvp(batch, v)
    joint.network.vjp(batch, normal(count(batch), *network.outputs, seed=7))
    assert differences(before, network_state(model)) == []
    assert differences(world, global_state()) == []


@every_network
def test_a_row_does_not_see_the_others(network: NetworkCase) -> None:
    joint, batch = network.joint(), network.data()[0]
    v = direction(joint)
    whole = joint.network.jvp(batch, v)
    single = [joint.network.jvp(rows(batch, slice(i, i + 1)), v) for i in range(count(batch))]
    atol = network.rounding * float(whole.abs().max())
    torch.testing.assert_close(torch.cat(single), whole, rtol=0, atol=atol)
