"""What is refused, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from torch import nn

import regvar
from regvar.calibration import calibrate
from regvar.predictives import (
    Probit,
)
from tests.calibration.cases import CLASSES, Batches, Passes, cut, numbers, real_numbers, simulated

MISTAKES: dict[str, tuple[str, Callable[[Batches], Any]]] = {
    "empty": (
        "loader must hold at least one scored example",
        lambda data: calibrate(simulated(), [], predictive=numbers(1.0)),
    ),
    "all ignored": (
        "loader must hold at least one scored example",
        lambda data: calibrate(
            simulated(),
            [(data[0][0], torch.full((20,), -100))],
            predictive=CLASSES,
        ),
    ),
    "no likelihood": (
        "predictive must be given for an estimator that does not know its likelihood",
        lambda data: calibrate(simulated(), data),
    ),
    "no targets": (
        "data must carry targets",
        lambda data: calibrate(
            simulated(),
            cast("Any", [data[0][0]]),
            predictive=numbers(1.0),
        ),
    ),
    "a batch for a loader": (
        "loader must be an iterable of batches",
        lambda data: calibrate(
            simulated(),
            cast("Any", data[0]),
            predictive=numbers(1.0),
        ),
    ),
    "one pass only": (
        "loader must be re-iterable",
        lambda data: calibrate(simulated(), iter(data), predictive=numbers(1.0)),
    ),
    "other data in the second pass": (
        "loader must hold the same examples on every pass",
        lambda data: calibrate(
            simulated(),
            Passes(data, drift=0.5),
            memory=0,
            predictive=numbers(0.3),
        ),
    ),
    "a negative scale": (
        "grid must be one or more scales, finite and 0 or larger",
        lambda data: calibrate(
            simulated(),
            data,
            grid=(-1.0, 1.0),
            predictive=numbers(1.0),
        ),
    ),
    "a class for a predictive": (
        "predictive must be an object like",
        lambda data: calibrate(simulated(), data, predictive=cast("Any", Probit)),
    ),
    "no estimator": (
        "uq must be an estimator with moments",
        lambda data: calibrate(cast("Any", nn.Linear(1, 1)), data),
    ),
    "a negative variance": (
        "moments of uq must be finite",
        lambda data: calibrate(
            simulated(),
            [(-x, y) for x, y in data],
            predictive=numbers(1.0),
        ),
    ),
}


@pytest.mark.parametrize(("text", "call"), MISTAKES.values(), ids=list(MISTAKES))
def test_mistakes(text: str, call: Callable[[Batches], Any]) -> None:
    with pytest.raises(regvar.RegvarError, match=text):
        call(cut(real_numbers(1.0, 0.3, rows=20), 20))
