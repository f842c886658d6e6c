"""Student's t distribution for whole degrees of freedom, by its finite sums.

    A(t ∣ ν) = P(|T| ≤ t),   θ = arctan(t/√ν)
    ν even: sin θ (1 + ½ cos²θ + (1·3)/(2·4) cos⁴θ + … up to cos^(ν−2) θ)
    ν odd:  2/π (θ + sin θ (cos θ + ⅔ cos³θ + (2·4)/(3·5) cos⁵θ + … up to cos^(ν−2) θ))

(Abramowitz and Stegun, 26.7.3 and 26.7.4.) Seeds are counted, so nothing more general is needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from regvar.errors import require

ROUNDING = 1e-12  # relative: losses such as |0.94375 − 0.95| and |0.95625 − 0.95| are equal


def coverage(t: float, freedom: int) -> float:
    """A(t ∣ ν), the probability that |T| does not exceed t ≥ 0.

    >>> from regvar.report import student
    >>> round(student.coverage(2.262157, 9), 6)
    0.95
    """
    require(freedom >= 1, "freedom", "at least 1", freedom)
    return _coverage_at(math.atan2(t, math.sqrt(freedom)), freedom)


def quantile(probability: float, freedom: int) -> float:
    """The t with A(t ∣ ν) equal to `probability`: half the width of a two-sided interval.

    >>> from regvar.report import student
    >>> round(student.quantile(0.95, 9), 4)
    2.2622
    """
    require(freedom >= 1, "freedom", "at least 1", freedom)
    require(0 <= probability < 1, "probability", "in [0, 1)", probability)
    low, high = 0.0, math.pi / 2
    for _ in range(200):  # more halvings than a float has bits; ends sooner than it sounds
        middle = (low + high) / 2
        if _coverage_at(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return math.sqrt(freedom) * math.tan(low)


def paired_p_value(first: Sequence[float], second: Sequence[float]) -> float:
    """The two-sided p-value of the paired t-test that both have the same mean.

    Differences that are all the same need no test: the value is 1 where they are 0 and 0 where
    they are not. What only rounding tells apart is the same. A single pair tells nothing: NaN.
    """
    pairs = list(zip(first, second, strict=True))
    differences = [0.0 if math.isclose(a, b, rel_tol=ROUNDING) else a - b for a, b in pairs]
    count = len(differences)
    if count < 2:
        return math.nan
    mean = math.fsum(differences) / count
    squares = math.fsum((d - mean) ** 2 for d in differences)
    if min(differences) == max(differences):
        return 1.0 if mean == 0 else 0.0
    t = abs(mean) / math.sqrt(squares / (count - 1) / count)
    return 1.0 - coverage(t, count - 1)


def _coverage_at(angle: float, freedom: int) -> float:
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = 0.0
    for power in range(odd, freedom - 1, 2):  # the power of cos θ in this term
        total += term
        term *= cosine**2 * (power + 1) / (power + 2)
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
