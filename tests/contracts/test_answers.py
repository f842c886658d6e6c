"""On every network the converged answers are those of dense linear algebra done by hand."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor

import regvar
from regvar.curvature import Precision

from . import by_hand
from .estimators import label
from .networks import CASES, NetworkCase, normal

every_network = pytest.mark.parametrize("network", CASES, ids=label)


@cache
def joint(network: NetworkCase) -> regvar.LogJoint:
    """Shared, so that the dense factor is made once; in one batch, which is quickest."""
    return network.joint(data=network.data(size=5))


@cache
def precision(network: NetworkCase) -> Tensor:
    return by_hand.ggn_precision(network, network.model(), network.data(size=5)[0])


@cache
def query_jacobian(network: NetworkCase) -> Tensor:
    return by_hand.jacobian(network, network.model(), network.query_batch())


def agree(actual: Tensor, expected: Tensor, network: NetworkCase) -> None:
    rtol = 1e-7 if network.rounding < 1e-6 else 2e-3
    atol = rtol * float(expected.abs().max())
    torch.testing.assert_close(actual.flatten(), expected, rtol=rtol, atol=atol)


@every_network
def test_pointwise_is_the_linearized_variance(network: NetworkCase) -> None:
    """J P⁻¹ Jᵀ, its diagonal and the rest of it (Eq. 7)."""
    j = query_jacobian(network)
    exact = j @ torch.linalg.solve(precision(network), j.T)
    uq = regvar.pointwise(joint(network), solver=regvar.Direct(regvar.GGN()))
    agree(uq.moments(network.query()).variance, exact.diagonal(), network)
    agree(uq.covariance(network.query()), exact.flatten(), network)


@every_network
def test_amortized_is_the_response_to_the_mean_output(network: NetworkCase) -> None:
    """|J(x) P⁻¹ ∇t| with t over probes (Eq. 15) and over the scored training outputs (Eq. 16)."""
    model, batch = network.model(), network.data(size=5)[0]
    j = query_jacobian(network)
    probes = network.query_batch()
    outputs = network.output(model, probes).detach()
    gradient = outputs.sign().flatten() @ j / network.queries
    exact = (j @ torch.linalg.solve(precision(network), gradient)).abs()
    tolerance = 1e-6 if network.rounding > 1e-6 else 1e-10
    solver = regvar.ConjugateGradient(regvar.GGN(), tolerance=tolerance)
    uq = regvar.amortized(joint(network), probes=[probes], solver=solver)
    agree(uq.moments(network.query()).variance, exact, network)

    outputs = network.output(model, batch).detach()
    signs = outputs.sign() * by_hand.scored(network, outputs, batch)
    gradient = signs.flatten() @ by_hand.jacobian(network, model, batch) / 5
    exact = (j @ torch.linalg.solve(precision(network), gradient)).abs()
    uq = regvar.amortized(joint(network), solver=regvar.Direct(regvar.GGN()))
    agree(uq.moments(network.query()).variance, exact, network)


@every_network
def test_parameter_is_the_inverse_times_the_signs(network: NetworkCase) -> None:
    """|P⁻¹ sign θ̂| (Eq. 18)."""
    signs = [p.detach().sign().flatten() for p in by_hand.trainable(network.model()).values()]
    exact = torch.linalg.solve(precision(network), torch.cat(signs)).abs()
    uq = regvar.parameter(joint(network), solver=regvar.Direct(regvar.GGN()))
    agree(torch.cat([v.flatten() for v in uq.variance.values()]), exact, network)


@every_network
def test_the_hessian_is_exact_too(network: NetworkCase) -> None:
    """P v with both terms of Eq. 5, by differentiating twice, through attention and LSTM alike."""
    model, batch = network.model(), network.data(size=5)[0]
    v = {
        name: normal(*p.shape, seed=i)
        for i, (name, p) in enumerate(by_hand.trainable(model).items())
    }
    expected = by_hand.hessian_product(network, model, batch, v)
    product = Precision(joint(network), regvar.Hessian()).products([v])[0]
    flat = torch.cat([expected[k].flatten() for k in v])
    agree(torch.cat([product[k].flatten() for k in v]), flat, network)


@every_network
def test_sampled_draws_have_the_inverse_precision(network: NetworkCase) -> None:
    """P-whitened, the draws of θ behind `sampled` are standard normal: ‖P^½ δ‖² has mean dim θ."""
    uq = regvar.sampled(joint(network), samples=8, solver=regvar.Direct(regvar.GGN()), seed=1)
    p = precision(network)
    energies = []
    for move in uq.solution.value:
        delta = torch.cat([part.flatten() for part in move.delta.values()])
        energies.append(float(delta @ p @ delta))
    size = len(p)
    # The sum is chi-squared with 8 dim θ degrees of freedom; five standard deviations.
    assert sum(energies) == pytest.approx(8 * size, abs=5 * (2 * 8 * size) ** 0.5)
