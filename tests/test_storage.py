"""What a save holds, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import regvar
from regvar import baselines
from tests.oracles.cases import Case, at_map
from tests.oracles.front_door import log_joint
from tests.oracles.networks import TanhNet

CASE = Case(TanhNet, "gaussian")
SOLVERS = [
    regvar.Direct(regvar.Hessian(regvar.CentralDifferences(step=1e-3))),
    regvar.ConjugateGradient(regvar.GGN(), tolerance=1e-6, preconditioner=regvar.Nystrom(rank=3)),
    regvar.Finetune(lam=0.25, optimizer=torch.optim.SGD, paired=True),
    regvar.Minres(regvar.Hessian(), max_iterations=3),
]


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_a_solver_comes_back_as_it_was(solver: Any, tmp_path: Path) -> None:
    joint = log_joint(at_map(CASE))
    regvar.save(regvar.pointwise(joint, solver=solver), tmp_path)
    assert regvar.load(tmp_path, joint).solver == solver


def test_a_shared_control_is_kept_once(tmp_path: Path) -> None:
    joint = log_joint(at_map(CASE))
    solver = regvar.Finetune(lam=0.5, optimizer=torch.optim.SGD, residual_tolerance=1e9)
    uq = regvar.sampled(joint, samples=3, solver=solver)
    regvar.save(uq, tmp_path)
    assert len(list(tmp_path.glob("displacement-*"))) == 3
    assert len(list(tmp_path.glob("origin-*"))) == 1
    again = regvar.load(tmp_path, joint)
    assert len({id(move.origin) for move in again.displacements}) == 1
    assert again.solution.iterations == uq.solution.iterations


def edit(directory: Path, **entries: Any) -> None:
    card = json.loads((directory / "card.json").read_text())
    (directory / "card.json").write_text(json.dumps({**card, **entries}))


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    joint = log_joint(at_map(CASE))
    regvar.save(baselines.ggn(joint), tmp_path)
    saved = (tmp_path / "card.json").read_text()
    edit(tmp_path, format=1)
    with pytest.raises(regvar.RegvarError, match=r"format of card\.json must be 2, but is 1"):
        regvar.load(tmp_path, joint)
    (tmp_path / "card.json").write_text(saved)
    edit(tmp_path, kind="os.system")
    with pytest.raises(regvar.RegvarError, match=r"kind of card\.json must be one of.*os\.system"):
        regvar.load(tmp_path, joint)
    (tmp_path / "card.json").write_text(saved)
    (tmp_path / "tensors.safetensors").write_bytes(b"no tensors")
    with pytest.raises(regvar.RegvarError, match=r"tensors\.safetensors must be readable"):
        regvar.load(tmp_path, joint)


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    joint = log_joint(at_map(CASE))
    with pytest.raises(regvar.RegvarError, match="uq must be an estimator of regvar, but is"):
        regvar.save(joint, tmp_path)
    odd = regvar.Finetune(optimizer=lambda p, lr: torch.optim.SGD(p, lr=lr))
    with pytest.raises(regvar.RegvarError, match="must be plain, but hold <function"):
        regvar.save(regvar.pointwise(joint, solver=odd), tmp_path)
    regvar.save(regvar.pointwise(joint), tmp_path)
    with pytest.raises(regvar.RegvarError, match="joint must be a LogJoint for a pointwise"):
        regvar.load(tmp_path, joint.model)
    assert type(regvar.load(tmp_path, joint)) is type(regvar.pointwise(joint))
