"""Vision networks out of foreign files: what the file's own network computes, or a refusal."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import Dinov2Config, Dinov2ForImageClassification

import regvar
from regvar.data import WEIGHTS, catalogue
from regvar.errors import ArgumentError, ModelError
from regvar.huggingface import loading, onnx_weights, vision

from .mobilenet import MobileNetV2

TINY_VIT = {
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "mlp_ratio": 2,
    "image_size": 10,
    "patch_size": 2,
    "use_mask_token": False,
}
VIT = replace(vision.NETWORKS["vit-s14"], settings=TINY_VIT)
MOBILENET = replace(
    vision.NETWORKS["mobilenet-v2"],
    settings={**vision.NETWORKS["mobilenet-v2"].settings, "depth_multiplier": 0.25},
)
Weights = dict[str, Tensor]


def tiny_vit(folder: Path) -> tuple[nn.Module, Weights]:
    """A network away from where it begins, and its weights under the names of the hub."""
    torch.manual_seed(5)
    model: Any = Dinov2ForImageClassification(Dinov2Config(**TINY_VIT, num_labels=4))
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn_like(p))
    model.save_pretrained(folder)
    return model.eval(), load_file(folder / "model.safetensors")


def exported(weights: Weights, path: Path) -> Path:
    """An ONNX file of these weights, named as torch's exporter does it; it need not run."""
    nodes: list[Any] = []
    entries: list[Any] = []

    def use(op: str, scope: str, tensor: Tensor, node: str = "") -> None:
        name = f"onnx::{op}_{1900 + len(entries)}"
        path = "/" + scope.replace(".", "/").replace("layer/", "layer.") + "/" + (node or op)
        entries.append(onnx.numpy_helper.from_array(tensor.contiguous().numpy(), name))
        nodes.append(onnx.helper.make_node(op, ["x", name], [f"{path}_output_0"], name=path))

    for hub, tensor in weights.items():
        name = "backbone." + hub.removeprefix("dinov2.")
        if hub.startswith("classifier."):
            continue
        if hub.endswith("position_embeddings"):
            use("Concat", "backbone.embeddings", tensor[:, :1], "Concat_6")
            use("Reshape", "backbone.embeddings", tensor[:, 1:], "Reshape_1")
        elif tensor.dim() == 2:
            use("MatMul", name.removesuffix(".weight"), tensor.T)
        else:
            entries.append(onnx.numpy_helper.from_array(tensor.numpy(), name))
    head = torch.ones(1, 8, 1, 1).numpy()
    entries.append(onnx.numpy_helper.from_array(head, "decoder.final_conv.weight"))
    graph = onnx.helper.make_graph(nodes, "tiny", [], [], entries)
    onnx.save(onnx.helper.make_model(graph), str(path))
    return path


def body(model: nn.Module) -> Weights:
    return {k: v for k, v in model.state_dict().items() if not k.startswith("classifier.")}


def test_an_exported_vit_comes_back_bit_for_bit(tmp_path: Path) -> None:
    model, weights = tiny_vit(tmp_path)
    found = VIT.load(exported(weights, tmp_path / "vit.onnx"), classes=3).eval()
    assert found.classifier.out_features == 3
    expected = body(model)
    assert expected.keys() == body(found).keys()
    assert all(torch.equal(v, expected[k]) for k, v in body(found).items())
    for side in (10, 6):  # the grid's own size, and one that interpolates the positions
        x = torch.randn(2, 3, side, side)
        with torch.no_grad():
            a, b = (m.dinov2(x).last_hidden_state for m in (model, found))
        assert torch.equal(a, b)


def test_a_state_dict_of_torchvision_computes_the_same(tmp_path: Path) -> None:
    reference = MobileNetV2(width=0.25).shaken(seed=2).eval()
    torch.save(reference.state_dict(), tmp_path / "tiny.pth")
    found = MOBILENET.load(tmp_path / "tiny.pth", classes=3, dtype=torch.float64).eval()
    assert found.classifier.out_features == 3
    reference.double()
    for side in (64, 45):  # odd sides tell torch's padding from TensorFlow's
        x = torch.randn(2, 3, side, side, dtype=torch.float64)
        with torch.no_grad():
            expected, pooled = reference.pooled(x), found.mobilenet_v2(x).pooler_output
        assert float(expected.abs().max()) > 0.1
        torch.testing.assert_close(pooled, expected, rtol=0, atol=1e-5)


