"""Joints that cannot be used: wrong data, wrong networks, and what the errors must say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import regvar

from .networks import normal

X, Y = normal(6, 3, seed=1), normal(6, 2, seed=2)
LABELS = torch.tensor([0, 1, 1, 0, 1, 0])


def network(outputs: int = 2) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, outputs)).double()


def joint(
    data: Any,
    likelihood: Any = None,
    model: nn.Module | None = None,
    forward: Any = None,
) -> regvar.LogJoint:
    return regvar.LogJoint(
        network() if model is None else model,
        data,
        likelihood=likelihood or regvar.Gaussian(sigma=0.5),
        prior=regvar.GaussianPrior(precision=1.0),
        forward=forward,
    )


def with_value(tensor: Tensor, value: float) -> Tensor:
    changed = tensor.clone()
    changed[(2,) + (0,) * (tensor.dim() - 1)] = value
    return changed


class OneShot:
    """Looks re-iterable, but its second pass is empty."""

    def __init__(self) -> None:
        self.source = iter([(X, Y)])

    def __iter__(self) -> Iterator[Any]:
        return self.source


class NoisyDisk:
    """New content on each pass, from a source of randomness that nobody can seed."""

    def __init__(self) -> None:
        self.passes = 0

    def __iter__(self) -> Iterator[Any]:
        self.passes += 1
        yield X + 0.1 * self.passes, Y


class Augmented(Dataset[Any]):
    """Fresh noise on each read, from the global generator."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return X[index] + torch.randn(3, dtype=torch.float64), Y[index]


class Strange(nn.Module):
    """Returns something that holds no outputs that we know."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network()

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"hidden": self.body(x)}


class Loss(Strange):
    """Returns its loss in place of its predictions."""

    def forward(self, x: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.body(x).square().mean()


def frozen() -> nn.Module:
    return network().requires_grad_(False)


def batch_norm() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).double().train()


def dropout() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2)).double().train()


def recurrent_dropout() -> nn.Module:
    """Dropout that is not a module of its own."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru = nn.GRU(3, 2, num_layers=2, dropout=0.5)

        def forward(self, x: Tensor) -> Tensor:
            return self.gru(x.unsqueeze(0))[0][0]

    return Net().double().train()


def _spoil(module: nn.Module) -> None:
    with torch.no_grad():
        next(module.parameters())[0, 0] = float("nan")


CATEGORICAL, BERNOULLI = regvar.Categorical(), regvar.Bernoulli()
WIDE = torch.zeros(6, 2, 2, dtype=torch.float64)

