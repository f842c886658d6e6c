"""Last-layer Laplace against the GGN of the head alone: Jacobian rows and Λ by autograd."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regvar
from regvar.baselines import laplace_full
from regvar.baselines.laplace_diag import LastLayerDiag, laplace_last_layer_diag
from regvar.baselines.laplace_full import LastLayerFull, laplace_last_layer_full
from tests.contracts.networks import BY_NAME, CASES, PRECISION, NetworkCase, integers, normal
from tests.contracts.snapshots import (
    Fuse,
    differences,
    global_state,
    lived_in,
    network_state,
    set_switches,
)

from . import head_alone

FITS: dict[str, Any] = {"full": laplace_last_layer_full, "diag": laplace_last_layer_diag}
every_network = pytest.mark.parametrize("network", CASES, ids=lambda case: case.name)
both = pytest.mark.parametrize("kind", FITS)


def expected(kind: str, j: Tensor, precision: Tensor) -> Tensor:
    """The variance of Eq. 7 of each output."""
    if kind == "diag":
        return (j.square() / precision.diagonal()).sum(1)
    return (j * torch.linalg.solve(precision, j.T).T).sum(1)


@every_network
@both
def test_the_variance_is_that_of_the_head_alone(network: NetworkCase, kind: str) -> None:
    moments = FITS[kind](network.joint()).moments(network.query())
    truth = expected(kind, head_alone.jacobian(network), head_alone.precision(network))
    with torch.no_grad():
        assert torch.equal(moments.mean, network.output(network.model(), network.query_batch()))
    assert not moments.variance.requires_grad
    rounding = max(network.rounding, 1e-10)
    torch.testing.assert_close(moments.variance.flatten(), truth, rtol=rounding, atol=0)


@every_network
@both
def test_batches_dtype_and_storage_do_not_matter(network: NetworkCase, kind: str) -> None:
    uq = FITS[kind](network.joint())
    x = network.query()
    whole = uq.moments(x).variance
    one_batch = FITS[kind](network.joint(data=network.data(size=5)))
    torch.testing.assert_close(one_batch.moments(x).variance, whole, rtol=1e-5, atol=1e-12)
    joint = network.joint()
    again = type(uq).unpack(uq.pack(), joint.network, uq.fitted, uq.solution, joint)
    assert torch.equal(again.moments(x).variance, whole)
    single = FITS[kind](network.joint(torch.float32)).moments(network.query(torch.float32))
    assert single.variance.dtype is torch.float32
    torch.testing.assert_close(single.variance.double(), whole, rtol=1e-3, atol=0)


@both
@pytest.mark.parametrize("network", ["tied", "lora_llama", "segmenter"])
def test_the_network_is_left_alone(network: str, kind: str) -> None:
    case = BY_NAME[network]
    set_switches()
    model = lived_in(case.model())
    fuse = Fuse(model)
    before, world = network_state(model), global_state()
    FITS[kind](case.joint(model=model)).moments(case.query())
    assert differences(before, network_state(model)) == []
    assert differences(world, global_state()) == []
    for at in (3, 8):
        fuse.arm(at)
        with pytest.raises(ArithmeticError):
            FITS[kind](case.joint(model=model)).moments(case.query())
        assert differences(before, network_state(model)) == []


def head_problem(likelihood: Any, x: Tensor, y: Any, precision: Any, *layers: nn.Module) -> Any:
    """A joint over `layers`, the head being the last of them with parameters."""
    torch.manual_seed(0)
    model = nn.Sequential(*layers).double()
    prior = regvar.GaussianPrior(precision=precision)
    return regvar.LogJoint(
        model, [(x[:4], y[:4]), (x[4:], y[4:])], likelihood=likelihood, prior=prior
    )


def by_autograd(joint: Any, name: str, x: Tensor, y: Any, rho: Tensor | float) -> tuple[Any, Any]:
    """P of the head over the batch (x, y), and a function that gives J at other inputs."""
    alone = head_alone.head_alone(joint.model, name)
    leaves = list(alone.get_submodule(name).parameters())

    def jacobian(inputs: Tensor) -> Tensor:
        rows = [
            torch.cat([g.flatten() for g in torch.autograd.grad(f, leaves, retain_graph=True)])
            for f in alone(inputs).flatten()
        ]
        return torch.stack(rows)

    outputs = alone(x).detach()

    def negative(flat: Tensor) -> Tensor:
        return -joint.likelihood.log_prob(flat.view_as(outputs), y)

    curvature: Any = torch.autograd.functional.hessian(negative, outputs.flatten())
    j = jacobian(x)
    return j.T @ curvature @ j + torch.diag(torch.as_tensor(rho).expand(j.shape[1])), jacobian


def chosen(f: Tensor, y: Tensor) -> Tensor:
    """One softmax over all places and classes of an example, written by a user."""
    return f.flatten(1).log_softmax(1).gather(1, y[:, None])


QUESTIONS = {
    "choices": (regvar.Categorical(), (), nn.Linear(3, 1), nn.Flatten()),
    "custom over rows": (regvar.Custom(chosen), (), nn.Linear(3, 2), nn.Identity()),
    "custom in rows": (
        regvar.Custom(lambda f, y: y * f - f.exp()),
        (5, 2),
        nn.Linear(3, 2),
        nn.Identity(),
    ),
    "classes first": (
        regvar.Categorical(class_dim=1),
        (2,),
        nn.Linear(3, 5),
        nn.Identity(),
    ),
}


@both
@pytest.mark.parametrize("question", QUESTIONS)
def test_any_coupling_of_the_outputs(question: str, kind: str) -> None:
    likelihood, shape, layer, after = QUESTIONS[question]
    x, z = normal(6, 5, 3, seed=1), normal(4, 5, 3, seed=2)
    if shape == (2,):  # softmax over the 5 places, apart for each of the 5 units: rows are coupled
        y = integers(5, 6, 5, seed=3)
    else:
        y = normal(6, *shape, seed=3).abs().round() if shape else integers(5, 6, seed=3)
    joint = head_problem(likelihood, x, y, 0.7, nn.Linear(3, 3), nn.Tanh(), layer, after)
    precision, jacobian = by_autograd(joint, "2", x, y, 0.7)
    variance = FITS[kind](joint).moments(z).variance
    truth = expected(kind, jacobian(z), precision)
    torch.testing.assert_close(variance.flatten(), truth, rtol=1e-9, atol=0)


@both
def test_precisions_by_name_and_for_a_frozen_head(kind: str) -> None:
    x, y, z = normal(6, 3, seed=1), normal(6, 2, seed=2), normal(4, 3, seed=3)
    by_name = {
        "0.weight": 1.0,
        "0.bias": 1.0,
        "2.weight": normal(2, 4, seed=4).abs() + 0.1,
        "2.bias": 3.0,
    }
    layers = (nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    joint = head_problem(regvar.Gaussian(sigma=0.5), x, y, by_name, *layers)
    rho = torch.cat([by_name["2.weight"].flatten(), torch.full((2,), 3.0)])
    precision, jacobian = by_autograd(joint, "2", x, y, rho)
    truth = expected(kind, jacobian(z), precision)
    variance = FITS[kind](joint).moments(z).variance
    torch.testing.assert_close(variance.flatten(), truth, rtol=1e-9, atol=0)
    given, jacobian = by_autograd(joint, "2", x, y, 5.0)
    other = FITS[kind](joint, prior_precision=5.0).moments(z).variance
    torch.testing.assert_close(
        other.flatten(), expected(kind, jacobian(z), given), rtol=1e-9, atol=0
    )

    joint.model[2].requires_grad_(False)
    frozen = FITS[kind](joint).moments(z).variance
    torch.testing.assert_close(frozen, variance)
    joint.prior = regvar.GaussianPrior(precision={"0.weight": 1.0, "0.bias": 1.0})
    with pytest.raises(
        regvar.errors.ArgumentError, match=r"lacks \['2.weight'\].*prior_precision="
    ):
        FITS[kind](joint)


@both
def test_refusals(kind: str) -> None:
    x, y = normal(6, 3, seed=1), normal(6, 2, seed=2)
    joint = head_problem(regvar.Gaussian(sigma=0.5), x, y, 1.0, nn.Linear(3, 2))
    with pytest.raises(regvar.errors.ArgumentError, match="prior_precision must be positive"):
        FITS[kind](joint, prior_precision=0.0)
    with pytest.raises(regvar.errors.ArgumentError, match=r"regvar\.LogJoint"):
        FITS[kind](joint.model)
    joint.prior = regvar.LaplacePrior(rate=1.0)
    with pytest.raises(regvar.errors.ArgumentError, match=r"GaussianPrior.*prior_precision="):
        FITS[kind](joint)
    convex = head_problem(regvar.Custom(lambda f, y: f**2), x, y, 1.0, nn.Linear(3, 2))
    with pytest.raises(regvar.errors.DataError, match="concave"):
        FITS[kind](convex)


def blockwise(network: NetworkCase) -> Tensor:
    """The stated factorization, one dense block per class: a_c A + ρ I."""
    name = head_alone.HEADS[network.name]
    alone = head_alone.head_alone(network.model(), name)
    seen: list[Tensor] = []
    layer: Any = alone.get_submodule(name)
    layer.register_forward_pre_hook(lambda m, args: seen.append(args[0].detach()))
    batch = head_alone.data(network)
    outputs = network.output(alone, batch).detach()
    phi = seen[0].flatten(0, -2)
    f, known = outputs.flatten(0, -2), torch.ones(len(phi), dtype=torch.bool)
    if network.name == "gpt2":
        labels = nn.functional.pad(batch["labels"][:, 1:], (0, 1), value=-100)
        known = labels.flatten() >= 0
    if layer.bias is not None:
        phi = torch.cat([phi, torch.ones(len(phi), 1, dtype=phi.dtype)], 1)
    p = f[known].softmax(-1)
    a, second = (p * (1 - p)).mean(0), phi[known].T @ phi[known]
    network.output(alone, network.query_batch())
    z = seen[1].flatten(0, -2)
    if layer.bias is not None:
        z = torch.cat([z, torch.ones(len(z), 1, dtype=z.dtype)], 1)
    eye = torch.eye(len(second), dtype=second.dtype)
    columns = [(z * torch.linalg.solve(c * second + PRECISION * eye, z.T).T).sum(1) for c in a]
    return torch.stack(columns, 1)


@pytest.mark.parametrize("name", ["cnn", "gpt2", "vit"])
def test_the_factorization_is_the_one_that_is_stated(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = BY_NAME[name]
    truth = blockwise(network)
    uq = laplace_last_layer_full(network.joint(), factorized=True)
    variance = uq.moments(network.query()).variance
    torch.testing.assert_close(variance.flatten(0, -2), truth, rtol=1e-9, atol=0)

    small = laplace_last_layer_full(network.joint())
    monkeypatch.setattr(laplace_full, "LARGEST", 10)
    monkeypatch.setattr(laplace_full, "_CHUNK", 2)  # one class at a time
    large = laplace_last_layer_full(network.joint())
    assert not small.factorized
    assert large.factorized
    torch.testing.assert_close(large.moments(network.query()).variance, variance)
    again = LastLayerFull.unpack(large.pack(), large.network, large.fitted, None, None)
    assert torch.equal(
        again.moments(network.query()).variance, large.moments(network.query()).variance
    )
    with pytest.raises(
        regvar.errors.ArgumentError, match="factorized must be True for a head with"
    ):
        laplace_last_layer_full(network.joint(), factorized=False)


def test_a_factorized_bias_has_a_precision_of_its_own_but_classes_have_not() -> None:
    x, y, z = normal(6, 3, seed=1), normal(6, 2, seed=2), normal(4, 3, seed=3)
    mine: dict[str, Any] = {"0.weight": 0.3, "0.bias": 7.0}
    joint = head_problem(regvar.Gaussian(sigma=0.5), x, y, mine, nn.Linear(3, 2))
    exact = laplace_last_layer_full(joint, factorized=False).moments(z).variance
    close = laplace_last_layer_full(joint, factorized=True).moments(z).variance
    torch.testing.assert_close(close, exact, rtol=1e-10, atol=0)  # Λ is constant: nothing is lost
    mine["0.weight"] = torch.rand(2, 3) + 0.1
    with pytest.raises(regvar.errors.ArgumentError, match="same for all classes"):
        laplace_last_layer_full(joint, factorized=True)


def test_exact_sums_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    network = BY_NAME["segmenter"]
    whole = laplace_last_layer_full(network.joint()).moments(network.query()).variance
    monkeypatch.setattr(laplace_full, "_CHUNK", 1)
    pieces = laplace_last_layer_full(network.joint()).moments(network.query()).variance
    torch.testing.assert_close(pieces, whole, rtol=1e-12, atol=0)


def test_what_is_kept() -> None:
    """C (D + 1)² numbers for the full one, C (D + 1) for the diagonal, and their names."""
    joint = BY_NAME["bert"].joint()
    full, diag = laplace_last_layer_full(joint), laplace_last_layer_diag(joint)
    assert isinstance(diag, LastLayerDiag)
    assert full.pack().tensors["roots"].shape == (3, 5, 5)
    assert diag.pack().tensors["variances"].shape == (3, 5)
    assert full.pack().settings["head"] == {"name": "classifier", "classes": 3, "channels": False}
    with torch.no_grad():
        next(iter(joint.parameters.values())).add_(1.0)
    with pytest.raises(regvar.errors.StaleError):
        full.moments(BY_NAME["bert"].query())
