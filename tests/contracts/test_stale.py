"""What counts as another network than the one that was fitted: buffers do, if they are saved."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import regvar
from regvar.errors import StaleError


class Normed(nn.Module):
    """Batch norm, a mask of −∞ that is saved, and a table that is made anew in every call."""

    mask: Tensor
    table: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2))
        self.register_buffer("mask", torch.full((3,), -math.inf))
        self.register_buffer("table", torch.zeros(3), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Two outputs."""
        self.table = self.table + 1.0
        return self.body(x)


def fitted() -> tuple[Normed, regvar.LogJoint]:
    torch.manual_seed(0)
    model = Normed()
    x = 3.0 + torch.randn(40, 2)
    joint = regvar.LogJoint(
        model,
        [(x, (x.sum(1) > 6).long())],
        likelihood=regvar.Categorical(),
        prior=regvar.GaussianPrior(precision=1.0),
    )
    regvar.fit_map(joint, epochs=80, lr=0.05)
    return model, joint


def test_a_running_mean_that_moves_makes_an_estimator_stale() -> None:
    model, joint = fitted()
    uq = regvar.sampled(joint, samples=2)
    x = torch.randn(5, 2)
    before = uq.moments(x)
    kept = copy.deepcopy(model.state_dict())
    model.train()(x)  # moves the running means and no parameter
    model.eval()
    with pytest.raises(StaleError, match="parameters and buffers it was fitted with"):
        uq.moments(x)
    model.load_state_dict(kept)
    assert torch.equal(uq.moments(x).variance, before.variance)


def test_what_is_not_saved_may_change() -> None:
    model, joint = fitted()
    uq = regvar.sampled(joint, samples=2)
    x = torch.randn(5, 2)
    before = uq.moments(x)
    model(x)
    model.table.fill_(7.0)
    assert torch.equal(uq.moments(x).variance, before.variance)


def test_a_saved_estimator_is_refused_for_a_network_without_its_running_means(
    tmp_path: Path,
) -> None:
    model, joint = fitted()
    uq = regvar.sampled(joint, samples=2)
    regvar.save(uq, tmp_path / "uq")
    parameters_alone = Normed().eval()
    with torch.no_grad():
        for p, q in zip(parameters_alone.parameters(), model.parameters(), strict=True):
            p.copy_(q)
    with pytest.raises(StaleError, match="load_state_dict holds both"):
        regvar.load(tmp_path / "uq", parameters_alone)
    whole = Normed().eval()
    whole.load_state_dict(model.state_dict())
    x = torch.randn(5, 2)
    assert torch.equal(
        regvar.load(tmp_path / "uq", whole).moments(x).variance, uq.moments(x).variance
    )
