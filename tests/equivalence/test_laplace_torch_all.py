"""laplace-torch against dense algebra by hand and against our own baselines, where it is installed.

KFAC is checked against its definition: for a linear layer that sees inputs a_i and whose outputs
z_i reach f with Jacobian S_i = ∂f_i/∂z_i, the GGN's block of the weight is taken to be
(Σ_i S_iᵀ Λ_i S_i) ⊗ (1/n Σ_i a_i a_iᵀ), and that of the bias is exact in its first factor.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regvar
from regvar import baselines
from tests.contracts.snapshots import differences, lived_in, network_state
from tests.oracles.cases import Case, untrained
from tests.oracles.dense import Problem, ggn_precision, jacobian
from tests.oracles.densities import output_curvature
from tests.oracles.front_door import log_joint, relative_error
from tests.oracles.networks import GatedNet, ResidualNet, TanhNet

installed = importlib.util.find_spec("laplace") is not None
needs_it = pytest.mark.skipif(not installed, reason="laplace-torch is not installed")
NETWORKS: dict[type[nn.Module], int] = {TanhNet: 2, GatedNet: 2, ResidualNet: 1}  # head's tensors
PRECISION, AGREEMENT = 2.0, 1e-4
every_network = pytest.mark.parametrize("network", NETWORKS, ids=lambda n: n.__name__)
every_likelihood = pytest.mark.parametrize("likelihood", ["gaussian", "categorical"])


def problem(network: type[nn.Module], likelihood: str) -> Problem:
    """An untrained network with an even prior of mean zero, which is all that the package knows."""
    made = untrained(Case(network, likelihood))
    made.precision, made.mean = PRECISION, None
    return made


def variance(of: Problem, precision: Tensor, first: int = 0) -> Tensor:
    """The diagonal of J P⁻¹ Jᵀ with the columns of J from `first` on."""
    j = jacobian(of.model, of.queries)[:, first:]
    return (j @ torch.linalg.solve(precision, j.T)).diagonal()


def theirs(of: Problem, subset: str, structure: str) -> Tensor:
    uq = baselines.laplace_torch(log_joint(of), subset, structure)
    moments = uq.moments(of.queries)
    assert torch.equal(moments.mean, of.model(of.queries))
    return moments.variance.flatten()


@needs_it
@every_network
@every_likelihood
@pytest.mark.parametrize("structure", ["full", "diag"])
def test_all_layers(network: type[nn.Module], likelihood: str, structure: str) -> None:
    of = problem(network, likelihood)
    precision = ggn_precision(of)
    if structure == "diag":
        precision = torch.diag(precision.diagonal())
    found = theirs(of, "all", structure)
    assert relative_error(found, variance(of, precision)) < AGREEMENT
    if structure == "full":
        ours = baselines.ggn(log_joint(of)).moments(of.queries).variance.flatten()
        assert relative_error(found, ours) < AGREEMENT


@needs_it
@every_network
@every_likelihood
@pytest.mark.parametrize("structure", ["full", "diag"])
def test_the_last_layer(network: type[nn.Module], likelihood: str, structure: str) -> None:
    of = problem(network, likelihood)
    whole = ggn_precision(of)
    size = sum(p.numel() for p in list(of.model.parameters())[-NETWORKS[network] :])
    precision = whole[-size:, -size:]
    if structure == "diag":
        precision = torch.diag(precision.diagonal())
    found = theirs(of, "last_layer", structure)
    assert relative_error(found, variance(of, precision, len(whole) - size)) < AGREEMENT
    own: dict[str, Callable[[regvar.LogJoint], Any]] = {
        "full": baselines.laplace_last_layer_full,
        "diag": baselines.laplace_last_layer_diag,
    }
    ours = own[structure](log_joint(of)).moments(of.queries).variance.flatten()
    assert relative_error(found, ours) < AGREEMENT


def kfac_precision(of: Problem, layers: list[nn.Linear]) -> Tensor:
    """Blocks of the GGN by the definition of KFAC, in the order of the parameters."""
    seen: dict[nn.Linear, tuple[Tensor, Tensor]] = {}
    handles = [
        layer.register_forward_hook(lambda m, a, z: seen.__setitem__(m, (a[0], z)))
        for layer in layers
    ]
    outer = {layer: torch.zeros(layer.out_features, layer.out_features) for layer in layers}
    inner = {layer: torch.zeros(layer.in_features, layer.in_features) for layer in layers}
    n = len(of.inputs)
    for x, y in zip(of.inputs, of.targets, strict=True):
        f = of.model(x.unsqueeze(0))
        curvature = output_curvature(of.likelihood, f.detach(), y, of.sigma)
        for layer in layers:
            a, z = seen[layer]
            rows = [torch.autograd.grad(c, z, retain_graph=True)[0].flatten() for c in f.flatten()]
            s = torch.stack(rows)
            outer[layer] = outer[layer] + s.T @ curvature @ s
            inner[layer] = inner[layer] + a.detach().T @ a.detach() / n
    for handle in handles:
        handle.remove()
    blocks = [
        block
        for layer in layers
        for block in (torch.kron(outer[layer], inner[layer]), outer[layer])
    ]
    whole = torch.block_diag(*blocks)
    return whole + PRECISION * torch.eye(len(whole), dtype=whole.dtype)


@needs_it
@pytest.mark.parametrize("network", [TanhNet, GatedNet], ids=lambda n: n.__name__)
@every_likelihood
@pytest.mark.parametrize("subset", ["all", "last_layer"])
def test_kfac_is_its_definition(network: type[nn.Module], likelihood: str, subset: str) -> None:
    of = problem(network, likelihood)
    layers = [m for m in of.model.modules() if isinstance(m, nn.Linear)]
    layers = layers[-1:] if subset == "last_layer" else layers
    precision = kfac_precision(of, layers)
    first = sum(p.numel() for p in of.model.parameters()) - len(precision)
    found = theirs(of, subset, "kron")
    assert relative_error(found, variance(of, precision, first)) < AGREEMENT


@needs_it
@pytest.mark.parametrize("subset", ["all", "last_layer"])
@pytest.mark.parametrize("structure", ["full", "diag", "kron"])
def test_nothing_is_changed_and_saved_is_loaded(
    subset: str, structure: str, tmp_path: Path
) -> None:
    of = problem(TanhNet, "categorical")
    model = lived_in(of.model)
    before = network_state(model)
    uq = baselines.laplace_torch(log_joint(of), subset, structure)
    moments = uq.moments(of.queries)
    regvar.save(uq, tmp_path / "saved")
    assert differences(before, network_state(model)) == []
    again = regvar.load(tmp_path / "saved", of.model)
    assert torch.equal(again.moments(of.queries).variance, moments.variance)
    rows = [uq.moments(of.queries[i : i + 1]).variance for i in range(len(of.queries))]
    assert torch.equal(torch.cat(rows), moments.variance)


@needs_it
def test_dictionaries_go_in_as_they_are() -> None:
    from tests.contracts.networks import BY_NAME

    network = BY_NAME["bert"]
    uq = baselines.laplace_torch(network.joint(), "last_layer", "full")
    ours = baselines.laplace_last_layer_full(network.joint()).moments(network.query())
    found = uq.moments(network.query()).variance
    assert relative_error(found, ours.variance) < AGREEMENT
    found = (
        baselines.laplace_torch(network.joint(), "all", "full").moments(network.query()).variance
    )
    ours = baselines.ggn(network.joint()).moments(network.query())
    assert relative_error(found, ours.variance) < AGREEMENT


@needs_it
def test_what_the_package_cannot_take_is_refused() -> None:
    of = problem(TanhNet, "gaussian")
    model, data = of.model, of.batches
    gaussian, even = regvar.Gaussian(sigma=1.0), regvar.GaussianPrior(precision=1.0)
    refused = {
        "prior must be GaussianPrior": (gaussian, regvar.LaplacePrior(rate=1.0)),
        "sigma must be one number": (regvar.Gaussian(sigma=torch.tensor([1.0, 2.0])), even),
        "likelihood must be Gaussian or Categorical": (regvar.Bernoulli(), even),
    }
    for words, (likelihood, prior) in refused.items():
        joint = regvar.LogJoint(model, data, likelihood=likelihood, prior=prior)
        with pytest.raises(regvar.RegvarError, match=words):
            baselines.laplace_torch(joint)
    no_head = nn.Sequential(nn.Conv1d(2, 2, 1), nn.Flatten()).double()
    images = [(x[:, :, None], y) for x, y in data]
    joint = regvar.LogJoint(no_head, images, likelihood=gaussian, prior=even)
    with pytest.raises(regvar.RegvarError, match="model must suit laplace-torch"):
        baselines.laplace_torch(joint, "last_layer", "full")
    labels = problem(TanhNet, "categorical")
    hidden = [(x, y.where(y > 0, -100)) for x, y in labels.batches]
    joint = regvar.LogJoint(labels.model, hidden, likelihood=regvar.Categorical(), prior=even)
    with pytest.raises(regvar.RegvarError, match=r"^targets must all be scored"):
        baselines.laplace_torch(joint)


@pytest.mark.skipif(installed, reason="laplace-torch is installed")
def test_without_the_package_the_error_says_what_to_install() -> None:
    with pytest.raises(regvar.RegvarError, match="pip install laplace-torch"):
        baselines.laplace_torch(log_joint(problem(TanhNet, "gaussian")))


@pytest.mark.parametrize("asked", [{"subset": "some"}, {"structure": "tree"}])
def test_unknown_words_are_refused(asked: dict[str, str]) -> None:
    (name,) = asked
    with pytest.raises(regvar.RegvarError, match=f"{name} must be one of"):
        baselines.laplace_torch(log_joint(problem(TanhNet, "gaussian")), **asked)
