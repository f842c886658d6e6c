"""The JSON of a card: settings, and how a solve ended."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, cast

import torch

from regvar.curvature import GGN, Hessian
from regvar.errors import StorageError
from regvar.linearize import CentralDifferences
from regvar.results import Solution, Status
from regvar.solvers import ConjugateGradient, Direct, Finetune, Jacobi, Minres, Nystrom, Stochastic

_SETTINGS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        ConjugateGradient,
        Minres,
        Direct,
        Stochastic,
        Finetune,
        GGN,
        Hessian,
        CentralDifferences,
        Jacobi,
        Nystrom,
    )
}


def to_json(value: Any) -> Any:
    """An estimator's settings; only what can be read back without running anything."""
    if is_dataclass(value) and type(value).__name__ in _SETTINGS:
        settings = {f.name: to_json(getattr(value, f.name)) for f in fields(value)}
        return {"type": type(value).__name__, **settings}
    if isinstance(value, type) and getattr(torch.optim, value.__name__, None) is value:
        return {"type": "torch.optim", "name": value.__name__}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {k: to_json(v) for k, v in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [to_json(v) for v in cast("Sequence[Any]", value)]
    raise StorageError(
        f"settings of a saved estimator, its solver's among them, must be plain, but hold "
        f"{value!r}. Save the script that builds it instead."
    )


def from_json(value: Any) -> Any:
    """What `to_json` wrote."""
    if isinstance(value, list):
        return [from_json(v) for v in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    row = cast("dict[str, Any]", value)
    kind = row.get("type")
    if kind == "torch.optim":
        return getattr(torch.optim, row["name"])
    settings = {k: from_json(v) for k, v in row.items() if k != "type"}
    return _SETTINGS[kind](**settings) if kind in _SETTINGS else settings


def solution_to_json(solution: Solution | None) -> dict[str, Any] | None:
    """How a solve ended; the answer itself is kept beside the card."""
    if solution is None:
        return None
    return {
        "status": solution.status.name,
        "residual": solution.residual if math.isfinite(solution.residual) else None,
        "iterations": solution.iterations,
        "detail": solution.detail,
    }


def solution_from_json(row: dict[str, Any] | None) -> Solution | None:
    """What `solution_to_json` wrote."""
    if row is None:
        return None
    residual = math.nan if row["residual"] is None else row["residual"]
    return Solution((), Status[row["status"]], residual, row["iterations"], row["detail"])
