"""Arguments that break a rule meet an error of ours that says what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import regvar

from .mistakes import CATEGORICAL, LABELS, X, Y, joint, network, says
from .networks import BY_NAME


def good() -> regvar.LogJoint:
    return joint([(X, Y)])


# name: (what must fail, words that the error must hold)
ARGUMENTS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "lam zero": (lambda: regvar.Finetune(lam=0.0), ("lam", "0")),
    "lam zero, augmented": (lambda: regvar.data_augmentation(good(), lam=0.0), ("lam", "0")),
    "lam zero, refit": (lambda: regvar.from_refit(network(), network(), 0.0), ("lam", "0")),
    "lam zero, penalty": (lambda: regvar.penalty(Y, 0.0, 6), ("lam", "0")),
    "n zero, penalty": (lambda: regvar.penalty(Y, 1.0, 0), ("n", "0")),
    "epochs zero": (lambda: regvar.Finetune(epochs=0), ("epochs", "0")),
    "lr zero": (lambda: regvar.Finetune(lr=0.0), ("lr", "0")),
    "negative precision": (
        lambda: regvar.GaussianPrior(precision=-1.0),
        ("precision", "positive", "-1"),
    ),
    "zero precision": (lambda: regvar.GaussianPrior(precision=0.0), ("precision", "positive", "0")),
    "NaN precision": (lambda: regvar.GaussianPrior(precision=float("nan")), ("precision", "nan")),
    "negative rate": (lambda: regvar.LaplacePrior(rate=-2.0), ("rate", "positive", "-2")),
    "negative sigma": (lambda: regvar.Gaussian(sigma=-0.5), ("sigma", "positive", "-0.5")),
    "zero sigma": (lambda: regvar.Gaussian(sigma=0.0), ("sigma", "positive", "0")),
    "negative sigma in a tensor": (
        lambda: regvar.Gaussian(sigma=torch.tensor([1.0, -1.0])),
        ("sigma", "positive", "-1"),
    ),
    "no samples": (lambda: regvar.sampled(good(), samples=0), ("samples", "0")),
    "no draws": (lambda: regvar.pointwise(good()).draws(X[:1], samples=0), ("samples", "0")),
    "negative tolerance": (lambda: regvar.ConjugateGradient(tolerance=-1.0), ("tolerance", "-1")),
    "no iterations": (lambda: regvar.ConjugateGradient(max_iterations=0), ("max_iterations", "0")),
    "no audit points": (
        lambda: regvar.audit(regvar.amortized(good()), X, points=0),
        ("points", "0"),
    ),
    "augmentation of labels": (
        lambda: regvar.data_augmentation(joint([(X, LABELS)], CATEGORICAL), lam=1.0),
        ("likelihood", "gaussian", "amortized"),
    ),
    "empty probes": (
        lambda: regvar.amortized(good(), probes=[]),
        ("probes", "empty", "probes=none"),
    ),
    "a network of another shape": (
        lambda: regvar.from_refit(network(), network(3), 1.0),
        ("refitted_model", "parameters"),
    ),
    "prior for other names": (
        lambda: regvar.LogJoint(
            network(),
            [(X, Y)],
            likelihood=regvar.Gaussian(sigma=1.0),
            prior=regvar.GaussianPrior(precision={"0.weight": 1.0}),
        ).check(),
        ("precision", "0.bias"),
    ),
}


@pytest.mark.parametrize("mistake", ARGUMENTS)
def test_an_argument_that_breaks_a_rule(mistake: str) -> None:
    make, words = ARGUMENTS[mistake]
    with pytest.raises(regvar.RegvarError) as caught:
        make()
    says(caught.value, words)


@pytest.mark.parametrize("name", ["amortized", "sampled", "pointwise", "from_refit"])
def test_loading_what_does_not_belong(name: str, tmp_path: Path) -> None:
    made = {
        "amortized": lambda: regvar.amortized(good()),
        "sampled": lambda: regvar.sampled(good(), samples=2),
        "pointwise": lambda: regvar.pointwise(good()),
        "from_refit": lambda: regvar.from_refit(network(), network(), 1.0),
    }
    regvar.save(made[name](), tmp_path / "saved")
    others = {
        "another seed": BY_NAME["mlp"].joint(),
        "another architecture": joint([(X, Y[:, :1])], model=network(1)),
    }
    for other in others.values():
        with pytest.raises(regvar.RegvarError) as caught:
            regvar.load(tmp_path / "saved", other)
        says(caught.value, ("joint", "network", "saved", "weights"))


def test_loading_from_nowhere(tmp_path: Path) -> None:
    with pytest.raises(regvar.RegvarError) as caught:
        regvar.load(tmp_path / "nowhere", good())
    says(caught.value, ("directory", "nowhere", "save"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("nothing of ours")
    with pytest.raises(regvar.RegvarError) as caught:
        regvar.load(tmp_path / "other", good())
    says(caught.value, ("directory", "other", "save"))


STALE: dict[str, Callable[[regvar.LogJoint], Any]] = {
    "amortized": regvar.amortized,
    "sampled": lambda j: regvar.sampled(j, samples=2),
    "sampled by refit": lambda j: regvar.sampled(j, samples=2, solver=regvar.Finetune()),
    "from_refit": lambda j: regvar.from_refit(j.model, network(), 1.0),
}


@pytest.mark.filterwarnings("ignore::regvar.SolverWarning")
@pytest.mark.parametrize("name", STALE)
def test_weights_that_changed_since_the_fit(name: str) -> None:
    log_joint = good()
    uq = STALE[name](log_joint)
    before = uq.moments(X)
    weight = log_joint.model[2].weight
    with torch.no_grad():
        weight[1, 2] += 0.25
    with pytest.raises(regvar.RegvarError) as caught:
        uq.moments(X)
    says(caught.value, ("model", "changed", "fit"))
    with torch.no_grad():
        weight[1, 2] -= 0.25
    assert torch.equal(uq.moments(X).variance, before.variance)
