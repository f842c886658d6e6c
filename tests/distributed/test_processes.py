"""Two processes that talk over gloo give the answer of one: DDP first, then sharded by FSDP2."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

import regvar

from .answers import (
    ESTIMATORS,
    EVEN,
    SHARDED,
    SOLVERS,
    Answers,
    batched,
    joint_of,
    network,
    queries,
    read,
    replicated_answers,
    sharded_answers,
)
from .launching import launch

RELATIVE = 1e-5
Found = list[dict[str, Any]]
PAIRS = [f"{estimator}/{solver}" for solver in SOLVERS for estimator in ESTIMATORS]
WAYS = [
    *[f"{data}/{way}" for data in ("shuffled", "sampler") for way in ("refit", "sampled")],
    *["shuffled/stochastic", "sampler/stochastic", "label noise", "own forward"],
    *["own forward/refit", "central differences", "indivisible", "indivisible/refit"],
    *["map", "map report", "mean", "counts"],
]
SHARDED_PAIRS = [
    *[f"{name}/{solver}" for solver in ("finetune", "cg-four-steps") for name in ESTIMATORS],
    *[f"sampled/{solver}" for solver in SHARDED],
]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Found:
    return launch("replicated", tmp_path_factory.mktemp("replicated"))


@pytest.fixture(scope="module")
def one() -> Answers:
    return replicated_answers(lambda model: model)


@pytest.fixture(scope="module")
def two_sharded(tmp_path_factory: pytest.TempPathFactory) -> Found:
    return launch("sharded", tmp_path_factory.mktemp("sharded"))


@pytest.fixture(scope="module")
def one_whole() -> Answers:
    return sharded_answers(lambda model: model)


def error(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("name", [*PAIRS, *WAYS])
def test_two_processes_give_the_answer_of_one(name: str, two: Found, one: Answers) -> None:
    """Bit for bit the same in both, and that of one process but for the order of summation."""
    assert torch.equal(two[0][name], two[1][name])
    assert error(two[0][name], one[name]) < RELATIVE


def test_no_answer_is_left_out(two: Found, one: Answers) -> None:
    assert set(one) == {*PAIRS, *WAYS} and set(one) <= set(two[0])


def test_the_work_is_shared(two: Found) -> None:
    """Batches of 4, 4, 4 and 1; the odd row is the first process's."""
    assert two[0]["rows seen"] == [2, 2, 2, 1]
    assert two[1]["rows seen"] == [2, 2, 2]


def test_parameters_have_the_names_of_one_process(two: Found) -> None:
    assert two[0]["names"] == list(dict(network().named_parameters()))


def test_hooks_of_ddp_neither_fire_nor_suffer(two: Found) -> None:
    """Not after a forward whose backward never came; and training goes on averaging."""
    joint = joint_of(lambda model: model)
    with pytest.warns(regvar.SolverWarning):
        expected = read(regvar.amortized(joint, solver=SOLVERS["finetune"]))
    model = network()
    model(queries()[:2]).square().sum().div(2).backward()
    gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    for found in two:
        assert error(found["after a forward"], expected) < RELATIVE
        assert error(found["gradients still averaged"], gradient) < 1e-12


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        ("own data", "DataError: data must be the same in every process"),
        ("own queries", "DataError: inputs of pointwise must be the same in every process"),
        ("own probes", "DataError: probes must be the same in every process"),
        ("own weights", "ModelError: model must have the same parameters in every process"),
    ],
)
def test_processes_that_differ_are_refused(attempt: str, message: str, two: Found) -> None:
    assert all(found[attempt].startswith(message) for found in two)


def test_a_failure_in_one_process_stops_all(two: Found) -> None:
    assert "another process failed" in two[0]["another fails"]
    assert "must be finite" in two[1]["another fails"]


def test_a_bare_module_is_one_process_s_own_affair(two: Found, one: Answers) -> None:
    assert torch.equal(two[0]["alone"], one["sampled/cg"]) and "alone" not in two[1]


@pytest.mark.parametrize("name", [*SHARDED_PAIRS, "hessian", "map", "map report", "fingerprint"])
def test_sharded_weights_give_the_answer_of_whole_ones(
    name: str, two_sharded: Found, one_whole: Answers
) -> None:
    assert torch.equal(two_sharded[0][name], two_sharded[1][name])
    assert error(two_sharded[0][name], one_whole[name]) < RELATIVE


def test_sharded_weights_choose_differences(two_sharded: Found) -> None:
    """Forward mode's tangents are lost on gathered weights, second derivatives too."""
    joint = joint_of(lambda model: model, batched(EVEN))
    solver = regvar.Minres(regvar.Hessian(), max_iterations=4)
    with pytest.warns(regvar.SolverWarning):
        expected = read(regvar.amortized(joint, solver=solver))
    for found in two_sharded:
        assert found["mode"] == "central"
        assert error(found["exact hessian"], expected) < RELATIVE


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        ("short batch", "DataError: batches of a sharded model must have a row for each of the 2"),
        ("half", "ModelError: parameters of a sharded model must be gathered in float32"),
        ("forward mode", "ModelError: jvp must be CentralDifferences() for a sharded model"),
        ("nystrom", "ArgumentError: preconditioner=Nystrom needs whole parameters"),
        ("stale", "StaleError: model must have the parameters and buffers it was fitted with"),
    ],
)
def test_what_sharded_weights_cannot_do_is_refused(
    attempt: str, message: str, two_sharded: Found
) -> None:
    assert all(found[attempt].startswith(message) for found in two_sharded)


def test_the_original_of_fsdp_is_refused() -> None:
    class FullyShardedDataParallel(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = copy.deepcopy(network())

    with pytest.raises(regvar.RegvarError, match="fully_shard"):
        joint_of(lambda model: FullyShardedDataParallel())
