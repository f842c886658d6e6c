"""One data set, however it is cut and shuffled, gives one answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import regvar

from .estimators import EstimatorCase, in_sample, label, parameter, pointwise, sampled
from .networks import CASES, NetworkCase, rows
from .snapshots import differences, global_state

pytestmark = pytest.mark.filterwarnings("ignore::regvar.SolverWarning")
every_network = pytest.mark.parametrize("network", CASES, ids=label)
METHODS: list[EstimatorCase] = [
    EstimatorCase("pointwise", pointwise),
    EstimatorCase("in_sample", in_sample),
    EstimatorCase("sampled", sampled),
    EstimatorCase("parameter", parameter),
]


def by_full_batches(_: NetworkCase, joint: regvar.LogJoint, seed: int) -> Any:
    solver = regvar.Finetune(lam=0.5, epochs=2, lr=0.05, optimizer=torch.optim.SGD, full_batch=True)
    return regvar.sampled(joint, samples=2, solver=solver, seed=seed)


METHODS.append(EstimatorCase("sampled_by_full_batch_refit", by_full_batches))


def answer(method: EstimatorCase, network: NetworkCase, data: Any) -> torch.Tensor:
    """All numbers that the estimator gives at the query."""
    uq = method.fit(network, network.joint(data=data), 0)
    if method.name == "parameter":
        return torch.cat([v.flatten() for v in uq.variance.values()])
    return uq.moments(rows(network.query(), slice(0, 1))).variance


def close(actual: torch.Tensor, expected: torch.Tensor, network: NetworkCase) -> None:
    scale = float(expected.abs().max())
    assert scale > 0
    torch.testing.assert_close(actual, expected, rtol=0, atol=network.rounding * scale)


@every_network
@pytest.mark.parametrize("method", METHODS, ids=label)
def test_the_batch_size_does_not_matter(method: EstimatorCase, network: NetworkCase) -> None:
    whole = answer(method, network, network.data(size=5))
    for size in (1, 3):
        close(answer(method, network, network.data(size=size)), whole, network)


@every_network
def test_the_log_joint_does_not_see_the_batches(network: NetworkCase) -> None:
    whole, cut = network.joint(data=network.data(size=5)), network.joint(data=network.data(size=2))
    assert whole.size == cut.size
    assert whole.value() == pytest.approx(cut.value(), rel=max(1e-12, network.rounding * 1e-2))
    gradient = whole.gradient()
    for name, part in cut.gradient().items():
        torch.testing.assert_close(part, gradient[name], rtol=network.rounding, atol=1e-6)


class Rows(Dataset[Any]):
    """The examples of one batch, one by one."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> Any:
        return rows(self.batch, index)


def shuffling(examples: Any, generator: torch.Generator | None) -> DataLoader[Any]:
    return DataLoader(Rows(examples), batch_size=2, shuffle=True, generator=generator)


@every_network
@pytest.mark.parametrize("own", [True, False], ids=["own generator", "global generator"])
def test_a_shuffling_loader_is_fine(network: NetworkCase, own: bool) -> None:
    expected = answer(METHODS[1], network, network.data())
    generator = torch.Generator().manual_seed(7) if own else None
    loader = shuffling(network.examples(5, 1, torch.float64), generator)
    orders = {str(list(map(str, loader))) for _ in range(3)}
    assert len(orders) > 1, "the loader does not shuffle"
    state = generator.get_state() if generator else torch.tensor(0)
    world = global_state()
    close(answer(METHODS[1], network, loader), expected, network)
    close(answer(METHODS[3], network, loader), answer(METHODS[3], network, network.data()), network)
    assert generator is None or torch.equal(generator.get_state(), state)
    assert differences(world, global_state()) == []


@pytest.mark.parametrize("workers", [1])
def test_a_loader_with_a_worker_process_is_fine(workers: int) -> None:
    network = CASES[0]
    examples = network.examples(5, 1, torch.float64)
    loader = DataLoader(Rows(examples), batch_size=2, shuffle=True, num_workers=workers)
    close(answer(METHODS[1], network, loader), answer(METHODS[1], network, network.data()), network)


def permuted(network: NetworkCase) -> Any:
    examples = network.examples(5, 1, torch.float64)
    return [rows(examples, torch.tensor([3, 0])), rows(examples, torch.tensor([4, 1, 2]))]


@every_network
def test_the_order_of_the_data_does_not_matter(network: NetworkCase) -> None:
    for method in (METHODS[1], METHODS[3]):
        expected = answer(method, network, network.data())
        close(answer(method, network, permuted(network)), expected, network)


CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {
    "tuple of batches": tuple,
    "batches as lists": lambda batches: [list(b) for b in batches],
}


@pytest.mark.parametrize("form", CONTAINERS)
def test_the_container_does_not_matter(form: str) -> None:
    network = CASES[0]
    data = CONTAINERS[form](network.data())
    expected = answer(METHODS[1], network, network.data())
    assert torch.equal(answer(METHODS[1], network, data), expected)
