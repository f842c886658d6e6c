"""LoRA uncertainty on disk: PEFT's own format, no base weight, equal moments after loading."""

from __future__ import annotations

import copy
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel
from safetensors.torch import load_file
from torch import nn

import regvar
from regvar.errors import ModelError, StaleError, StorageError
from regvar.huggingface import load_adapters, save_adapters

from ..contracts import modules
from ..contracts.networks import NetworkCase, split
from .tiny import PRIOR, case_of

SOLVERS: dict[str, Any] = {
    "tangent": regvar.ConjugateGradient(regvar.GGN()),
    "refit": regvar.Finetune(lam=0.3, epochs=1, lr=0.01, measure_residual=False),
}
NAMES = ["lora_gpt2", "lora_llama"]


def pair(name: str, dtype: torch.dtype) -> tuple[nn.Module, nn.Module]:
    """A base as its owner would load it again, and the PEFT model fitted on a copy of it."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        torch.manual_seed(0)
        base = (modules.gpt2() if name == "lora_gpt2" else modules.llama()).to(dtype).eval()
        config = (
            LoraConfig(task_type="CAUSAL_LM", r=2, target_modules=["c_attn"], fan_in_fan_out=True)
            if name == "lora_gpt2"
            else LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["q_proj", "v_proj"])
        )
        config.init_lora_weights = False
        model = modules.adapted(copy.deepcopy(base), config).to(dtype).eval()
        for p in model.parameters():
            if p.requires_grad:  # a fitted head and adapter are not the base's
                p.data.add_(0.1 * torch.randn_like(p))
    return base, model


def joint_of(case: NetworkCase, model: nn.Module, dtype: torch.dtype) -> regvar.LogJoint:
    return regvar.LogJoint(model, case.data(dtype), likelihood=regvar.Categorical(), prior=PRIOR)


def fitted(kind: str, joint: regvar.LogJoint, solver: Any) -> Any:
    if kind == "amortized":
        return regvar.amortized(joint, solver=solver)
    return regvar.sampled(joint, 3, solver)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["double", "single"])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", ["amortized", "sampled"])
@pytest.mark.parametrize("name", NAMES)
def test_equal_moments_on_a_fresh_base(
    name: str, kind: str, solver: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    case = case_of(name)
    base, model = pair(name, dtype)
    uq = fitted(kind, joint_of(case, model, dtype), SOLVERS[solver])
    save_adapters(uq, tmp_path / "uq")
    again = load_adapters(tmp_path / "uq", base)
    assert type(again) is type(uq) and again.joint is None
    query = split(case.query_batch(dtype))[0]
    found, expected = again.moments(query), uq.moments(query)
    assert torch.equal(found.mean, expected.mean)
    rtol = 1e-9 if dtype is torch.float64 else 1e-5
    torch.testing.assert_close(found.variance, expected.variance, rtol=rtol, atol=1e-12)
    assert again.solution.status is uq.solution.status
    other = load_adapters(tmp_path / "uq", uq.joint)
    assert other.joint is uq.joint
    if dtype is torch.float32:  # θ̂ + δ in double precision gives float32's δ back to the bit
        for a, b in zip(moves(other), moves(uq), strict=True):
            assert a.width == b.width
            assert all(torch.equal(a.delta[k], b.delta[k]) for k in b.delta)


def moves(uq: Any) -> Any:
    return uq.pack().displacements


@pytest.mark.parametrize("name", NAMES)
def test_peft_alone_reads_each_adapter_as_the_refitted_network(name: str, tmp_path: Path) -> None:
    """θ̂, the control and each refit are networks: PEFT loads them and gives their outputs."""
    case = case_of(name)
    base, model = pair(name, torch.float64)
    uq = fitted("sampled", joint_of(case, model, torch.float64), SOLVERS["refit"])
    save_adapters(uq, tmp_path / "uq")
    query = split(case.query_batch())[0]
    plain: Any = PeftModel.from_pretrained(
        base,
        str(tmp_path / "uq" / "map"),
        autocast_adapter_dtype=False,  # type: ignore[arg-type]
    )
    plain.to(torch.float64).eval()
    outputs: dict[str, torch.Tensor] = {}
    with torch.no_grad():
        torch.testing.assert_close(plain(**query).logits, uq.moments(query).mean)
        for place in ("control-0000", "regvar-0000", "regvar-0001", "regvar-0002"):
            plain.load_adapter(
                str(tmp_path / "uq" / place), adapter_name=place, autocast_adapter_dtype=False
            )
            plain.to(torch.float64)
            plain.set_adapter(place)
            outputs[place] = plain(**query).logits
    responses = [
        (outputs[f"regvar-000{k}"] - outputs["control-0000"]) / uq.displacements[k].width
        for k in range(3)
    ]
    variance = torch.stack(responses).square().mean(0)
    torch.testing.assert_close(variance, uq.moments(query).variance, rtol=1e-7, atol=1e-12)


def test_no_base_weight_is_written(tmp_path: Path) -> None:
    case = case_of("lora_gpt2")
    _, model = pair("lora_gpt2", torch.float32)
    uq = fitted("sampled", joint_of(case, model, torch.float32), SOLVERS["tangent"])
    save_adapters(uq, tmp_path)
    folders = sorted(p.name for p in tmp_path.iterdir() if p.is_dir())
    assert folders == ["map", "regvar-0000", "regvar-0001", "regvar-0002"]
    adapter = sum(p.numel() for p in uq.network.parameters.values())
    for folder in folders:
        tensors = load_file(tmp_path / folder / "adapter_model.safetensors")
        assert sum(t.numel() for t in tensors.values()) == adapter
        assert all("lora_" in key and "default" not in key for key in tensors)
        config = json.loads((tmp_path / folder / "adapter_config.json").read_text())
        assert config["peft_type"] == "LORA" and config["r"] == 2
    assert json.loads((tmp_path / "card.json").read_text())["kind"] == "Sampled"


def test_saving_leaves_the_model_alone_and_replaces_an_earlier_save(tmp_path: Path) -> None:
    case = case_of("lora_gpt2")
    _, model = pair("lora_gpt2", torch.float32)
    uq = fitted("sampled", joint_of(case, model, torch.float32), SOLVERS["tangent"])
    before = {k: v.clone() for k, v in model.state_dict().items()}
    save_adapters(uq, tmp_path / "uq")
    save_adapters(fitted("amortized", uq.joint, SOLVERS["tangent"]), tmp_path / "uq")
    assert sorted(p.name for p in (tmp_path / "uq").iterdir() if p.is_dir()) == [
        "map",
        "regvar-0000",
    ]
    assert [p.name for p in tmp_path.iterdir()] == ["uq"]
    assert model.peft_config["default"].inference_mode is False  # type: ignore[index, union-attr]
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def test_another_base_or_another_adapter_is_refused(tmp_path: Path) -> None:
    case = case_of("lora_gpt2")
    base, model = pair("lora_gpt2", torch.float32)
    uq = fitted("amortized", joint_of(case, model, torch.float32), SOLVERS["tangent"])
    save_adapters(uq, tmp_path / "uq")
    other = copy.deepcopy(base)
    with torch.no_grad():
        next(other.parameters()).add_(0.1)
    with pytest.raises(StaleError, match=r"model must have the base .* Load the same pretrained"):
        load_adapters(tmp_path / "uq", other)
    with torch.no_grad():
        next(p for p in model.parameters() if p.requires_grad).add_(0.1)
    with pytest.raises(StaleError, match="parameters and buffers it was fitted with"):
        load_adapters(tmp_path / "uq", model)
    with pytest.raises(StaleError):
        save_adapters(uq, tmp_path / "later")
    assert not (tmp_path / "later").exists()


def test_what_is_no_adapter_is_refused(tmp_path: Path) -> None:
    case = case_of("gpt2")
    joint = joint_of(case, case.model(torch.float32), torch.float32)
    with pytest.raises(ModelError, match=r"must be a peft.PeftModel.*Use regvar.save"):
        save_adapters(fitted("amortized", joint, SOLVERS["tangent"]), tmp_path / "uq")
    _, model = pair("lora_gpt2", torch.float32)
    bias = next(k for k, _ in model.named_parameters() if k.endswith("ln_f.bias"))
    model.get_parameter(bias).requires_grad_(True)
    joint = joint_of(case, model, torch.float32)
    with pytest.raises(ModelError, match=r"must train its adapter alone.*ln_f.bias.*regvar.save"):
        save_adapters(fitted("amortized", joint, SOLVERS["tangent"]), tmp_path / "uq")
    assert not (tmp_path / "uq").exists()


def test_damaged_and_foreign_folders_are_refused(tmp_path: Path) -> None:
    case = case_of("lora_gpt2")
    base, model = pair("lora_gpt2", torch.float32)
    uq = fitted("amortized", joint_of(case, model, torch.float32), SOLVERS["tangent"])
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("keep")
    with pytest.raises(StorageError, match="holds other files"):
        save_adapters(uq, tmp_path / "notes")
    with pytest.raises(StorageError, match=r"has no card.json.*save_adapters"):
        load_adapters(tmp_path / "notes", base)
    regvar.save(uq, tmp_path / "plain")
    with pytest.raises(StorageError, match=r"Read it with regvar.load"):
        load_adapters(tmp_path / "plain", base)
    save_adapters(uq, tmp_path / "uq")
    (tmp_path / "uq" / "regvar-0000" / "adapter_model.safetensors").write_bytes(b"no")
    with pytest.raises(StorageError, match="regvar-0000 must be readable"):
        load_adapters(tmp_path / "uq", base)
