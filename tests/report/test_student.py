"""Student's t against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from regvar.errors import ArgumentError
from regvar.report import student

FREEDOM = (1, 2, 3, 4, 5, 9, 10, 29, 100)


@pytest.mark.parametrize("freedom", FREEDOM)
def test_coverage_is_that_of_scipy(freedom: int) -> None:
    for t in (0.0, 0.1, 1.0, 2.2, 5.0, 50.0):
        assert math.isclose(
            student.coverage(t, freedom), 1 - 2 * stats.t.sf(t, freedom), abs_tol=1e-13
        )


@pytest.mark.parametrize("freedom", FREEDOM)
def test_quantile_is_that_of_scipy(freedom: int) -> None:
    for probability in (0.0, 0.5, 0.9, 0.95, 0.999):
        wanted = stats.t.ppf((1 + probability) / 2, freedom)
        assert math.isclose(student.quantile(probability, freedom), wanted, rel_tol=1e-10)


@pytest.mark.parametrize("count", [2, 3, 10, 41])
def test_paired_test_is_that_of_scipy(count: int) -> None:
    chance = np.random.default_rng(count)
    for shift in (0.0, 0.3, 1.0):
        first = chance.normal(size=count)
        second = first + shift + chance.normal(size=count) / 2
        found = student.paired_p_value(first.tolist(), second.tolist())
        assert math.isclose(found, stats.ttest_rel(first, second).pvalue, abs_tol=1e-12)


def test_differences_without_spread_need_no_test() -> None:
    assert student.paired_p_value([1.0, 2.0], [1.0, 2.0]) == 1.0
    assert student.paired_p_value([1.5, 2.5], [1.0, 2.0]) == 0.0
    assert math.isnan(student.paired_p_value([1.0], [2.0]))


def test_no_degrees_of_freedom_are_refused() -> None:
    with pytest.raises(ArgumentError, match="freedom must be at least 1, but it is 0"):
        student.coverage(1.0, 0)
    with pytest.raises(ArgumentError, match=r"probability must be in \[0, 1\), but it is 1"):
        student.quantile(1.0, 3)
