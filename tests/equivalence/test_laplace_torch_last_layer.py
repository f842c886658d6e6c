"""Last-layer Laplace equals laplace-torch's, where that is installed (`make bench-env`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import regvar
from regvar.baselines.laplace_diag import laplace_last_layer_diag
from regvar.baselines.laplace_full import laplace_last_layer_full
from tests.contracts.networks import integers, normal

laplace = pytest.importorskip("laplace")

PRECISION, SIGMA = 0.7, 0.3
FITS: dict[str, Any] = {"full": laplace_last_layer_full, "diag": laplace_last_layer_diag}


def regression() -> tuple[nn.Module, Tensor, Tensor, Tensor]:
    model = nn.Sequential(
        nn.Linear(3, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 2)
    )
    return model, normal(40, 3, seed=1), normal(40, 2, seed=2), normal(15, 3, seed=3)


def classification() -> tuple[nn.Module, Tensor, Tensor, Tensor]:
    model = nn.Sequential(nn.Linear(4, 25), nn.ReLU(), nn.Linear(25, 5))
    return model, normal(60, 4, seed=1), integers(5, 60, seed=2), normal(15, 4, seed=3)


def convolutional() -> tuple[nn.Module, Tensor, Tensor, Tensor]:
    model = nn.Sequential(
        nn.Conv2d(1, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(54, 10)
    )
    return model, normal(50, 1, 8, 8, seed=1), integers(10, 50, seed=2), normal(15, 1, 8, 8, seed=3)


@pytest.mark.parametrize("kind", FITS)
@pytest.mark.parametrize("build", [regression, classification, convolutional])
def test_variances_agree(build: Callable[..., Any], kind: str) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, x, y, queries = build()
    model.double().eval()
    regresses = y.is_floating_point()
    loader = DataLoader(TensorDataset(x, y), batch_size=16)
    joint = regvar.LogJoint(
        model,
        loader,
        likelihood=regvar.Gaussian(sigma=SIGMA) if regresses else regvar.Categorical(),
        prior=regvar.GaussianPrior(precision=PRECISION),
    )
    theirs = laplace.Laplace(
        model,
        "regression" if regresses else "classification",
        subset_of_weights="last_layer",
        hessian_structure=kind,
        prior_precision=PRECISION,
        sigma_noise=SIGMA if regresses else 1.0,
    )
    theirs.fit(loader)
    mean, covariance = theirs._glm_predictive_distribution(queries)
    expected = covariance.diagonal(dim1=1, dim2=2)
    ours = FITS[kind](joint).moments(queries)
    torch.testing.assert_close(ours.mean, mean.detach())
    torch.testing.assert_close(ours.variance, expected.detach(), rtol=1e-4, atol=0)
