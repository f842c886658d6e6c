"""The variance scale that maximizes the validation log likelihood.

    s* = argmax_s (1/n) Σ_i log p(y_i | f(x_i), s σ²_f(x_i))

One pass over the data scores the whole grid of scales, batch by batch. A fine grid between the
neighbors of the best is then scored on the moments of that pass, or where they do not fit in memory
on those of a second pass.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from regvar.batches import Batch
from regvar.calibration.passes import Held, Scores, evaluate, read
from regvar.errors import ArgumentError, CalibrationWarning, DataError, require
from regvar.estimators.protocol import Estimator
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
    memory: int = 2**29,
) -> Calibrated:
    """Choose the scale of `uq`'s variance by validation log likelihood.

    First the grid, then 49 scales between the neighbors of its best, with a parabola through the
    top three, whose peak is the answer: with the default grid the optimum to about four digits.
    One pass over the data does for both where its moments fit in `memory`; otherwise there is a
    second. Scales whose values agree to rounding (the machine epsilon of the outputs, relative)
    tie: the smallest wins. An optimum at an end of the grid is announced (`CalibrationWarning`).

    Args:
        uq: any estimator with `moments`.
        loader: validation batches with targets, in any form that `LogJoint` takes; re-iterable.
        grid: scales to try, 0 or larger; 0 and 1e-8 … 1e8 (four per decade) by default.
        predictive: `GaussianPredictive`, `Probit` (Eq. 20), `MonteCarlo`, or one of your own; by
            default what suits the likelihood of `uq.joint`: for classes `Probit`.
        memory: bytes of moments to keep, half a GiB by default; 0 keeps none.

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
    require(memory >= 0, "memory", "a number of bytes, 0 or more", memory)
    scales = _grid(GRID if grid is None else grid)
    held = Held(memory)
    coarse = evaluate(held.keeping(read(uq, loader)), chosen, scales)
    best = coarse.best()
    low, high = max(best - 1, 0), min(best + 1, len(scales) - 1)
    if all(coarse.tied(k) for k in (low, high)):
        found, scale, value = coarse, scales[best], coarse.values[best]
    else:
        again = held.pairs if held.whole else read(uq, loader)
        found = evaluate(again, chosen, _between(scales[low], scales[high]))
        _check_repeats(coarse, (low, high), found)
        scale, value = found.peak()
    note = _note(coarse, scale) if len(scales) > 1 else ""
    if note:
        warnings.warn(note, CalibrationWarning, stacklevel=2)
    merged = dict(zip(coarse.scales + found.scales, coarse.values + found.values, strict=True))
    points = sorted(merged.items())
    curve = ScaleCurve(tuple(s for s, _ in points), tuple(v for _, v in points))
    return Calibrated(uq, chosen, scale, value, curve, coarse.size, note)


def _between(low: float, high: float) -> tuple[float, ...]:
    """Scales from `low` to `high`, both included: even steps of log s, or of s when `low` is 0."""
    parts = [k / (_FINE - 1) for k in range(1, _FINE - 1)]
    inner = [low * (high / low) ** t if low > 0 else t * high for t in parts]
    return (low, *inner, high)


def _note(scores: Scores, scale: float) -> str:
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


def _check_repeats(coarse: Scores, ends: tuple[int, int], fine: Scores) -> None:
    """Both passes scored the ends of the fine grid: they must agree."""
    pairs = ((coarse.values[ends[0]], fine.values[0]), (coarse.values[ends[1]], fine.values[-1]))
    if coarse.size != fine.size or any(abs(a - b) > 1e-4 * (1 + abs(a)) for a, b in pairs):
        raise DataError(
            "loader must hold the same examples on every pass, and moments must repeat, but the "
            f"log likelihood of a second pass differs ({pairs[0][0]:.6g}, then {pairs[0][1]:.6g}). "
            "Pass list(loader), and switch off augmentation and live dropout."
        )