def without(weights: Weights, part: str) -> Weights:
    assert any(part in k for k in weights)
    return {k: v for k, v in weights.items() if part not in k}


def cut(weights: Weights, part: str) -> Weights:
    return {k: v[..., 1:] if part in k and v.dim() else v for k, v in weights.items()}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda w: without(w, "layer.1.mlp.fc1.weight"),
            r"1 without a value \(dinov2.encoder.layer.1.mlp.fc1.weight\)",
        ),
        (
            lambda w: without(w, "position_embeddings"),
            r"1 without a value \(dinov2.embeddings.position_embeddings\)",
        ),
        (
            lambda w: {**w, "dinov2.gate": torch.ones(1)},
            r"1 unknown \(dinov2.gate\)",
        ),
        (
            lambda w: cut(w, "layernorm"),
            r"2 of another shape \(dinov2.layernorm.bias, dinov2.layernorm.weight\)",
        ),
    ],
    ids=["missing", "positions", "unknown", "shape"],
)
def test_a_vit_that_does_not_fit_is_refused(tmp_path: Path, change: Any, told: str) -> None:
    path = exported(change(tiny_vit(tmp_path)[1]), tmp_path / "vit.onnx")
    with pytest.raises(ModelError, match=r"weights in vit.onnx must be those of Dinov2.*" + told):
        VIT.load(path, classes=3)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda w: without(w, "features.4.conv.1.0"), r"1 without a value \(.*layer.2.conv_3x3"),
        (
            lambda w: without(w, "features.0.1.running_var"),
            r"1 without a value \(.*first_conv.normalization.running_var\)",
        ),
        (
            lambda w: {**w, "features.19.0.weight": torch.ones(1), "epoch": torch.ones(1)},
            r"2 unknown \(epoch, features.19.0.weight\)",
        ),
        (lambda w: cut(w, "18.1"), r"\d of another shape \(mobilenet_v2.conv_1x1.normalization"),
    ],
    ids=["missing", "statistics", "unknown", "shape"],
)
def test_a_mobilenet_that_does_not_fit_is_refused(tmp_path: Path, change: Any, told: str) -> None:
    torch.save(change(dict(MobileNetV2(width=0.25).state_dict())), tmp_path / "tiny.pth")
    with pytest.raises(ModelError, match=r"weights in tiny.pth must be those of Mobile.*" + told):
        MOBILENET.load(tmp_path / "tiny.pth", classes=3)


def graph_of(path: Path, nodes: list[Any], names: list[str]) -> Path:
    entries = [onnx.numpy_helper.from_array(torch.ones(2, 2).numpy(), name) for name in names]
    graph = onnx.helper.make_graph(nodes, "odd", [], [], entries)
    onnx.save(onnx.helper.make_model(graph), str(path))
    return path


def test_matrices_of_an_onnx_file_must_say_whose_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = onnx.helper.make_node
    path, name = tmp_path / "odd.onnx", "onnx::MatMul_1"
    right = node("MatMul", ["x", name], ["y"], name="/a/MatMul")
    left = node("MatMul", [name, "x"], ["y"], name="/a/MatMul")
    with pytest.raises(ModelError, match=r"used by one node, .* used by 2"):
        onnx_weights.read(graph_of(path, [right, left], [name]))
    with pytest.raises(ModelError, match=r"used by one node, .* used by 0"):
        onnx_weights.read(graph_of(path, [], [name]))
    with pytest.raises(ModelError, match="must be the right factor of /a/MatMul"):
        onnx_weights.read(graph_of(path, [left], [name]))
    with pytest.raises(ModelError, match=r"two are 'a\.weight'"):
        onnx_weights.read(graph_of(path, [right], ["a.weight", name]))
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ModelError, match=r"no 'onnx'. pip install 'regvar\[weights\]'"):
        onnx_weights.read(path)


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny networks in the place of the catalogue's."""
    weights = tiny_vit(tmp_path)[1]
    exported(weights, tmp_path / WEIGHTS["vit-s14"].main)
    mobilenet = MobileNetV2(width=0.25).shaken(seed=2)
    torch.save(mobilenet.state_dict(), tmp_path / WEIGHTS["mobilenet-v2"].main)
    monkeypatch.setattr(catalogue.Weights, "fetch", lambda _: tmp_path)
    monkeypatch.setitem(vision.NETWORKS, "vit-s14", VIT)
    monkeypatch.setitem(vision.NETWORKS, "mobilenet-v2", MOBILENET)


