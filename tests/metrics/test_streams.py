"""However the data are split, ordered, merged or stored, the metric is the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from regvar import metrics
from tests.metrics.data import classifier, regression, scores, stream

Update = Callable[[Any, list[Tensor]], None]


def plain(metric: Any, batch: list[Tensor]) -> None:
    metric.update(*batch)


def gaussian(metric: Any, batch: list[Tensor]) -> None:
    metric.update_gaussian(*batch)


def samples(metric: Any, batch: list[Tensor]) -> None:
    metric.update_samples(batch[0].T, batch[1])


def confidence(metric: Any, batch: list[Tensor]) -> None:
    metric.update_confidence(*batch)


def coarse(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Confidences with many ties."""
    values = torch.rand(n, generator=stream(seed), dtype=torch.float64)
    return (values * 8).round() / 8, torch.rand(n, generator=stream(seed + 1)) < values


def draws(n: int, seed: int) -> tuple[Tensor, Tensor]:
    values = torch.randn(n, 5, generator=stream(seed), dtype=torch.float64)
    return values[:, :4], values[:, 4]


CASES: dict[str, tuple[Callable[[], Any], Update, Callable[[int, int], tuple[Tensor, ...]]]] = {
    "NLL": (metrics.NLL, plain, lambda n, seed: classifier(n, 4, seed)),
    "NLL Gaussian": (metrics.NLL, gaussian, regression),
    "Brier": (metrics.Brier, plain, lambda n, seed: classifier(n, 4, seed)),
    "Accuracy": (metrics.Accuracy, plain, lambda n, seed: classifier(n, 4, seed)),
    "ECE": (metrics.ECE, plain, lambda n, seed: classifier(n, 4, seed)),
    "AdaptiveECE": (metrics.AdaptiveECE, plain, lambda n, seed: classifier(n, 4, seed)),
    "ECE ties": (metrics.ECE, confidence, coarse),
    "AdaptiveECE ties": (metrics.AdaptiveECE, confidence, coarse),
    "PICP": (metrics.PICP, plain, regression),
    "CRPS": (metrics.CRPS, plain, regression),
    "CRPS samples": (metrics.CRPS, samples, draws),
    "AUROC": (metrics.AUROC, plain, lambda n, seed: scores(n, seed)),
    "AUROC ties": (metrics.AUROC, plain, lambda n, seed: scores(n, seed, tied=True)),
    "RiskCoverage": (metrics.RiskCoverage, plain, lambda n, seed: scores(n, seed)),
    "RiskCoverage ties": (metrics.RiskCoverage, plain, lambda n, s: scores(n, s, tied=True)),
}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))


def same(first: metrics.Estimate, second: metrics.Estimate) -> bool:
    expected = pytest.approx((first.value, first.standard_error), rel=1e-9, abs=1e-11)
    return (second.value, second.standard_error) == expected and first.count == second.count


@each_case
@settings(max_examples=25, derandomize=True, deadline=None)
@given(data=st.data())
def test_splits_order_and_merges_do_not_matter(case: tuple[Any, ...], data: st.DataObject) -> None:
    make, update, simulate = case
    n = data.draw(st.integers(12, 60), "n")
    columns = simulate(n, data.draw(st.integers(0, 1000), "seed"))
    whole = make()
    update(whole, list(columns))

    order = torch.tensor(data.draw(st.permutations(range(n)), "order"))
    cuts = data.draw(st.lists(st.integers(0, n), max_size=4).map(sorted), "cuts")
    batches = zip(*(torch.tensor_split(c[order], cuts) for c in columns), strict=True)
    streamed, parts = make(), []
    for batch in batches:
        update(streamed, list(batch))
        parts.append(make())
        update(parts[-1], list(batch))
    left = right = make()
    for part in parts:
        left, right = left.merge(part), part.merge(right)
    for other in (streamed, left, right):
        assert same(whole.compute(), other.compute())
    if hasattr(whole, "excess"):
        assert same(whole.excess(), left.excess())
        assert same(whole.expected_if_calibrated(), left.expected_if_calibrated())


@each_case
def test_merge_changes_neither_and_empty_is_neutral(case: tuple[Any, ...]) -> None:
    make, update, simulate = case
    first, second = make(), make()
    update(first, list(simulate(50, 0)))
    update(second, list(simulate(30, 1)))
    before = first.compute(), second.compute()
    merged = first.merge(second)
    assert (first.compute(), second.compute()) == before
    assert merged.compute().count == before[0].count + before[1].count
    assert make().merge(first).compute() == first.merge(make()).compute() == before[0]


def test_ignored_labels_change_nothing_whatever_their_probabilities() -> None:
    probs, labels = classifier(24)
    hole = torch.full_like(probs[:6], float("nan"))
    padded = torch.cat((probs, hole)).reshape(5, 6, -1)
    targets = torch.cat((labels, torch.full((6,), -100))).reshape(5, 6)
    kinds = (metrics.NLL, metrics.Brier, metrics.Accuracy, metrics.ECE, metrics.AdaptiveECE)
    for make in kinds:
        with_holes, without = make(), make()
        with_holes.update(padded, targets)
        without.update(probs, labels)
        assert same(without.compute(), with_holes.compute())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_probabilities_are_accepted(dtype: torch.dtype) -> None:
    probs, labels = classifier()
    for make in (metrics.NLL, metrics.Brier, metrics.Accuracy, metrics.ECE):
        half, full = make(), make()
        half.update(probs.to(dtype), labels)
        full.update(probs, labels)
        assert half.compute().value == pytest.approx(full.compute().value, abs=0.02)


def storage_bytes(thing: Any) -> int:
    """Memory behind all tensors within a metric, views counted whole."""
    if isinstance(thing, Tensor):
        return thing.untyped_storage().nbytes()
    if isinstance(thing, tuple | list):
        return sum(map(storage_bytes, thing))
    return sum(map(storage_bytes, vars(thing).values())) if hasattr(thing, "__dict__") else 0


def test_nothing_of_the_size_of_a_vocabulary_is_kept() -> None:
    tokens, vocabulary = 24, 50_000
    probs = torch.randn(tokens, vocabulary, generator=stream(0)).softmax(-1)
    targets = probs.argmax(-1)
    streaming = (metrics.NLL(), metrics.Brier(), metrics.Accuracy(), metrics.ECE())
    for metric in (*streaming, metrics.AdaptiveECE()):
        metric.update(probs, targets)
        once = storage_bytes(metric)
        metric.update(probs, targets)
        grown = storage_bytes(metric) - once
        assert grown == (tokens * 9 if isinstance(metric, metrics.AdaptiveECE) else 0)
        assert once <= 10 * 5 * 8


def test_gradients_are_not_kept_alive() -> None:
    probs, labels = classifier()
    metric = metrics.AdaptiveECE()
    metric.update(probs.clone().requires_grad_() * 1, labels)
    assert not any(t.requires_grad for chunk in metric.state for t in chunk)
