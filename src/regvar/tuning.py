"""Settings of a method chosen on validation data, each at its own best variance scale.

    (settings, s)* = argmax (1/n) Σ_i log p(y_i | f(x_i), s σ²_f(x_i; settings))

As in the paper's Section 5 ("Hyperparameters"): λ, the dropout rate, the prior precision and the
noise are tuned to maximize validation likelihood, and the variance scale with them.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from tqdm import tqdm

from regvar.batches import Batch
from regvar.calibration import Calibrated, ScaleCurve, calibrate, check_loader
from regvar.errors import ArgumentError, CalibrationWarning, RegvarError, SolverWarning, require
from regvar.estimators.protocol import Estimator
from regvar.network import Fingerprint
from regvar.predictives import Predictive


@dataclass(frozen=True)
class Trial:
    """One setting of the grid and how it did."""

    settings: Mapping[str, Any]
    log_likelihood: float = math.nan  # (1/n) Σ_i log p(y_i | x_i) at its scale; NaN: it failed
    scale: float = math.nan  # its own best variance scale; 1 when it was not to be calibrated
    curve: ScaleCurve | None = field(default=None, repr=False)  # the likelihood at every scale
    failure: str = ""  # what went wrong; empty when nothing did

    def __str__(self) -> str:
        name = _in_words(self.settings)
        if self.failure:
            return f"{name}: failed: {self.failure}"
        return f"{name}: log likelihood {self.log_likelihood:.6g} at the scale {self.scale:.4g}"


@dataclass(frozen=True)
class Tuned:
    """The best settings, the estimator they give, and the whole table; `print` shows it."""

    settings: Mapping[str, Any]
    calibrated: Calibrated = field(repr=False)  # the best estimator, ready to predict
    trials: tuple[Trial, ...] = field(repr=False)  # every setting, in the order of the grid

    def __str__(self) -> str:
        return "\n".join(
            f"{'*' if trial.settings is self.settings else ' '} {trial}" for trial in self.trials
        )


def tune(
    build: Callable[..., Estimator],
    loader: Iterable[Batch],
    grid: Mapping[str, Sequence[Any]],
    *,
    calibrated: bool = True,
    predictive: Predictive | None = None,
) -> Tuned:
    """Build an estimator for every setting of a grid and keep the one of highest likelihood.

    Of equally good settings the first wins. When an error of ours ends a setting (`RegvarError`,
    or a `SolverWarning` that a filter made an error of), the others go on; any other exception
    passes through. A `CalibrationWarning` announces each failure at once, and at the end a best
    setting or scale at an end of its grid. A solve that only warns takes part.

    Args:
        build: called with one value per name of the grid, such as `build(lam=0.1)`. Makes an
            estimator or baseline, always the same for the same values, and leaves networks that
            it has handed out as they are: to fit one again, as another σ asks for, copy it first.
        loader: validation batches with targets, re-iterable.
        grid: the values to try for each name; all combinations are built, one at a time.
        calibrated: whether a setting is judged at its own best variance scale, or at 1.
        predictive: as for `calibrate`; by default what suits the likelihood of each estimator.

    >>> import torch, regvar
    >>> from regvar.tuning import tune
    >>> x, noise = torch.linspace(-1, 1, 20)[:, None], torch.tensor([[0.3], [-0.3]]).repeat(10, 1)
    >>> def build(sigma):
    ...     joint = regvar.LogJoint(torch.nn.Linear(1, 1), [(x, 2 * x)],
    ...                             likelihood=regvar.Gaussian(sigma=sigma),
    ...                             prior=regvar.GaussianPrior(precision=1.0))
    ...     regvar.fit_map(joint, torch.optim.LBFGS, epochs=10, lr=1.0, full_batch=True)
    ...     return regvar.pointwise(joint)
    >>> tune(build, [(x, 2 * x + noise)], {"sigma": [0.03, 0.3, 3.0]}, calibrated=False).settings
    {'sigma': 0.3}
    """
    _check(build, grid)
    check_loader(loader)
    scales = None if calibrated else (1.0,)
    choices = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    trials: list[Trial] = []
    best: _Best | None = None
    for settings in tqdm(choices, desc="tuning", leave=False, disable=None):
        trial, found = _attempt(build, settings, loader, scales, predictive)
        if best is not None:
            best.require_unchanged()
        if trial.failure:
            warnings.warn(f"Setting {trial}", CalibrationWarning, stacklevel=2)
        trials.append(trial)
        if found and (best is None or found.log_likelihood > best.calibrated.log_likelihood):
            best = _Best(settings, found, found.network.fingerprint())
        del found  # or it would stay in memory while the next is built
    if best is None:
        raise ArgumentError(
            f"build must succeed for at least one setting of the grid, but all {len(trials)} "
            f"failed. The first, {trials[0]}"
        )
    for note in filter(None, [*_ends(grid, best, trials), best.calibrated.note]):
        warnings.warn(note, CalibrationWarning, stacklevel=2)
    return Tuned(best.settings, best.calibrated, tuple(trials))


@dataclass(frozen=True)
class _Best:
    """The best setting so far, with its network as it was."""

    settings: Mapping[str, Any]
    calibrated: Calibrated
    fitted: Fingerprint

    def require_unchanged(self) -> None:
        """Refuse a `build` that spoils the estimator of another setting."""
        if not self.calibrated.network.fingerprint().matches(self.fitted):
            raise ArgumentError(
                "build must leave the networks it has handed out as they are, but the one of "
                f"{_in_words(self.settings)} has changed since. Fit a copy for each setting: "
                "copy.deepcopy(model) in build."
            )


def _attempt(
    build: Callable[..., Estimator],
    settings: Mapping[str, Any],
    loader: Iterable[Batch],
    scales: Sequence[float] | None,
    predictive: Predictive | None,
) -> tuple[Trial, Calibrated | None]:
    try:
        uq = build(**settings)
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", CalibrationWarning
            )  # the best one's is given at the end
            found = calibrate(uq, loader, grid=scales, predictive=predictive)
    except (RegvarError, SolverWarning) as error:
        return Trial(settings, failure=str(error)), None
    return Trial(settings, found.log_likelihood, found.scale, found.curve), found


def _ends(grid: Mapping[str, Sequence[Any]], best: _Best, trials: Sequence[Trial]) -> Iterator[str]:
    """One text for each number whose best value is the grid's smallest or largest."""
    tied = [t.settings for t in trials if t.log_likelihood == best.calibrated.log_likelihood]
    for name, values in grid.items():
        value, numbers = best.settings[name], [v for v in values if _is_number(v)]
        if not _is_number(value) or len(set(numbers)) < 2:
            continue
        low, high = min(numbers), max(numbers)
        at_an_end = value == high or (value == low and low != 0)  # nothing is below a rate of 0
        if at_an_end and all(settings[name] == value for settings in tied):
            end = "largest" if value == high else "smallest"
            yield (
                f"The validation likelihood is highest at the {end} {name} of the grid, {value:g}: "
                "the optimum may lie beyond it. Extend the grid there."
            )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _in_words(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in settings.items())


def _check(build: object, grid: object) -> None:
    require(callable(build), "build", "a function that makes an estimator", build)
    rule = 'a non-empty mapping of names to lists of values, such as {"lam": [0.1, 1.0]}'
    ok = isinstance(grid, Mapping) and len(grid) > 0
    require(ok, "grid", rule, grid)
    for name, values in cast("Mapping[str, object]", grid).items():
        several = isinstance(values, Sequence) and not isinstance(values, str) and len(values) > 0
        require(several, f"grid[{name!r}]", "a non-empty list of values", values)
