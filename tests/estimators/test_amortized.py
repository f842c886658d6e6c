"""What an amortized estimator costs and reads at inference, with the paper's own solver."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import regvar


class Counted(nn.Module):
    """A small network that counts its forward passes."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 3))
        self.passes = 0

    def forward(self, x: Tensor) -> Tensor:
        """Three outputs."""
        self.passes += 1
        return self.body(x)


@pytest.mark.parametrize(("control", "passes"), [(False, 2), (True, 3)])
def test_inference_is_the_difference_of_two_networks_and_evaluates_no_network_twice(
    control: bool, passes: int
) -> None:
    torch.manual_seed(0)
    model = Counted()
    x = torch.randn(12, 2)
    joint = regvar.LogJoint(
        model,
        [(x, torch.randint(3, (12,)))],
        likelihood=regvar.Categorical(),
        prior=regvar.GaussianPrior(precision=1.0),
    )
    solver = regvar.Finetune(lam=0.5, epochs=3, control=control, measure_residual=False)
    uq = regvar.amortized(joint, solver=solver)
    queries = torch.randn(7, 2)
    uq.moments(queries)  # the first call also looks whether the network is still the fitted one
    model.passes = 0
    moments = uq.moments(queries)
    assert model.passes == passes

    home = {k: p.detach().clone() for k, p in model.named_parameters()}
    origin = uq.displacement.origin or {k: torch.zeros_like(p) for k, p in home.items()}
    low = {k: home[k] + origin[k] for k in home}
    high = {k: low[k] + 0.5 * uq.displacement.delta[k] for k in home}
    ends = [torch.func.functional_call(model, end, (queries,)) for end in (high, low)]
    assert torch.equal(moments.mean, model(queries))
    torch.testing.assert_close(moments.variance, (ends[0] - ends[1]).abs() / 0.5)
