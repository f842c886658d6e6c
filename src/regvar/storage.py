"""Save and load: displacements as safetensors beside a JSON card, never a copy of the network.

directory/
  card.json                  kind, solver, status, parameter shapes, fingerprint of θ̂
  displacement-0000.safetensors ...   δ_k
  origin-0000.safetensors ...         θ_low − θ̂ of refits, once if they share it
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regvar import params
from regvar.curvature import GGN, Hessian
from regvar.errors import StaleError, StorageError
from regvar.estimators import Amortized, Parameter, Pointwise, Sampled
from regvar.linearize import CentralDifferences
from regvar.log_joint import LogJoint
from regvar.network import Fingerprint, Network
from regvar.results import Displacement, Solution, Status
from regvar.solvers import ConjugateGradient, Direct, Finetune, Jacobi, Minres, Nystrom, Stochastic
from regvar.version import __version__

FORMAT = 1
_CARD = "card.json"
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

Saved = Pointwise | Amortized | Sampled | Parameter


def save(uq: Saved, directory: str | Path) -> None:
    """Write an estimator's displacements and card to `directory` (made, or replaced).

    Args:
        uq: an estimator of ours.
        directory: new, empty, or holding an earlier save.

    >>> import tempfile, torch, regvar
    >>> x = torch.linspace(-1, 1, 8)[:, None]
    >>> joint = regvar.LogJoint(torch.nn.Linear(1, 1), [(x, x)],
    ...                         likelihood=regvar.Gaussian(sigma=1.0),
    ...                         prior=regvar.GaussianPrior(precision=1.0))
    >>> uq = regvar.sampled(joint, samples=4)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     regvar.save(uq, directory)
    ...     again = regvar.load(directory, joint)
    >>> torch.equal(uq.moments(x).variance, again.moments(x).variance)
    True
    """
    if not isinstance(uq, Saved):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise StorageError(f"uq must be an estimator of regvar, but is {type(uq).__name__}.")
    target = Path(directory)
    if target.exists() and any(target.iterdir()) and not (target / _CARD).exists():
        raise StorageError(
            f"directory must be new, empty or an earlier save, but {str(target)!r} holds other "
            "files. Choose another one."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".regvar-") as scratch:
        fresh = Path(scratch) / "save"
        fresh.mkdir()
        card = _card(uq, fresh)
        (fresh / _CARD).write_text(json.dumps(card, indent=1, ensure_ascii=False))
        if target.exists():
            shutil.rmtree(target)
        fresh.rename(target)


def _card(uq: Saved, folder: Path) -> dict[str, Any]:
    moves: tuple[Displacement, ...]
    if isinstance(uq, Pointwise):
        moves = ()
    elif isinstance(uq, Sampled):
        moves = uq.displacements
    else:
        moves = (uq.displacement,)
    return {
        "format": FORMAT,
        "regvar": __version__,
        "torch": torch.__version__,
        "kind": type(uq).__name__,
        "parameters": {k: list(p.shape) for k, p in uq.network.parameters.items()},
        "fingerprint": uq.fitted.sums,
        "displacements": _write(moves, folder),
        "solution": _solution_to_json(uq.solution),
        "solver": _to_json(uq.solver) if isinstance(uq, Pointwise) else None,
    }


def _write(moves: tuple[Displacement, ...], folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    origins: dict[int, str] = {}
    for index, move in enumerate(moves):
        name = f"displacement-{index:04d}.safetensors"
        save_file(_contiguous(move.delta), folder / name)
        origin = None
        if move.origin is not None:
            origin = origins.get(id(move.origin))
            if origin is None:
                origin = f"origin-{len(origins):04d}.safetensors"
                origins[id(move.origin)] = origin
                save_file(_contiguous(move.origin), folder / origin)
        rows.append({"file": name, "width": move.width, "origin": origin})
    return rows


def _contiguous(vector: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {k: v.detach().clone(memory_format=torch.contiguous_format) for k, v in vector.items()}


def load(directory: str | Path, joint: LogJoint | nn.Module) -> Saved:
    """Read what `save` wrote, for the network it was fitted to.

    Args:
        directory: a saved estimator.
        joint: the log joint of the same fitted network; a bare module will do for estimators
            that need no more solves (all but `pointwise`).
    """
    folder = Path(directory)
    card = _read_card(folder)
    network = Network(joint) if isinstance(joint, nn.Module) else joint.network
    known = None if isinstance(joint, nn.Module) else joint
    fitted = Fingerprint({k: (v[0], v[1]) for k, v in card["fingerprint"].items()})
    _require_same(card, network, fitted)
    solution = _solution_from_json(card["solution"])
    if card["kind"] == "Pointwise":
        if known is None:
            raise StorageError(
                "joint must be a LogJoint for a pointwise estimator, but is a bare module: every "
                "query needs a solve with the data."
            )
        return Pointwise(known, _from_json(card["solver"]), fitted)
    moves = _read(card["displacements"], folder, network)
    if card["kind"] == "Sampled":
        return Sampled(network, moves, solution, fitted, known)
    kind = {"Amortized": Amortized, "Parameter": Parameter}[card["kind"]]
    return kind(network, moves[0], solution, fitted, known)


def _read_card(folder: Path) -> dict[str, Any]:
    path = folder / _CARD
    if not path.is_file():
        raise StorageError(
            f"directory must hold a saved estimator, but {str(folder)!r} has no {_CARD}. "
            "Save one with regvar.save(uq, directory)."
        )
    try:
        card = cast("dict[str, Any]", json.loads(path.read_text()))
    except json.JSONDecodeError as error:
        raise StorageError(f"{_CARD} must be JSON, but {error}.") from error
    if card.get("format") != FORMAT:
        raise StorageError(
            f"format of {_CARD} must be {FORMAT}, but is {card.get('format')!r}. "
            "Read it with the version of regvar that wrote it."
        )
    return card


def _require_same(card: dict[str, Any], network: Network, fitted: Fingerprint) -> None:
    shapes = {k: list(p.shape) for k, p in network.parameters.items()}
    if shapes != card["parameters"]:
        odd = sorted(
            k
            for k in shapes.keys() | card["parameters"].keys()
            if shapes.get(k) != card["parameters"].get(k)
        )
        raise StaleError(
            f"joint must hold the network the estimator was saved from, but {odd[0]!r} differs in "
            "name, shape or requires_grad. Build the same network and load its fitted weights."
        )
    network.require_unchanged(fitted)


def _read(rows: list[dict[str, Any]], folder: Path, network: Network) -> tuple[Displacement, ...]:
    origins: dict[str, dict[str, Tensor]] = {}
    moves: list[Displacement] = []
    for row in rows:
        origin = None
        if row["origin"] is not None:
            if row["origin"] not in origins:
                origins[row["origin"]] = _tensors(folder / row["origin"], network)
            origin = origins[row["origin"]]
        moves.append(Displacement(_tensors(folder / row["file"], network), row["width"], origin))
    return tuple(moves)


def _tensors(path: Path, network: Network) -> dict[str, Tensor]:
    try:
        found = load_file(path)
    except Exception as error:
        raise StorageError(f"{path.name} must be readable, but {error}. Save again.") from error
    return {
        k: found[k].to(p.device, params.work_dtype(p.dtype)) for k, p in network.parameters.items()
    }


def _solution_to_json(solution: Solution | None) -> dict[str, Any] | None:
    if solution is None:
        return None
    return {
        "status": solution.status.name,
        "residual": solution.residual if math.isfinite(solution.residual) else None,
        "iterations": solution.iterations,
        "detail": solution.detail,
    }


def _solution_from_json(row: dict[str, Any] | None) -> Solution | None:
    if row is None:
        return None
    residual = math.nan if row["residual"] is None else row["residual"]
    return Solution((), Status[row["status"]], residual, row["iterations"], row["detail"])


def _to_json(value: Any) -> Any:
    """A solver's settings; only what can be read back without running anything."""
    if is_dataclass(value) and type(value).__name__ in _SETTINGS:
        settings = {f.name: _to_json(getattr(value, f.name)) for f in fields(value)}
        return {"type": type(value).__name__, **settings}
    if isinstance(value, type) and getattr(torch.optim, value.__name__, None) is value:
        return {"type": "torch.optim", "name": value.__name__}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise StorageError(
        f"solver of a saved pointwise estimator must be made of plain settings, but holds "
        f"{value!r}. Save the script that builds it instead."
    )


def _from_json(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    row = cast("dict[str, Any]", value)
    if row["type"] == "torch.optim":
        return getattr(torch.optim, row["name"])
    settings = {k: _from_json(v) for k, v in row.items() if k != "type"}
    return _SETTINGS[row["type"]](**settings)
