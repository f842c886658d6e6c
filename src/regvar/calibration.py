"""The variance scale that maximizes the validation log likelihood.

    s* = argmax_s (1/n) Σ_i log p(y_i | f(x_i), s σ²_f(x_i))

One pass over the data scores the whole grid of scales, batch by batch; a second one scores a fine
grid between the neighbors of the best. Nothing of a batch is kept.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import length_hint
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from regvar import batches
from regvar.batches import Batch
from regvar.errors import ArgumentError, CalibrationWarning, DataError, require
from regvar.estimators.protocol import Estimator
from regvar.likelihoods.protocol import full_precision
from regvar.log_joint import LogJoint
from regvar.network import Network
from regvar.predictives import Prediction, Predictive, default_predictive, scaled
from regvar.results import Moments, Solution

# 0, and four scales per decade: estimators differ in the units of their variance.
GRID = (0.0, *(10 ** (k / 4) for k in range(-32, 33)))
_FINE = 49


@dataclass(frozen=True)
class ScaleCurve:
    """The mean log likelihood at each scale that was scored, in order of the scale."""

    scales: tuple[float, ...]  # s
    log_likelihood: tuple[float, ...]  # (1/n) Σ_i log p(y_i | x_i) at s


@dataclass(frozen=True)
class Calibrated:
    """An estimator with its variance scaled, and the predictive it was scaled for."""

    uq: Estimator = field(repr=False)
    predictive: Predictive
    scale: float  # s*
    log_likelihood: float  # (1/n) Σ_i log p(y_i | x_i) at s*
    curve: ScaleCurve = field(repr=False)
    size: int  # n: the validation data, as the likelihood counts them
    note: str = ""  # what an optimum at an end of the grid means; empty when it is inside

    @property
    def network(self) -> Network:
        """The network it speaks of."""
        return self.uq.network

    @property
    def joint(self) -> LogJoint | None:
        """The log joint that the estimator was fitted with, if it knows."""
        return getattr(self.uq, "joint", None)

    @property
    def solution(self) -> Solution | None:
        """How the estimator's solve ended."""
        return self.uq.solution

    def moments(self, x: Batch) -> Moments:
        """f(x) and s* σ²_f(x): [batch, outputs...]."""
        return scaled(self.uq.moments(x), self.scale)

    def predict(self, inputs: Batch) -> Prediction:
        """`.probs` or `.mean` and `.variance`, with `.epistemic`, `.aleatoric` and `.total`."""
        return self.predictive.predict(self.moments(inputs))


def calibrate(
    uq: Estimator,
    loader: Iterable[Batch],
    *,
    grid: Sequence[float] | None = None,
    predictive: Predictive | None = None,
) -> Calibrated:
    """Choose the scale of `uq`'s variance by validation log likelihood.

    Two passes over the data: the grid, then 49 scales between the neighbors of its best, with a
    parabola through the top three of them, whose peak is the answer: with the default grid it is
    the optimum to about four digits, with a coarser one to fewer. The second pass is left out
    where the grid's first two scales are as good as any. Scales whose values agree to rounding
    (the machine epsilon of the outputs, relative) tie, and the smallest of them wins. An optimum
    at an end of the grid is announced by a `CalibrationWarning`.

    Args:
        uq: any estimator with `moments`.
        loader: validation batches with targets, in any form that `LogJoint` takes; re-iterable.
        grid: scales to try, 0 or larger; 0 and 1e-8 … 1e8 (four per decade) by default.
        predictive: `GaussianPredictive`, `Probit` (Eq. 20), `MonteCarlo`, or one of your own; by
            default what suits the likelihood of `uq.joint`: for classes `Probit`.

    Returns:
        The estimator with its scale: it has `predict` and `moments`, and the curve of all scales.

    >>> import torch, regvar
    >>> from regvar.calibration import calibrate
    >>> x = torch.linspace(-1, 1, 8)[:, None]
    >>> joint = regvar.LogJoint(torch.nn.Linear(1, 1), [(x, x)],
    ...                         likelihood=regvar.Gaussian(sigma=1.0),
    ...                         prior=regvar.GaussianPrior(precision=1.0))
    >>> y = joint.model(x).detach() + torch.tensor([[2.0], [-2.0]]).repeat(4, 1)
    >>> calibrated = calibrate(regvar.pointwise(joint), [(x, y)])
    >>> calibrated.predict(x).variance.mean()  # 4, up to the spread of the moments
    tensor(4.2...)
    """
    chosen = _predictive(uq, predictive)
    check_loader(loader)
    scales = _grid(GRID if grid is None else grid)
    coarse = _evaluate(uq, loader, chosen, scales)
    best = coarse.best()
    low, high = max(best - 1, 0), min(best + 1, len(scales) - 1)
    if all(coarse.tied(k) for k in (low, high)):
        found, scale, value = coarse, scales[best], coarse.values[best]
    else:
        found = _evaluate(uq, loader, chosen, _between(scales[low], scales[high]))
        _check_repeats(coarse, (low, high), found)
        scale, value = found.peak()
    note = _note(coarse, scale) if len(scales) > 1 else ""
    if note:
        warnings.warn(note, CalibrationWarning, stacklevel=2)
    merged = dict(zip(coarse.scales + found.scales, coarse.values + found.values, strict=True))
    points = sorted(merged.items())
    curve = ScaleCurve(tuple(s for s, _ in points), tuple(v for _, v in points))
    return Calibrated(uq, chosen, scale, value, curve, coarse.size, note)


