"""A LoRA model's uncertainty as a few more adapters on the one base model, in PEFT's own format.

directory/
  card.json                  kind, settings, status, fingerprints of θ̂ and of the frozen base
  map/                       the fitted adapter θ̂
  regvar-0000/ ...           θ̂ + origin + λ δ_k: one adapter (amortized), or K (sampled)
  control-0000/ ...          θ̂ + origin of refits that share a control

Each folder is what `PeftModel.save_pretrained` writes, `adapter_config.json` and
`adapter_model.safetensors`, and can be loaded by PEFT alone: the refitted network, or for a
tangent solve (λ = 1) the network at a draw of the posterior. No base weight is written. The
tensors are in double precision, so that the differences δ keep their digits.
"""

from __future__ import annotations

import copy
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from peft import PeftModel
from peft.utils.save_and_load import get_peft_model_state_dict
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regvar import params
from regvar.errors import ModelError, StaleError, StorageError
from regvar.estimators.amortized import Amortized
from regvar.estimators.sampled import Sampled
from regvar.log_joint import LogJoint
from regvar.network import Fingerprint, Network
from regvar.params import Params
from regvar.results import Displacement, Packed
from regvar.storage.card import from_json, solution_from_json, solution_to_json, to_json
from regvar.storage.kinds import KINDS
from regvar.version import __version__

FORMAT = 1
_CARD, _WEIGHTS, _MAP = "card.json", "adapter_model.safetensors", "map"


def save_adapters(uq: Amortized | Sampled, directory: str | Path) -> None:
    """Write θ̂'s adapter, one adapter for each displacement, and a card; no base weight.

    Args:
        uq: of a PEFT model of which nothing but the adapter trains.
        directory: new, empty, or holding an earlier save.

    >>> import tempfile, torch, regvar
    >>> from peft import LoraConfig, get_peft_model
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> base = GPT2LMHeadModel(GPT2Config(vocab_size=5, n_embd=4, n_layer=1, n_head=1))
    >>> config = LoraConfig(r=1, target_modules=["c_attn"], fan_in_fan_out=True)
    >>> model = get_peft_model(base, config).eval()
    >>> text = {"input_ids": torch.tensor([[1, 2, 3]]), "labels": torch.tensor([[1, 2, 3]])}
    >>> joint = regvar.LogJoint(model, [text], likelihood=regvar.Categorical(),
    ...                         prior=regvar.GaussianPrior(precision=1.0))
    >>> uq = regvar.sampled(joint, samples=2)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     save_adapters(uq, directory)
    ...     again = load_adapters(directory, joint)
    >>> bool(torch.isclose(uq.moments(text).variance, again.moments(text).variance).all())
    True
    """
    if not isinstance(uq, Amortized | Sampled):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise StorageError(
            f"uq must be made by amortized or sampled, but is {type(uq).__name__}. "
            "Use regvar.save, which keeps any estimator."
        )
    uq.network.require_unchanged(uq.fitted)
    peft_model, name = _adapted(uq.network.model)
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
        home = {k: p.detach().double() for k, p in uq.network.parameters.items()}
        _write(peft_model, name, home, fresh / _MAP)
        card = _card(uq, _moves(uq, home, peft_model, name, fresh))
        (fresh / _CARD).write_text(json.dumps(card, indent=1, ensure_ascii=False))
        if target.exists():
            shutil.rmtree(target)
        fresh.rename(target)


