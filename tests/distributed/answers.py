"""Every solver and estimator on small networks: what one process and two must agree on."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import regvar
from regvar.estimators import Parameter

Wrap = Callable[[nn.Module], nn.Module]
Answers = dict[str, Tensor]

SOLVERS = {
    "finetune": regvar.Finetune(lam=0.1, epochs=2, lr=1e-2),
    "finetune-paired": regvar.Finetune(lam=0.1, epochs=2, lr=1e-2, paired=True),
    "finetune-lbfgs": regvar.Finetune(
        lam=1e-2, epochs=3, lr=1.0, optimizer=torch.optim.LBFGS, full_batch=True, tolerance=1e-9
    ),
    "cg": regvar.ConjugateGradient(regvar.GGN()),
    "cg-four-steps": regvar.ConjugateGradient(regvar.GGN(), max_iterations=4),
    "cg-jacobi-four-steps": regvar.ConjugateGradient(
        regvar.GGN(), max_iterations=4, preconditioner=regvar.Jacobi(samples=3)
    ),
    "cg-nystrom": regvar.ConjugateGradient(regvar.GGN(), preconditioner=regvar.Nystrom(rank=5)),
    "minres": regvar.Minres(regvar.GGN()),
    "minres-hessian-four-steps": regvar.Minres(regvar.Hessian(), max_iterations=4),
    "stochastic": regvar.Stochastic(epochs=3),
    "direct": regvar.Direct(regvar.GGN()),
    "direct-hessian": regvar.Direct(regvar.Hessian()),
}
ESTIMATORS: dict[str, Callable[[regvar.LogJoint, Any], Any]] = {
    "pointwise": regvar.pointwise,
    "in-sample": lambda joint, solver: regvar.amortized(joint, solver=solver),
    "probes": lambda joint, solver: regvar.amortized(joint, probes(), solver),
    "sampled": lambda joint, solver: regvar.sampled(joint, 3, solver, seed=5),
    "data-augmentation": lambda joint, solver: regvar.data_augmentation(joint, solver=solver),
    "parameter": regvar.parameter,
}
ROWS = 13  # batches of 4, 4, 4 and 1: of the last, the second process has no row
EVEN = 14  # a row of every batch for each of two processes, as sharded weights need it


def network(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 2)).double().eval()


def rows(count: int = ROWS, seed: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 2, generator=generator, dtype=torch.float64)
    return x, torch.stack([x.sin().sum(1), x.prod(1)], 1)


def probes() -> list[Tensor]:
    return list(rows(5, seed=2)[0].split(3))


def queries() -> Tensor:
    return rows(2, seed=3)[0]


def batched(count: int = ROWS) -> list[tuple[Tensor, ...]]:
    return list(zip(*(part.split(4) for part in rows(count)), strict=True))


def joint_of(
    wrap: Wrap, data: Any = None, likelihood: Any = None, **settings: Any
) -> regvar.LogJoint:
    return regvar.LogJoint(
        wrap(network()),
        batched() if data is None else data,
        likelihood=likelihood or regvar.Gaussian(sigma=0.5),
        prior=regvar.GaussianPrior(precision=2.0),
        **settings,
    )


def full(tensor: Tensor) -> Tensor:
    whole = getattr(tensor, "full_tensor", None)
    return tensor if whole is None else whole()


def read(uq: Any) -> Tensor:
    """The variances that an estimator gives."""
    if isinstance(uq, Parameter):
        return torch.cat([full(v).flatten() for v in uq.variance.values()])
    return uq.moments(queries()).variance.flatten()


def every_pair(joint: Callable[[], regvar.LogJoint], solvers: list[str]) -> Answers:
    """Each estimator with each solver."""
    found: Answers = {}
    for solver in solvers:
        own = joint()
        for name, estimator in ESTIMATORS.items():
            found[f"{name}/{solver}"] = read(estimator(own, SOLVERS[solver]))
    return found


def shuffled(sampler: bool = False) -> DataLoader[Any]:
    data = TensorDataset(*rows())
    if not sampler:
        return DataLoader(data, batch_size=4, shuffle=True)
    count = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
    rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
    return DataLoader(data, batch_size=4, sampler=DistributedSampler(data, count, rank, seed=3))


class Whole(nn.Module):
    """Outputs that depend on all rows of a batch at once cannot be shared out."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) * x.abs().mean()


