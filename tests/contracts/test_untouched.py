"""The user's network and the process around it are bit for bit as before, whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import regvar

from .estimators import ESTIMATORS, EstimatorCase, label, pairs
from .networks import BY_NAME, NetworkCase, rows
from .snapshots import (
    Fuse,
    differences,
    global_state,
    lived_in,
    network_state,
    set_switches,
)

pytestmark = pytest.mark.filterwarnings("ignore::regvar.SolverWarning")
every_pair = pytest.mark.parametrize(("estimator", "network"), pairs(ESTIMATORS), ids=label)


@pytest.fixture(autouse=True)
def fresh_switches() -> None:
    set_switches()


def use(uq: Any, x: Any) -> None:
    """Ask all that there is to ask."""
    if hasattr(uq, "moments"):
        uq.moments(x)
    if hasattr(uq, "draws"):
        uq.draws(x)


@every_pair
def test_nothing_is_changed(estimator: EstimatorCase, network: NetworkCase, tmp_path: Path) -> None:
    model = lived_in(network.model())
    x = rows(network.query(), slice(0, 1))
    before, world = network_state(model), global_state()
    joint = network.joint(model=model)
    uq = estimator.fit(network, joint, 0)
    use(uq, x)
    regvar.save(uq, tmp_path)
    use(regvar.load(tmp_path, joint), x)
    assert differences(before, network_state(model)) == []
    assert differences(world, global_state()) == []


def failing_calls(count: int) -> list[int]:
    """One in the middle and the last."""
    return sorted({count // 2 + 1, count})


@every_pair
def test_nothing_is_changed_when_the_network_raises(
    estimator: EstimatorCase, network: NetworkCase
) -> None:
    model = lived_in(network.model())
    fuse = Fuse(model)
    before, world = network_state(model), global_state()
    joint = network.joint(model=model)
    uq = estimator.fit(network, joint, 0)
    calls = fuse.calls
    for at in failing_calls(calls) if calls else []:
        fuse.arm(at)
        with pytest.raises(ArithmeticError, match="the fuse blew"):
            estimator.fit(network, network.joint(model=model), 0)
        assert differences(before, network_state(model)) == []
        assert differences(world, global_state()) == []
    if estimator.name == "parameter":
        return
    x = rows(network.query(), slice(0, 1))
    uq.moments(x)  # the first one also chooses how J·v is computed
    fuse.arm(0)
    uq.moments(x)
    for at in failing_calls(fuse.calls):
        fuse.arm(at)
        with pytest.raises(ArithmeticError, match="the fuse blew"):
            uq.moments(x)
        assert differences(before, network_state(model)) == []
        assert differences(world, global_state()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, ArithmeticError, RuntimeError])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=label)
def test_nothing_is_changed_wherever_it_is_interrupted(
    estimator: EstimatorCase, error: type[BaseException]
) -> None:
    """A RuntimeError may be met by a fall-back (no forward mode), the others may not."""
    network = BY_NAME["mlp"]
    model = lived_in(network.model())
    fuse = Fuse(model, error)
    before, world = network_state(model), global_state()
    use(estimator.fit(network, network.joint(model=model), 0), network.query())
    calls = fuse.calls
    for at in range(1, calls + 1, max(1, calls // 12)):
        fuse.arm(at)
        seen = False
        try:
            use(estimator.fit(network, network.joint(model=model), 0), network.query())
        except error:
            seen = True
        assert seen or error is RuntimeError, f"the error at call {at} of {calls} was swallowed"
        assert differences(before, network_state(model)) == []
        assert differences(world, global_state()) == []


class Flaky:
    """Data whose disk fails at the `at`-th batch, counted over all passes."""

    def __init__(self, batches: list[Any]) -> None:
        self.batches = batches
        self.served = 0
        self.at: int | None = None

    def __iter__(self) -> Iterator[Any]:
        for batch in self.batches:
            self.served += 1
            if self.served == self.at:
                raise OSError("the disk failed")
            yield batch


@pytest.mark.parametrize(
    "estimator", [e for e in ESTIMATORS if "two_heads" in e.networks], ids=label
)
def test_nothing_is_changed_when_the_loader_raises(estimator: EstimatorCase) -> None:
    network = BY_NAME["two_heads"]
    model = lived_in(network.model())
    data = Flaky(network.data())
    before, world = network_state(model), global_state()
    estimator.fit(network, network.joint(model=model, data=data), 0)
    served = data.served
    for at in range(1, served + 1, max(1, served // 12)):
        data.served, data.at = 0, at
        with pytest.raises(OSError, match="the disk failed"):
            estimator.fit(network, network.joint(model=model, data=data), 0)
        assert differences(before, network_state(model)) == []
        assert differences(world, global_state()) == []


def test_gradients_stay_off_for_the_caller_and_do_not_matter() -> None:
    network = BY_NAME["encoder"]
    expected = regvar.amortized(network.joint()).moments(network.query())
    with torch.no_grad():
        moments = regvar.amortized(network.joint()).moments(network.query())
        assert not torch.is_grad_enabled()
    torch.testing.assert_close(moments.variance, expected.variance, rtol=1e-9, atol=0)