def load_adapters(
    directory: str | Path, model: LogJoint | nn.Module, *, dtype: torch.dtype | None = None
) -> Any:
    """Read what `save_adapters` wrote: an estimator of the same class, with equal moments.

    Args:
        directory: a saved estimator.
        model: the base model, which gets the fitted adapter from the save (it is wrapped, as
            `PeftModel.from_pretrained` does); or the fitted PEFT model, or its log joint.
        dtype: of the adapter put on a base model; by default the base's own.
    """
    folder = Path(directory)
    card = _read_card(folder)
    known = model if isinstance(model, LogJoint) else None
    if isinstance(model, LogJoint):
        network = model.network
    else:
        given = model if isinstance(model, PeftModel) else _wrapped(model, folder, card, dtype)
        network = Network(given)
    fitted = Fingerprint({k: (v[0], v[1]) for k, v in card["fingerprint"].items()})
    _require_base(card, network.model)
    peft_model, name = _adapted(network.model)
    network.require_unchanged(fitted)
    keys = _keys(peft_model, name, network.parameters)
    home = {k: p.detach().double() for k, p in network.parameters.items()}
    moves = _read(card["displacements"], folder, home, keys, network)
    packed = Packed(from_json(card["settings"]), {}, moves)
    solution = solution_from_json(card["solution"])
    return KINDS[card["kind"]].unpack(packed, network, fitted, solution, known)


def _moves(
    uq: Amortized | Sampled, home: Mapping[str, Tensor], model: PeftModel, name: str, folder: Path
) -> list[dict[str, Any]]:
    """Write an adapter for each end of each difference; their names and widths."""
    rows: list[dict[str, Any]] = []
    origins: dict[int, str] = {}
    for index, move in enumerate(uq.pack().displacements):
        end, origin = dict(home), None
        if move.origin is not None:
            end = {k: v + move.origin[k].double() for k, v in end.items()}
            origin = origins.get(id(move.origin))
            if origin is None:
                origin = origins[id(move.origin)] = f"control-{len(origins):04d}"
                _write(model, name, end, folder / origin)
        width = 1.0 if move.width is None else move.width
        end = {k: v + width * move.delta[k].double() for k, v in end.items()}
        place = f"regvar-{index:04d}"
        _write(model, name, end, folder / place)
        rows.append({"adapter": place, "width": move.width, "origin": origin})
    return rows


def _write(model: PeftModel, name: str, values: Mapping[str, Tensor], folder: Path) -> None:
    """One adapter in PEFT's format with these values."""
    keys = _keys(model, name, values)
    folder.mkdir()
    config = copy.copy(model.peft_config[name])
    config.inference_mode = True
    config.save_pretrained(str(folder))
    tensors = {keys[k]: v.contiguous() for k, v in values.items()}
    save_file(tensors, folder / _WEIGHTS, metadata={"format": "pt"})


def _keys(model: PeftModel, name: str, values: Mapping[str, Tensor]) -> dict[str, str]:
    """PEFT's key for each parameter's name; it tells of the adapter what is not said twice."""
    marks = {k: torch.tensor(i) for i, k in enumerate(values)}
    found = get_peft_model_state_dict(model, dict(marks), name, save_embedding_layers=False)
    names = list(values)
    keys = {names[int(mark)]: key for key, mark in found.items()}
    lost = sorted(set(values) - set(keys))
    if lost:
        raise ModelError(
            f"model must train its adapter alone to be stored as one, but {lost[0]!r} belongs to "
            "the base. Freeze it, name its module in modules_to_save, or use regvar.save."
        )
    return keys


def _adapted(model: nn.Module) -> tuple[PeftModel, str]:
    """The PEFT model and the name of its adapter."""
    if not isinstance(model, PeftModel):
        kind = type(model).__name__
        raise ModelError(f"model must be a peft.PeftModel, but is {kind}. Use regvar.save.")
    active = model.active_adapters
    if len(active) != 1:
        raise ModelError(
            f"model must have one active adapter, but has {len(active)}. Call set_adapter(name)."
        )
    return model, active[0]


def _card(uq: Amortized | Sampled, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "regvar": __version__,
        "torch": torch.__version__,
        "kind": type(uq).__name__,
        "adapter": _adapted(uq.network.model)[1],
        "fingerprint": uq.fitted.sums,
        "base": _base(uq.network.model),
        "settings": to_json(uq.pack().settings),
        "displacements": rows,
        "solution": solution_to_json(uq.solution),
    }


