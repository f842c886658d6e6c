"""Data and networks that cannot be used meet an error of ours, whichever method sees them first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import regvar

from .mistakes import JOINTS, X, says

METHODS: dict[str, Callable[[regvar.LogJoint], Any]] = {
    "check": lambda j: j.check(),
    "amortized": lambda j: regvar.amortized(j),
    "sampled": lambda j: regvar.sampled(j, samples=2, solver=regvar.Finetune(lam=1.0)),
    "pointwise": lambda j: regvar.pointwise(j).moments(X[:1]),
    "parameter": lambda j: regvar.parameter(j),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("mistake", JOINTS)
def test_a_joint_that_cannot_be_used(mistake: str, method: str) -> None:
    make, words = JOINTS[mistake]
    with pytest.raises(regvar.RegvarError) as caught:
        METHODS[method](make())
    says(caught.value, words)