# name: (what makes the joint, words that the error must hold)
JOINTS: dict[str, tuple[Callable[[], regvar.LogJoint], tuple[str, ...]]] = {
    "empty list": (lambda: joint([]), ("data", "at least one", "empty", "check")),
    "empty loader": (
        lambda: joint(DataLoader([(X[0], Y[0])], batch_size=4, drop_last=True)),
        ("data", "at least one", "empty", "drop_last"),
    ),
    "one-shot generator": (
        lambda: joint((X[i : i + 2], Y[i : i + 2]) for i in (0, 2, 4)),
        ("data", "re-iterable", "generator", "list("),
    ),
    "one-shot iterator": (lambda: joint(iter([(X, Y)])), ("data", "re-iterable", "list(")),
    "one-shot object": (lambda: joint(OneShot()), ("data", "every pass", "list(")),
    "new content each pass": (lambda: joint(NoisyDisk()), ("data", "every pass", "augmentation")),
    "augmenting loader": (
        lambda: joint(DataLoader(Augmented(), batch_size=2)),
        ("data", "every pass", "augmentation"),
    ),
    "bare tensors": (lambda: joint((X, Y)), ("data", "iterable of batches", "[(inputs, targets)]")),
    "a bare tensor": (lambda: joint(X), ("data", "iterable of batches", "[(inputs, targets)]")),
    "a bare dict": (
        lambda: joint({"input_ids": X, "labels": LABELS}),
        ("data", "iterable of batches", "batch"),
    ),
    "three parts": (lambda: joint([(X, Y, Y)]), ("data", "3 parts", "forward=")),
    "no targets": (lambda: joint([(X,)]), ("data", "targets", "(inputs, targets)")),
    "NaN input": (lambda: joint([(with_value(X, float("nan")), Y)]), ("nan", "inputs", "finite")),
    "NaN target": (lambda: joint([(X, with_value(Y, float("nan")))]), ("nan", "targets", "finite")),
    "NaN weight": (
        lambda: joint([(X, Y)], model=nn.Linear(3, 2).double().apply(_spoil)),
        ("nan", "parameters", "finite"),
    ),
    "label too large": (
        lambda: joint([(X, LABELS + 1)], CATEGORICAL),
        ("label", "0..1", "2", "out of range", "outputs"),
    ),
    "label negative": (
        lambda: joint([(X, LABELS - 1)], CATEGORICAL),
        ("label", "0..1", "-1", "out of range", "ignore_index"),
    ),
    "every label ignored": (
        lambda: joint([(X, LABELS * 0 - 100)], CATEGORICAL),
        ("data", "at least one", "ignored", "ignore_index"),
    ),
    "Bernoulli out of range": (
        lambda: joint([(X[:, :2], Y)], BERNOULLI, nn.Linear(2, 2).double()),
        ("bernoulli", "label", "0..1", "out of range"),
    ),
    "Gaussian shapes": (
        lambda: joint([(X, Y[:, 0])], model=network(1)),
        ("targets", "gaussian", "(6, 1)", "(6,)", "y[:, none]"),
    ),
    "Bernoulli shapes": (
        lambda: joint([(X, LABELS)], BERNOULLI, network(1)),
        ("targets", "bernoulli", "(6, 1)", "(6,)", "y[:, none]"),
    ),
    "Categorical float labels": (
        lambda: joint([(X, LABELS.double())], CATEGORICAL),
        ("categorical", "whole numbers", "float64", "long()"),
    ),
    "Categorical one-hot": (
        lambda: joint([(X, nn.functional.one_hot(LABELS))], CATEGORICAL),
        ("categorical", "(6,)", "(6, 2)", "class_dim"),
    ),
    "Categorical rank": (
        lambda: joint([(WIDE, LABELS)], CATEGORICAL, nn.Linear(2, 2).double()),
        ("categorical", "(6, 2)", "(6,)", "class_dim"),
    ),
    "no trainable parameter": (
        lambda: joint([(X, Y)], model=frozen()),
        ("model", "trainable", "requires_grad_(true)"),
    ),
    "no parameter at all": (
        lambda: joint([(X, X)], model=nn.Tanh()),
        ("model", "trainable", "requires_grad_(true)"),
    ),
    "live dropout": (
        lambda: joint([(X, Y)], model=dropout()),
        ("model", "deterministic", "dropout", "model.eval()"),
    ),
    "live recurrent dropout": (
        lambda: joint([(X, Y)], model=recurrent_dropout()),
        ("model", "deterministic", "model.eval()"),
    ),
    "BatchNorm in train mode": (
        lambda: joint([(X, Y)], model=batch_norm()),
        ("model", "batchnorm", "train mode", "model.eval()"),
    ),
    "unknown outputs": (
        lambda: joint([(X, Y)], model=Strange()),
        ("model", "tensor", "dict", ".logits", "forward="),
    ),
    "a loss as output": (lambda: joint([(X, Y)], model=Loss()), ("output", "(6)", "forward=")),
    "not a model": (lambda: joint([(X, Y)], model=len), ("model", "nn.module", "builtin")),
    "a likelihood class": (
        lambda: joint([(X, LABELS)], regvar.Categorical),
        ("likelihood", "categorical"),
    ),
}


def says(error: BaseException, words: tuple[str, ...]) -> None:
    """The text holds every word and names a remedy (a second sentence)."""
    text = str(error).lower()
    missing = [word for word in words if word.lower() not in text]
    assert not missing, f"{missing} not in: {error}"
    assert len(text) < 400, f"too long: {error}"