@dataclass(frozen=True)
class _Scores:
    """One pass: the mean log likelihood of each scale."""

    scales: tuple[float, ...]  # increasing
    values: tuple[float, ...]
    size: int
    epsilon: float  # of the outputs' precision

    def tied(self, k: int) -> bool:
        """Whether a value is the highest, up to rounding."""
        top = max(self.values)
        return top - self.values[k] <= self.epsilon * max(1.0, abs(top))

    def best(self) -> int:
        """The first of the highest."""
        return next(k for k in range(len(self.values)) if self.tied(k))

    def peak(self) -> tuple[float, float]:
        """Place and height of the parabola through the best and its neighbors."""
        k = self.best()
        if k in (0, len(self.scales) - 1):
            return self.scales[k], self.values[k]
        left, top, right = self.values[k - 1 : k + 2]
        bend = left - 2 * top + right
        shift = 0.5 * (left - right) / bend if bend < 0 else 0.0
        shift = max(-1.0, min(1.0, shift))
        a, b, c = self.scales[k - 1 : k + 2]
        scale = b * (b / a if shift < 0 else c / b) ** shift if a > 0 else b + shift * (c - b)
        return scale, top - 0.25 * (left - right) * shift


def _evaluate(
    uq: Estimator, loader: Iterable[Batch], predictive: Predictive, scales: tuple[float, ...]
) -> _Scores:
    """One streaming pass: the sum of each scale's log probabilities, in double precision."""
    totals = torch.zeros(len(scales), dtype=torch.float64)
    size, epsilon = 0, 0.0
    count = length_hint(loader) or None
    passing = batches.pinned(loader, 0)
    for batch in tqdm(passing, desc="calibration", total=count, leave=False, disable=None):
        moments = _checked(uq.moments(batch))
        targets = _targets(uq.network, batch, moments.mean)
        with torch.no_grad():
            values = predictive.log_prob(moments, targets, scales)
        totals += values.cpu().sum(1, dtype=torch.float64)
        size += values.shape[1]
        epsilon = max(epsilon, torch.finfo(values.dtype).eps)
    if size == 0:
        raise DataError(
            "loader must hold at least one scored example, but it is empty or every label is "
            "ignored. Check the data set, drop_last and ignore_index."
        )
    means = (totals / size).tolist()
    bad = next((k for k, v in enumerate(means) if not math.isfinite(v)), None)
    if bad is not None:
        raise DataError(
            f"log likelihood of loader must be finite, but is {means[bad]} at the scale "
            f"{scales[bad]:g}. Look for NaN in the targets, or give a grid without that scale."
        )
    return _Scores(scales, tuple(means), size, epsilon)


def _checked(moments: Moments) -> Moments:
    """Moments that a likelihood can be computed from."""
    finite = all(bool(torch.isfinite(m).all()) for m in (moments.mean, moments.variance))
    if not finite or bool((moments.variance < 0).any()):
        raise DataError(
            "moments of uq must be finite, with a variance of 0 or larger, but hold NaN, inf or "
            "a negative variance. Look for NaN in the inputs, and at uq.solution."
        )
    return Moments(moments.mean.detach(), full_precision(moments.variance.detach()))


