"""Per-datum scores of predictive distributions over numbers: pure functions of tensors.

A `variance` here is that of the *observation*: epistemic plus noise, σ²_f(x) + σ² (Eq. 7). With
several outputs an example stays one datum: log densities add up, other scores are averaged.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regvar.errors import DataError, require
from regvar.metrics.estimate import float64


def gaussian_log_density(mean: Tensor, variance: Tensor, targets: Tensor) -> Tensor:
    """Log N(y | μ, v) per example, summed over outputs: [batch], float64.

    >>> import torch
    >>> from regvar.metrics import gaussian_log_density
    >>> gaussian_log_density(torch.zeros(1), torch.ones(1), torch.zeros(1))
    tensor([-0.9189], dtype=torch.float64)
    """
    mu, v, y = _checked(mean, variance, targets)
    if bool((v == 0).any()):
        raise DataError(
            "variance must be positive for a density, but it is 0 somewhere. Add the observation "
            "noise σ² to the epistemic variance."
        )
    logs = -0.5 * ((y - mu).square() / v + torch.log(2 * math.pi * v))
    return _outputs_last(logs).sum(1)


def gaussian_coverage(
    mean: Tensor, variance: Tensor, targets: Tensor, *, level: float = 0.95
) -> Tensor:
    """Whether y is inside the central `level` interval of N(μ, v), its ends included.

    Averaged over an example's outputs: [batch], float64. The half-width is the normal quantile
    (1.959964 √v for 0.95), not the rounded 1.96.

    >>> import torch
    >>> from regvar.metrics import gaussian_coverage
    >>> gaussian_coverage(torch.zeros(2), torch.ones(2), torch.tensor([1.9, 2.0]))
    tensor([1., 0.], dtype=torch.float64)
    """
    require(0 < level < 1, "level", "strictly between 0 and 1", level)
    mu, v, y = _checked(mean, variance, targets)
    quantile = torch.special.ndtri(torch.tensor(0.5 + level / 2, dtype=torch.float64))
    inside = ((y - mu).abs() <= quantile * v.sqrt()).double()
    return _outputs_last(inside).mean(1)


def gaussian_crps(mean: Tensor, variance: Tensor, targets: Tensor) -> Tensor:
    """The continuous ranked probability score of N(μ, v), in closed form.

    √v [z (2Φ(z) − 1) + 2φ(z) − 1/√π] with z = (y − μ)/√v (Gneiting and Raftery 2007), and
    |y − μ| where v = 0. Averaged over an example's outputs: [batch], float64. Lower is better;
    it has the unit of y.

    >>> import torch
    >>> from regvar.metrics import gaussian_crps
    >>> gaussian_crps(torch.zeros(2), torch.tensor([1.0, 0.0]), torch.tensor([0.0, 3.0]))
    tensor([0.2337, 3.0000], dtype=torch.float64)
    """
    mu, v, y = _checked(mean, variance, targets)
    sigma, distance = v.sqrt(), (y - mu).abs()
    z = distance / sigma.where(sigma > 0, 1.0)
    density = torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi)
    spread = z * torch.erf(z / math.sqrt(2)) + 2 * density - 1 / math.sqrt(math.pi)
    scores = torch.where(sigma > 0, sigma * spread, distance)
    return _outputs_last(scores).mean(1)


def sample_crps(samples: Tensor, targets: Tensor, *, fair: bool = True) -> Tensor:
    """CRPS from K draws: mean |x_k − y| − Σ_{k,l} |x_k − x_l| / (2 D).

    The fair estimator has D = K (K − 1): unbiased for the CRPS of the distribution the draws are
    from, at any K ≥ 2; it may be negative. The unfair one has D = K²: the exact CRPS of the K
    draws as a distribution of their own, too large by E|x − x′|/(2K) for the one they are from.
    In O(K log K), by sorting. Averaged over an example's outputs: [batch], float64.

    Args:
        samples: x, [draws, batch, outputs...], draws of the *observation*, noise included.
        targets: y, [batch, outputs...].
        fair: which estimator.

    >>> import torch
    >>> from regvar.metrics import sample_crps
    >>> x, y = torch.tensor([[0.0], [2.0]]), torch.tensor([1.0])
    >>> float(sample_crps(x, y)), float(sample_crps(x, y, fair=False))
    (0.0, 0.5)
    """
    if samples.ndim < 2 or samples.shape[1:] != targets.shape:
        raise DataError(
            f"samples must have the shape [draws, *targets.shape] = (draws, "
            f"{', '.join(map(str, targets.shape))}), but have {tuple(samples.shape)}. "
            "Stack the draws along dimension 0."
        )
    draws = samples.shape[0]
    smallest = 2 if fair else 1
    if draws < smallest:
        raise DataError(
            f"samples must hold at least {smallest} draws, but hold {draws}. Draw more; "
            "fair=False accepts one."
        )
    offsets = float64(samples) - float64(targets)
    _require_finite("samples and targets", offsets)
    ordered = offsets.sort(0).values
    weight = 2 * torch.arange(1, draws + 1, dtype=torch.float64) - draws - 1
    pairs = torch.tensordot(weight, ordered, 1)  # Σ_{k<l} |x_k − x_l|
    scores = offsets.abs().mean(0) - pairs / (draws * (draws - 1 if fair else draws))
    return _outputs_last(scores).mean(1)


def _checked(mean: Tensor, variance: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    if mean.ndim == 0:
        raise DataError(
            "mean must have a batch dimension, but it is a single number. Use mean[None]."
        )
    for name, tensor in (("variance", variance), ("targets", targets)):
        if tensor.shape != mean.shape:
            raise DataError(
                f"{name} must have the shape of mean, {tuple(mean.shape)}, but have "
                f"{tuple(tensor.shape)}. Add or drop a dimension (y[:, None], y.squeeze(-1)), or "
                "use expand_as(mean); broadcasting could pair every output with every target."
            )
    mu, v, y = float64(mean), float64(variance), float64(targets)
    for name, tensor in (("mean", mu), ("variance", v), ("targets", y)):
        _require_finite(name, tensor)
    bad = v[v < 0]
    if bad.numel():
        raise DataError(
            f"variance must not be negative, but {float(bad[0]):.6g} is. A variance is the square "
            "of a standard deviation."
        )
    return mu, v, y


def _outputs_last(values: Tensor) -> Tensor:
    """[batch, outputs], one output where there is none; also of an empty batch."""
    return values.unsqueeze(-1).flatten(1)


def _require_finite(name: str, tensor: Tensor) -> None:
    if not bool(torch.isfinite(tensor).all()):
        raise DataError(f"{name} must be finite, but hold NaN or inf. Find where they arise first.")