def _base(model: nn.Module) -> list[float]:
    """Two sums over all that does not train; heads that the adapter replaces play no part."""
    frozen = [
        p.detach()
        for k, p in model.named_parameters()
        if not p.requires_grad and ".original_module." not in k
    ]
    total = sum(float(p.sum(dtype=torch.float64)) for p in frozen)
    norms = [float(torch.linalg.vector_norm(p, dtype=torch.float64)) for p in frozen]
    return [total, sum(norm**2 for norm in norms) ** 0.5]


def _require_base(card: dict[str, Any], model: nn.Module) -> None:
    now, then = _base(model), cast("list[float]", card["base"])
    if any(abs(a - b) > 1e-7 * (1e-30 + then[1]) for a, b in zip(now, then, strict=True)):
        raise StaleError(
            "model must have the base that the adapters were trained on, but its frozen weights "
            "are others. Load the same pretrained model, in the same precision."
        )


def _wrapped(
    base: nn.Module, folder: Path, card: dict[str, Any], dtype: torch.dtype | None
) -> PeftModel:
    """The base model with θ̂'s adapter on it."""
    wanted = dtype or next(base.parameters()).dtype
    found: Any = PeftModel.from_pretrained(
        cast("Any", base),
        str(folder / _MAP),
        adapter_name=card["adapter"],
        is_trainable=True,
        autocast_adapter_dtype=False,
    )
    for p in found.parameters():
        if p.requires_grad:
            p.data = p.data.to(wanted)
    return found.eval()


def _read_card(folder: Path) -> dict[str, Any]:
    path = folder / _CARD
    if not path.is_file():
        raise StorageError(
            f"directory must hold saved adapters, but {str(folder)!r} has no {_CARD}. "
            "Save them with save_adapters(uq, directory)."
        )
    try:
        card = cast("dict[str, Any]", json.loads(path.read_text()))
    except json.JSONDecodeError as error:
        raise StorageError(f"{_CARD} must be JSON, but {error}.") from error
    if card.get("format") != FORMAT or "base" not in card:
        raise StorageError(
            f"{_CARD} must be that of saved adapters of format {FORMAT}, but is not. "
            "Read it with regvar.load, or with the version of regvar that wrote it."
        )
    return card


def _read(
    rows: list[dict[str, Any]],
    folder: Path,
    home: Mapping[str, Tensor],
    keys: Mapping[str, str],
    network: Network,
) -> tuple[Displacement, ...]:
    """δ_k = (adapter − its lower end) / width."""
    lows: dict[str, tuple[Mapping[str, Tensor], Params]] = {}
    moves: list[Displacement] = []
    for row in rows:
        low, origin = home, None
        if row["origin"] is not None:
            if row["origin"] not in lows:
                values = _tensors(folder / row["origin"], keys, network)
                moved = {k: v - home[k] for k, v in values.items()}
                lows[row["origin"]] = (values, _settled(moved, network))
            low, origin = lows[row["origin"]]
        width = 1.0 if row["width"] is None else row["width"]
        high = _tensors(folder / row["adapter"], keys, network)
        delta = {k: (v - low[k]) / width for k, v in high.items()}
        moves.append(Displacement(_settled(delta, network), row["width"], origin))
    return tuple(moves)


def _settled(vector: Params, network: Network) -> Params:
    """In the precision of displacements."""
    dtypes = {k: params.work_dtype(p.dtype) for k, p in network.parameters.items()}
    return {k: v.to(dtypes[k]) for k, v in vector.items()}


def _tensors(folder: Path, keys: Mapping[str, str], network: Network) -> Params:
    try:
        found = load_file(folder / _WEIGHTS)
    except Exception as error:
        raise StorageError(f"{folder.name} must be readable, but {error}. Save again.") from error
    lost = sorted(set(keys.values()) - set(found))
    if lost:
        raise StorageError(f"{folder.name} must hold {lost[0]!r}, but does not. Save again.")
    return {k: found[keys[k]].to(p.device).double() for k, p in network.parameters.items()}