def _targets(network: Network, batch: Batch, mean: Tensor) -> Any:
    """The batch's targets, without another run of the network unless it decides on them."""
    _, targets = batches.split(batch) if not network.custom else (None, None)
    labels_of_a_sequence = (
        isinstance(targets, Tensor) and targets.dim() > 1 and targets.shape == mean.shape[:-1]
    )  # a causal language model moves them
    if network.custom or labels_of_a_sequence:
        with torch.no_grad(), network.guard():
            return network.outputs_and_targets(batch)[1]
    return targets


def _between(low: float, high: float) -> tuple[float, ...]:
    """Scales from `low` to `high`, both included: even steps of log s, or of s when `low` is 0."""
    parts = [k / (_FINE - 1) for k in range(1, _FINE - 1)]
    inner = [low * (high / low) ** t if low > 0 else t * high for t in parts]
    return (low, *inner, high)


def _note(scores: _Scores, scale: float) -> str:
    """What an optimum at an end of the grid means."""
    if scale == 0:
        return (
            "The validation likelihood is highest at the scale 0: adding this variance does not "
            "help on these data. Predictions are those of the network alone."
        )
    if scale == scores.scales[0]:
        return (
            f"The validation likelihood is highest at the smallest scale of the grid, {scale:g}: "
            "the optimum may be smaller. Give a grid that begins lower, or at 0."
        )
    if scale == scores.scales[-1] or scores.tied(len(scores.scales) - 1):
        return (
            "The validation likelihood is highest at the largest scale of the grid, "
            f"{scores.scales[-1]:g}: the optimum may be larger. Give a grid that ends higher, and "
            "look at the network: it is far too sure, or the variance is far too small."
        )
    return ""


def _predictive(uq: object, predictive: object) -> Predictive:
    if not hasattr(uq, "moments") or not isinstance(getattr(uq, "network", None), Network):
        raise ArgumentError(
            f"uq must be an estimator with moments and network, but is {type(uq).__name__}. "
            "Pass what regvar.sampled(joint) or another estimator returns."
        )
    if predictive is not None:
        if isinstance(predictive, type) or not isinstance(predictive, Predictive):
            raise ArgumentError(
                f"predictive must be an object like Probit(Categorical()), but is {predictive!r}."
            )
        return predictive
    joint = getattr(uq, "joint", None)
    if joint is None:
        raise ArgumentError(
            "predictive must be given for an estimator that does not know its likelihood, such as "
            "from_refit's, but it is None. Pass predictive=Probit(Categorical()) or the like."
        )
    return default_predictive(joint.likelihood)


def check_loader(loader: object) -> None:
    """Refuse a batch or an iterator where every pass reads the loader again."""
    is_batch = isinstance(loader, Tensor | Mapping) or (
        isinstance(loader, tuple) and any(isinstance(part, Tensor) for part in loader)
    )
    remedy = "Pass [(inputs, targets)]."
    require(not is_batch, "loader", "an iterable of batches", "one batch", remedy)
    again = isinstance(loader, Iterable) and not isinstance(loader, Iterator)
    require(again, "loader", "re-iterable", type(loader).__name__, "Pass list(loader).")


def _grid(grid: Sequence[float]) -> tuple[float, ...]:
    scales = tuple(sorted({float(s) for s in grid}))
    ok = len(scales) > 0 and all(math.isfinite(s) and s >= 0 for s in scales)
    require(ok, "grid", "one or more scales, finite and 0 or larger", scales)
    return scales


def _check_repeats(coarse: _Scores, ends: tuple[int, int], fine: _Scores) -> None:
    """Both passes scored the ends of the fine grid: they must agree."""
    pairs = ((coarse.values[ends[0]], fine.values[0]), (coarse.values[ends[1]], fine.values[-1]))
    if coarse.size != fine.size or any(abs(a - b) > 1e-4 * (1 + abs(a)) for a, b in pairs):
        raise DataError(
            "loader must hold the same examples on every pass, and moments must repeat, but the "
            f"log likelihood of a second pass differs ({pairs[0][0]:.6g}, then {pairs[0][1]:.6g}). "
            "Pass list(loader), and switch off augmentation and live dropout."
        )
