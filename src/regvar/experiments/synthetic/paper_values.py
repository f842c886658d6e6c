"""The table of Appendix C as it is printed: one run, methods by tasks by splits.

NLL is printed as a sum over the test set. CRPS is printed too small to be the standard score:
with noise of standard deviation 0.1 no predictive does better, on average, than 0.1/√π = 0.0564.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from regvar.data.synthetic import NOISE

METHODS = {
    "exact_hessian": "Full Hessian",
    "ggn": "GGN",
    "eigenvectors": "Eigen. Approx.",
    "regvar": "RegVar (Algorithm 1)",
}
LEAST_CRPS = NOISE / math.sqrt(math.pi)  # of N(μ, σ²) for data of N(μ, σ²), on average
SIN_POINTS = 160  # its test set in distribution, as large as the training set


def expected_nll(sigma2: float, count: int) -> float:
    """The NLL, summed over so many data, that a network with the true mean would expect.

    >>> from regvar.experiments.synthetic import paper_values
    >>> round(paper_values.expected_nll(0.05, 160), 1)
    -76.6
    """
    return count * (math.log(2 * math.pi * sigma2) + NOISE**2 / sigma2) / 2


@dataclass(frozen=True)
class Printed:
    """One method's scores on one task and split."""

    picp: str
    crps: str
    nll: str  # a sum

    @property
    def scores(self) -> dict[str, str]:
        """By the names that records use, with a real minus sign."""
        return {"PICP": self.picp, "CRPS": self.crps, "NLL": self.nll.replace("-", "−")}


_COLUMNS = tuple(
    (task, split)
    for task in ("quadratic-uniform", "quadratic-inbetween", "sin-uniform", "sin-inbetween")
    for split in ("id", "ood")
)
_PICP = {
    "exact_hessian": "0.9375 0.9556 0.9688 0.8667 1.0000 0.8625 1.0000 0.9250",
    "ggn": "0.9375 0.9556 0.9688 0.8444 1.0000 0.8250 1.0000 0.8875",
    "eigenvectors": "0.9375 0.9556 0.9688 0.8444 1.0000 0.8250 1.0000 0.8875",
    "regvar": "0.9375 0.9333 0.8750 0.8444 1.0000 0.8375 1.0000 0.9250",
}
_CRPS = {
    "exact_hessian": "0.003156 0.009017 0.003797 0.003331 0.04666 0.07498 0.04486 0.06022",
    "ggn": "0.003762 0.007771 0.003992 0.0008355 0.04652 0.05493 0.04482 0.04302",
    "eigenvectors": "0.003760 0.007705 0.003566 0.0001922 0.04605 0.05364 0.04454 0.04208",
    "regvar": "0.002347 0.006976 0.001782 4.735e-05 0.04691 0.06397 0.05016 0.06301",
}
_NLL = {
    "exact_hessian": "-23.924 -38.027 -23.290 -24.538 -75.764 26.004 -73.178 10.029",
    "ggn": "-23.790 -38.751 -23.135 -23.504 -76.025 101.6 -73.260 24.903",
    "eigenvectors": "-23.789 -38.760 -23.098 -22.893 -77.027 109.7 -73.785 27.112",
    "regvar": "-23.899 -38.440 -22.571 -23.676 -75.245 45.483 -63.218 22.915",
}

PRINTED: dict[str, dict[tuple[str, str], Printed]] = {
    method: {
        column: Printed(*scores)
        for column, *scores in zip(
            _COLUMNS,
            _PICP[method].split(),
            _CRPS[method].split(),
            _NLL[method].split(),
            strict=True,
        )
    }
    for method in METHODS
}
