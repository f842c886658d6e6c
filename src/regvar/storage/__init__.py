"""Save and load: displacements as safetensors beside a JSON card, never a copy of the network.

directory/
  card.json                  kind, settings, status, parameter shapes, fingerprint of θ̂
  tensors.safetensors        what is no displacement: factors, heads, masks
  displacement-0000.safetensors ...   δ_k
  origin-0000.safetensors ...         θ_low − θ̂ of refits, once if they share it
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regvar import params
from regvar.errors import StaleError, StorageError
from regvar.log_joint import LogJoint
from regvar.network import Fingerprint, Network
from regvar.results import Displacement, Packed
from regvar.storage.card import from_json, solution_from_json, solution_to_json, to_json
from regvar.storage.kinds import KINDS, Storable
from regvar.version import __version__

__all__ = ["FORMAT", "load", "save"]

FORMAT = 2
_CARD, _TENSORS = "card.json", "tensors.safetensors"


def save(uq: Storable, directory: str | Path) -> None:
    """Write what an estimator is made of and a card to `directory` (made, or replaced).

    Args:
        uq: an estimator or a baseline of ours.
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
    if type(uq).__name__ not in KINDS:
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


def _card(uq: Storable, folder: Path) -> dict[str, Any]:
    packed = uq.pack()
    if packed.tensors:
        save_file(_contiguous(packed.tensors), folder / _TENSORS)
    return {
        "format": FORMAT,
        "regvar": __version__,
        "torch": torch.__version__,
        "kind": type(uq).__name__,
        "parameters": {k: list(p.shape) for k, p in uq.network.parameters.items()},
        "fingerprint": uq.fitted.sums,
        "settings": to_json(packed.settings),
        "tensors": sorted(packed.tensors),
        "displacements": _write(packed.displacements, folder),
        "solution": solution_to_json(uq.solution),
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


def load(directory: str | Path, joint: LogJoint | nn.Module) -> Any:
    """Read what `save` wrote, for the network it was fitted to: an estimator of the same class.

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
    tensors = _load(folder / _TENSORS) if card["tensors"] else {}
    packed = Packed(
        from_json(card["settings"]),
        {k: v.to(network.device) for k, v in tensors.items()},
        _read(card["displacements"], folder, network),
    )
    solution = solution_from_json(card["solution"])
    return KINDS[card["kind"]].unpack(packed, network, fitted, solution, known)


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
    if card["kind"] not in KINDS:
        raise StorageError(
            f"kind of {_CARD} must be one of {sorted(KINDS)}, but is {card['kind']!r}. "
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
    found = _load(path)
    return {
        k: found[k].to(p.device, params.work_dtype(p.dtype)) for k, p in network.parameters.items()
    }


def _load(path: Path) -> dict[str, Tensor]:
    try:
        found = load_file(path)
    except Exception as error:
        raise StorageError(f"{path.name} must be readable, but {error}. Save again.") from error
    # In the file a tensor may begin anywhere; BLAS rounds otherwise on what is not aligned.
    return {k: v.clone() for k, v in found.items()}
