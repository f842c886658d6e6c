"""Metrics of an order: only the order matters, and a better one is never worse."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from regvar import metrics

some = settings(max_examples=50, derandomize=True, deadline=None)


@st.composite
def ranked(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Scores with ties, and labels, two of each kind at least."""
    n = draw(st.integers(4, 30))
    values = draw(st.lists(st.integers(-9, 9), min_size=n, max_size=n))
    kinds = draw(st.lists(st.booleans(), min_size=n - 4, max_size=n - 4))
    return torch.tensor(values).double(), torch.tensor([True, False, True, False, *kinds])


def area(values: Tensor, positive: Tensor) -> float:
    return metrics.auroc(values, positive).value


@some
@given(ranked(), st.lists(st.floats(0.01, 100), min_size=19, max_size=19))
def test_any_increasing_map_of_the_scores(data: tuple[Tensor, Tensor], steps: list[float]) -> None:
    values, positive = data
    mapped = torch.tensor(steps, dtype=torch.float64).cumsum(0)[values.long() + 9]
    assert metrics.auroc(mapped, positive) == metrics.auroc(values, positive)
    curve, same = (metrics.risk_coverage(v, positive) for v in (values, mapped))
    assert torch.equal(curve.risk, same.risk)
    assert metrics.rank_correlation(values + 10 * positive, mapped) == pytest.approx(
        metrics.rank_correlation(values + 10 * positive, values), nan_ok=True
    )


@some
@given(ranked())
def test_the_other_way_round(data: tuple[Tensor, Tensor]) -> None:
    values, positive = data
    assert area(-values, positive) == pytest.approx(1 - area(values, positive), abs=1e-12)
    assert area(values, ~positive) == pytest.approx(1 - area(values, positive), abs=1e-12)


@some
@given(ranked(), st.data())
def test_a_positive_that_scores_higher_never_hurts(
    data: tuple[Tensor, Tensor], choice: st.DataObject
) -> None:
    values, positive = data
    one = choice.draw(st.sampled_from(positive.nonzero().flatten().tolist()))
    raised = values.clone()
    raised[one] += choice.draw(st.floats(0, 20))
    assert area(raised, positive) >= area(values, positive) - 1e-12


@some
@given(ranked(), st.data())
def test_a_wrong_answer_that_is_less_certain_never_hurts(
    data: tuple[Tensor, Tensor], choice: st.DataObject
) -> None:
    uncertainty, wrong = data
    one = choice.draw(st.sampled_from(wrong.nonzero().flatten().tolist()))
    raised = uncertainty.clone()
    raised[one] += choice.draw(st.floats(0, 20))
    before, after = (metrics.risk_coverage(u, wrong).area.value for u in (uncertainty, raised))
    assert after <= before + 1e-12