@pytest.mark.usefixtures("packaged")
@pytest.mark.parametrize("name", vision.NETWORKS)
def test_a_short_name_gives_the_network_with_a_head_by_the_seed(name: str) -> None:
    state = torch.get_rng_state()
    first, again, other = (
        loading.load(name, "image-classification", 3, seed=seed) for seed in (0, 0, 1)
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert first.origin == "package" and not first.model.training
    heads = [p.model.classifier.weight for p in (first, again, other)]
    assert torch.equal(heads[0], heads[1]) and not torch.equal(heads[0], heads[2])
    processor = first.processor
    assert (tuple(processor.image_mean), tuple(processor.image_std)) == (vision.MEAN, vision.STD)
    assert (processor.size["height"], processor.size["width"]) == (224, 224)
    with pytest.raises(ArgumentError, match=f"task must be 'image-classification' for {name}"):
        loading.load(name, "sequence-classification", 3)


@pytest.mark.usefixtures("packaged")
def test_an_adapter_of_the_vit_trains_with_the_head_alone() -> None:
    found = loading.load("vit-s14", "image-classification", 3, adapter=loading.Adapter(rank=2))
    names = [k for k, p in found.model.named_parameters() if p.requires_grad]
    assert all("lora_" in k or "classifier.modules_to_save" in k for k in names)
    wide, inner, layers = 8, 16, 2
    lora = layers * (4 * 2 * 2 * wide + 2 * 2 * (wide + inner))
    assert found.trainable == lora + 3 * 2 * wide + 3


@pytest.mark.usefixtures("packaged")
@pytest.mark.parametrize(("name", "side"), [("vit-s14", 6), ("mobilenet-v2", 32)])
@pytest.mark.parametrize("adapter", [None, loading.Adapter(rank=2)], ids=["whole", "lora"])
def test_moments_at_a_size_of_ones_own(name: str, side: int, adapter: Any) -> None:
    if name == "mobilenet-v2" and adapter is not None:
        pytest.skip("a convolutional network has no linear layers but its head")
    found = loading.load(name, "image-classification", 3, adapter=adapter)
    batch = {"pixel_values": torch.randn(4, 3, side, side), "labels": torch.tensor([0, 1, 2, 0])}
    joint = regvar.LogJoint(
        found.model,
        [batch],
        likelihood=regvar.Categorical(),
        prior=regvar.GaussianPrior(precision=1.0),
    )
    vector = {k: torch.randn_like(p) for k, p in joint.parameters.items()}
    joint.network.jvp(batch, vector)
    assert joint.network.mode == "forward"
    refit = regvar.Finetune(epochs=1, lr=1e-4, measure_residual=False)
    moments = regvar.sampled(joint, samples=1, solver=refit).moments(batch)
    assert moments.std.shape == (4, 3)
    assert bool(moments.std.isfinite().all()) and float(moments.std.max()) > 0


def cached(name: str) -> Path:
    entry = WEIGHTS[name]
    if not all(file.path.is_file() for file in entry.files):
        pytest.skip(f"{name} is not in the cache")
    return entry.fetch() / entry.main


@pytest.mark.slow
def test_the_real_vit_computes_what_onnxruntime_does() -> None:
    path, hidden = cached("vit-s14"), "/backbone/layernorm/Add_1_output_0"
    onnxruntime = pytest.importorskip("onnxruntime")
    file = onnx.load(str(path))
    shape = onnx.helper.make_tensor_value_info(hidden, onnx.TensorProto.FLOAT, None)
    file.graph.output.append(shape)
    session = onnxruntime.InferenceSession(
        file.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    x = torch.randn(2, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    expected = torch.from_numpy(session.run([hidden], {"input_image": x.numpy()})[0])
    found = loading.load("vit-s14", "image-classification", 10)
    assert sum(v.numel() for v in body(found.model).values()) == 22_056_192
    with torch.no_grad():
        torch.testing.assert_close(
            found.model.dinov2(x).last_hidden_state, expected, rtol=0, atol=1e-4
        )


@pytest.mark.slow
def test_the_real_mobilenet_computes_what_plain_torch_does() -> None:
    reference = MobileNetV2().eval()
    reference.load_state_dict(torch.load(cached("mobilenet-v2"), weights_only=True))
    found = loading.load("mobilenet-v2", "image-classification", 10)
    x = torch.randn(2, 3, 96, 96, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected, pooled = reference.pooled(x), found.model.mobilenet_v2(x).pooler_output
    torch.testing.assert_close(pooled, expected, rtol=0, atol=1e-5)
