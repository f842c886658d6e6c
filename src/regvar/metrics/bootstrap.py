"""The bootstrap, for metrics that are not means over data: ECE, AUROC, AURC."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regvar.errors import DataError, require
from regvar.metrics.estimate import Z_95, require_data


@dataclass(frozen=True)
class Bootstrapped:
    """A statistic, and what it is on data drawn again from the data."""

    value: float  # on the data themselves
    standard_error: float  # the replicates' standard deviation
    count: int  # how many data there are
    replicates: Tensor = field(repr=False)  # [resamples], float64

    @property
    def interval(self) -> tuple[float, float]:
        """Wald's 95 % interval with the bootstrap's standard error."""
        return self.value - Z_95 * self.standard_error, self.value + Z_95 * self.standard_error

    @property
    def percentile(self) -> tuple[float, float]:
        """The replicates' central 95 %: within the statistic's range, but biased if it is."""
        low, high = torch.quantile(self.replicates, torch.tensor([0.025, 0.975]).double())
        return float(low), float(high)

    @property
    def bias(self) -> float:
        """Mean of the replicates minus the value: an estimate of the value's own bias."""
        return float(self.replicates.mean()) - self.value


def bootstrap(
    statistic: Callable[..., float],
    *data: Tensor,
    resamples: int = 1000,
    seed: int = 0,
    strata: Tensor | None = None,
) -> Bootstrapped:
    """Resample data with replacement, rows of all tensors together, and recompute.

    The statistic of n data needs only scores (confidence and correctness, an uncertainty and a
    label), never probabilities. ECE is biased upwards on data and once more on replicates, so its
    `percentile` lies too high: read `interval`, and `bias` beside it.

    Args:
        statistic: gives a number for tensors like `data`.
        data: tensors with the n data along their first dimension.
        resamples: how many replicates.
        seed: same seed and same order of the data, same replicates.
        strata: a group per datum; each is resampled on its own and keeps its size. For an AUROC
            pass the labels, or a replicate may lack positives.

    >>> import torch
    >>> from regvar.metrics import auroc, bootstrap
    >>> score, label = torch.arange(40.0) % 23, torch.arange(40) % 2
    >>> area = bootstrap(lambda s, y: auroc(s, y).value, score, label, strata=label, seed=1)
    >>> round(area.value, 4), 0.05 < area.standard_error < 0.15
    (0.4963, True)
    """
    require(resamples >= 2, "resamples", "at least 2", resamples, "A thousand is usual.")
    require(bool(data), "data", "at least one tensor", data)
    sizes = {tuple(tensor.shape[:1]) for tensor in data}
    if strata is not None:
        sizes.add(tuple(strata.shape))
    if len(sizes) != 1 or sizes == {()}:
        raise DataError(
            "data (and strata, one-dimensional) must have equally many rows, but their first "
            f"dimensions are {sorted(sizes)}. Flatten them to one row per datum."
        )
    count = data[0].shape[0]
    require_data(count, "bootstrap")
    groups = _groups(count, strata)
    generator = torch.Generator().manual_seed(seed)
    replicates: list[float] = []
    for _ in range(resamples):
        rows = torch.cat([g[torch.randint(len(g), (len(g),), generator=generator)] for g in groups])
        replicates.append(float(statistic(*(tensor[rows.to(tensor.device)] for tensor in data))))
    drawn = torch.tensor(replicates, dtype=torch.float64)
    return Bootstrapped(float(statistic(*data)), float(drawn.std()), count, drawn)


def _groups(count: int, strata: Tensor | None) -> list[Tensor]:
    if strata is None:
        return [torch.arange(count)]
    labels = strata.detach().cpu()
    return [(labels == label).nonzero().squeeze(1) for label in labels.unique()]
