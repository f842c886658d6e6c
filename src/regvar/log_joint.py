"""The log joint of Eq. 2 for one network, its data, likelihood and prior.

    L(θ) = Σ_i log p(y_i | f_θ(x_i)) + log p(θ)

It is a *sum* over the data and is *maximized*. The sign flips once, in `loss`, and every 1/n is
here: an optimizer is handed −L/n, split over minibatches so that one epoch adds up to it exactly,
short last batch included.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from regvar import batches, params
from regvar.batches import Batch, Forward
from regvar.distributed import Processes
from regvar.errors import ArgumentError, DataError
from regvar.likelihoods import Likelihood
from regvar.linearize import JvpMode
from regvar.network import Fingerprint, Network
from regvar.params import Params
from regvar.priors import Prior
from regvar.survey import Survey, survey


class LogJoint:
    """Network, data, likelihood and prior: everything a method needs to know (Eq. 2).

    Args:
        model: any module; only parameters with `requires_grad` are Bayesian.
        data: the training batches, re-iterable: a `DataLoader` (shuffling or not) or a list.
            A batch is `(inputs, targets)` or a dict with `labels`.
        likelihood: `Gaussian(sigma=...)`, `Categorical()`, `Bernoulli()` or `Custom(log_prob)`.
        prior: `GaussianPrior(precision=...)` or `LaplacePrior(rate=...)`.
        forward: for batches of another form, `forward(model, batch) -> (outputs, targets)`.
        jvp: how J·v is computed; `None` chooses `ForwardMode` where the network allows it and
            `CentralDifferences` elsewhere.

    >>> import torch, regvar
    >>> x = torch.linspace(-1, 1, 8)[:, None]
    >>> joint = regvar.LogJoint(torch.nn.Linear(1, 1), [(x, x)],
    ...                         likelihood=regvar.Gaussian(sigma=1.0),
    ...                         prior=regvar.GaussianPrior(precision=1.0))
    >>> joint.size
    8
    """

    def __init__(
        self,
        model: nn.Module,
        data: Iterable[Batch],
        *,
        likelihood: Likelihood,
        prior: Prior,
        forward: Forward | None = None,
        jvp: JvpMode | None = None,
    ) -> None:
        """See the class."""
        _check_types(model, data, likelihood)
        self.network = Network(model, forward, jvp)
        self.data = data
        self.likelihood = likelihood
        self.prior = prior
        self._survey: Survey | None = None
        self._memory: dict[object, tuple[Fingerprint, Any]] = {}

    @property
    def model(self) -> nn.Module:
        """The user's module, out of its DDP wrapper."""
        return self.network.model

    @property
    def processes(self) -> Processes:
        """Those that share the work (`regvar.distributed`); one alone for a bare module."""
        return self.network.processes

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        """θ: the trainable parameters by name."""
        return self.network.parameters

    @property
    def size(self) -> int:
        """n: the number of data (of scored labels for a categorical likelihood)."""
        return self._surveyed().size

    @property
    def examples(self) -> int:
        """How many rows the data hold: m of the in-sample regularizer."""
        return self._surveyed().examples

    @property
    def num_batches(self) -> int:
        """Batches a pass."""
        return self._surveyed().num_batches

    def batches(self, order: int = 0) -> Iterator[Batch]:
        """One pass over the data; the same `order` repeats the same pass."""
        return batches.pinned(self.data, order)

    def numbered(self, order: int = 0) -> Iterator[tuple[int, Batch]]:
        """The same pass, each batch with the number of its first row."""
        row = 0
        for batch in self.batches(order):
            yield row, batch
            row += batches.length(batch) or 1

    def parts(
        self, order: int = 0, data: Iterable[Batch] | None = None
    ) -> Iterator[list[tuple[int, Batch]]]:
        """The same pass, batch by batch: this process's own rows of each; alone, all of them.

        A list of none or one, so that a process without rows can still keep step. `data` are
        other batches to share, such as probes.
        """
        first = 0
        for batch in batches.pinned(self.data if data is None else data, order):
            rows = batches.length(batch)
            yield self._own(first, rows, batch)
            first += rows or 1

    def _own(self, first: int, rows: int | None, batch: Batch) -> list[tuple[int, Batch]]:
        processes = self.processes
        if processes.alone:
            return [(first, batch)]
        divisible = rows is not None and self._surveyed().divisible
        if processes.sharded and (rows is None or not divisible or rows < processes.count):
            raise DataError(
                f"batches of a sharded model must have a row for each of the {processes.count} "
                f"processes, since all must take part, but one has {rows if divisible else 1}. "
                "Choose a batch_size that leaves a longer last batch."
            )
        if rows is None or not divisible:
            return [] if processes.rank else [(first, batch)]
        start, stop = processes.span(rows)
        return [(first + start, batches.rows(batch, start, stop))] if stop > start else []

    def require_same(self, data: Iterable[Batch], name: str) -> None:
        """Refuse data of which each process has brought its own part."""
        if self.processes.alone:
            return
        if not self.processes.same(batches.fingerprint(data)):
            raise DataError(
                f"{name} must be the same in every process, but they differ. Pass whole batches, "
                "a loader from accelerator.prepare, or one with a DistributedSampler: each "
                "process takes its own rows of them."
            )

    @contextmanager
    def summed(self, *vectors: Mapping[str, Tensor]) -> Generator[None]:
        """Inside, add to `vectors` over `parts`; outside they are sums over all data."""
        self._surveyed()
        with self.processes.summed(*vectors):
            yield

    def remember(self, key: object, build: Callable[[], Any]) -> Any:
        """What was once computed at these parameters, or what `build` computes now."""
        now = self.network.fingerprint()
        held = self._memory.get(key)
        if held is None or not held[0].matches(now):
            held = self._memory[key] = (now, build())
        return held[1]

    def check(self) -> None:
        """Find out what would waste a solve: data that do not repeat, live dropout, NaN, ...

        Raises an error of ours that says what to do. Repeated calls only look at the module.
        """
        self.prior.check(self.parameters)
        survey_ = self._surveyed()
        with self.processes.summed():
            survey_.recheck(self)

    def _surveyed(self) -> Survey:
        if self._survey is None:
            self._survey = survey(self)
        return self._survey

    def score(self, outputs: Tensor, targets: Any) -> tuple[Tensor, Any]:
        """Σ_i log p(y_i | f_i) of a batch, checked, with the targets as used."""
        if not bool(torch.isfinite(outputs).all()):
            raise DataError(
                "outputs of model must be finite, but hold NaN or inf. Look for NaN in the "
                "inputs or in the parameters."
            )
        targets = self.likelihood.check(outputs, targets)
        value = self.likelihood.log_prob(outputs, targets)
        if not bool(torch.isfinite(value)):
            raise DataError(
                f"log likelihood of a batch must be finite, but is {float(value.detach())}. "
                "Look for NaN in the targets or in the likelihood; in training, lower lr, or give "
                'LBFGS line_search_fn="strong_wolfe".'
            )
        return value, targets

    def log_prior(self) -> Tensor:
        """log p(θ), differentiable."""
        return self.prior.log_prob(self.parameters)

    def loss(self, log_likelihood: Tensor, extra: Tensor | float = 0.0) -> Tensor:
        """What an optimizer minimizes on one of N batches: −(N/n) [ℓ_b + log p(θ)/N + extra].

        Its mean over an epoch is −(L + Σ extra)/n (Eq. 15 with λ t_b as `extra`).
        """
        survey_ = self._surveyed()
        device = log_likelihood.device
        share = self.processes.once(lambda: (self.log_prior() / survey_.num_batches).to(device))
        total = log_likelihood + share + extra
        return -(survey_.num_batches / survey_.size) * total

    def value(self) -> float:
        """L(θ̂), constants included."""
        with torch.no_grad(), self.network.guard():
            total = 0.0
            with self.summed():
                for _, batch in chain.from_iterable(self.parts()):
                    total += float(self.score(*self.network.outputs_and_targets(batch))[0])
            return self.processes.total(total) + float(self.log_prior())

    def gradient(self) -> Params:
        """∇L(θ̂), summed over the data."""
        return params.add_(self.likelihood_gradient(), self.prior_gradient())

    def likelihood_gradient(self) -> Params:
        """∇ Σ log p(y_i | f_i)."""
        total = params.zeros(self.parameters)
        with self.network.guard(), torch.enable_grad(), self.summed(total):
            for _, batch in chain.from_iterable(self.parts()):
                value, _ = self.score(*self.network.outputs_and_targets(batch))
                params.add_(total, self.network.pull_back(value))
        return total

    def prior_gradient(self) -> Params:
        """∇ log p(θ)."""
        with torch.enable_grad():
            return self.network.gradient_of(self.log_prior())


def _check_types(model: object, data: object, likelihood: object) -> None:
    if not isinstance(model, nn.Module):
        raise ArgumentError(f"model must be a torch.nn.Module, but is {type(model).__name__}.")
    if isinstance(data, Tensor | Mapping) or (
        isinstance(data, tuple) and any(isinstance(part, Tensor) for part in data)
    ):
        raise ArgumentError(
            "data must be an iterable of batches, but it is a batch itself. "
            "Pass [(inputs, targets)] or a DataLoader."
        )
    if not isinstance(data, Iterable) or isinstance(data, Iterator):
        raise ArgumentError(
            f"data must be re-iterable, because every pass reads it again, but it is "
            f"{type(data).__name__}. Pass a DataLoader or list(data)."
        )
    if isinstance(likelihood, type) or not isinstance(likelihood, Likelihood):
        raise ArgumentError(
            f"likelihood must be Gaussian, Categorical, Bernoulli or Custom, but is {likelihood!r}."
        )