def other_ways(wrap: Wrap) -> Answers:
    """Loaders, likelihoods, forwards and training that the pairs above leave out."""
    cg, refit = SOLVERS["cg"], SOLVERS["finetune"]
    found: Answers = {}
    for name, data in {"shuffled": shuffled(), "sampler": shuffled(sampler=True)}.items():
        joint = joint_of(wrap, data)
        found[f"{name}/refit"] = read(regvar.amortized(joint, solver=refit))
        found[f"{name}/sampled"] = read(regvar.sampled(joint, 2, refit))
        found[f"{name}/stochastic"] = read(regvar.sampled(joint, 2, SOLVERS["stochastic"]))
    x, y = rows()
    labels = list(zip(x.split(4), (y[:, 0] > 0).long().split(4), strict=True))
    classes = joint_of(wrap, labels, regvar.Categorical())
    found["label noise"] = read(regvar.sampled(classes, 2, cg, label_noise=True))
    own = joint_of(wrap, forward=lambda model, batch: (model(batch[0]), batch[1]))
    found["own forward"] = read(regvar.sampled(own, 2, cg))
    found["own forward/refit"] = read(regvar.sampled(own, 2, refit))
    differences = joint_of(wrap, jvp=regvar.CentralDifferences())
    found["central differences"] = read(regvar.sampled(differences, 2, cg))
    whole = joint_of(lambda _: wrap(Whole()))
    found["indivisible"] = read(regvar.sampled(whole, 2, cg))
    found["indivisible/refit"] = read(regvar.sampled(whole, 2, refit))
    joint = joint_of(wrap, shuffled())
    fit = regvar.fit_map(joint, epochs=4, lr=1e-2, seed=4)
    found["map"] = torch.cat([p.detach().flatten() for p in joint.parameters.values()])
    found["map report"] = torch.tensor([fit.value, fit.gradient_norm, fit.prior_gradient_norm])
    found["mean"] = regvar.amortized(joint, solver=cg).moments(queries()).mean
    found["counts"] = torch.tensor([joint.size, joint.examples, joint.num_batches]).double()
    return found


def replicated_answers(wrap: Wrap) -> Answers:
    """What DDP must not change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", regvar.SolverWarning)
        return every_pair(lambda: joint_of(wrap), list(SOLVERS)) | other_ways(wrap)


SHARDED = ["finetune-paired", "cg", "cg-jacobi-four-steps", "minres", "stochastic", "direct"]


def sharded_answers(wrap: Wrap) -> Answers:
    """What FSDP2 must not change; J·v is by central differences in it."""

    def joint(**settings: Any) -> regvar.LogJoint:
        differences = regvar.CentralDifferences()
        return joint_of(wrap, batched(EVEN), jvp=differences, **settings)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", regvar.SolverWarning)
        found = every_pair(joint, ["finetune", "cg-four-steps"])
        for solver in SHARDED:
            found[f"sampled/{solver}"] = read(ESTIMATORS["sampled"](joint(), SOLVERS[solver]))
        differenced = regvar.Hessian(differences=regvar.CentralDifferences())
        hessian = regvar.Minres(differenced, max_iterations=4)
        found["hessian"] = read(regvar.amortized(joint(), solver=hessian))
        fitted = joint()
        fit = regvar.fit_map(fitted, epochs=3, lr=1e-2)
    found["map"] = torch.cat([full(p.detach()).flatten() for p in fitted.parameters.values()])
    found["map report"] = torch.tensor([fit.value, fit.gradient_norm, fit.prior_gradient_norm])
    sums = fitted.network.fingerprint().sums
    found["fingerprint"] = torch.tensor(list(sums.values())).flatten()
    return found
