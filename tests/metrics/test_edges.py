"""Rules at the edges of bins and intervals, several outputs, and errors that help."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from regvar import RegvarError, metrics
from regvar.errors import ArgumentError, DataError

HALF = torch.tensor([[0.5, 0.5]])
ONE = torch.ones(1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_bins_are_closed_on_the_right(dtype: torch.dtype) -> None:
    edges = torch.arange(11, dtype=torch.float64) / 10
    for bins, expected in ((10, [0.05, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),):
        ece = metrics.ECE(bins)
        ece.update_confidence(edges.to(dtype), torch.ones(11))
        points = ece.reliability()
        assert points.count.tolist() == [2] + [1] * 9  # 0 shares the first bin with 0.1
        assert points.confidence.tolist() == pytest.approx(expected, abs=2e-3)
    just_above = metrics.ECE()
    inside = torch.nextafter(torch.tensor(0.1), ONE[0])
    just_above.update_confidence(torch.stack((torch.tensor(0.1), inside)), torch.ones(2))
    assert just_above.reliability().count.tolist() == [1, 1]


def test_the_interval_includes_its_ends_and_a_variance_of_zero() -> None:
    zero = torch.zeros(1)
    assert metrics.gaussian_coverage(zero, zero, zero).item() == 1
    assert metrics.gaussian_coverage(zero, zero, ONE).item() == 0
    assert metrics.gaussian_crps(zero, zero, -3 * ONE).item() == 3
    nearly = metrics.gaussian_crps(zero, 1e-12 * ONE, -3 * ONE).item()
    assert nearly == pytest.approx(3, abs=1e-5)


def test_several_outputs_are_one_datum() -> None:
    mean, variance, targets = torch.zeros(3, 2), torch.ones(3, 2), torch.tensor([[0.0, 9.0]] * 3)
    nll, picp, crps = metrics.NLL(), metrics.PICP(), metrics.CRPS()
    nll.update_gaussian(mean, variance, targets)
    picp.update(mean, variance, targets)
    crps.update(mean, variance, targets)
    one_by_one = metrics.gaussian_crps(mean.flatten(), variance.flatten(), targets.flatten())
    normal = torch.distributions.Normal(mean[0], variance[0])
    assert nll.compute().value == pytest.approx(-float(normal.log_prob(targets[0]).sum()))
    assert picp.compute() == metrics.Estimate(0.5, 0.0, 3)
    assert crps.compute().value == pytest.approx(float(one_by_one.mean()))


def test_infinite_scores_have_a_rank() -> None:
    area = metrics.auroc(torch.tensor([-torch.inf, 0.0, torch.inf]), torch.tensor([0, 0, 1]))
    assert area.value == 1


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "logits": (
        lambda: metrics.NLL().update(torch.tensor([[2.0, -1.0]]), torch.tensor([0])),
        r"probs must be non-negative and sum to 1.*sum to 1 with smallest -1.*softmax",
    ),
    "unnormalized": (
        lambda: metrics.ECE().update(2 * HALF, torch.tensor([0])),
        r"probs must .* sum to 2 .*softmax",
    ),
    "NaN": (
        lambda: metrics.Brier().update(torch.nan * HALF, torch.tensor([0])),
        r"probs must .* sum to nan",
    ),
    "one probability": (
        lambda: metrics.NLL().update(torch.tensor([0.5]), torch.tensor([1])),
        r"probs must be floating-point probabilities.*torch.stack\(\(1 - p, p\)",
    ),
    "label range": (
        lambda: metrics.Accuracy().update(HALF, torch.tensor([2])),
        r"label must lie in 0\.\.1 .*but 2 is out of range",
    ),
    "label shape": (
        lambda: metrics.Accuracy().update(HALF, torch.tensor([[0]])),
        r"targets .* must have the outputs' shape",
    ),
    "variance of zero": (
        lambda: metrics.NLL().update_gaussian(ONE, 0 * ONE, ONE),
        r"variance must be positive .* 0 somewhere.*noise",
    ),
    "negative variance": (
        lambda: metrics.CRPS().update(ONE, -ONE, ONE),
        r"variance must not be negative, but -1 is",
    ),
    "broadcasting": (
        lambda: metrics.PICP().update(torch.ones(3, 1), torch.ones(3, 1), torch.ones(3)),
        r"targets must have the shape of mean, \(3, 1\), but have \(3,\)",
    ),
    "infinite target": (
        lambda: metrics.CRPS().update(ONE, ONE, torch.inf * ONE),
        r"targets must be finite",
    ),
    "no batch": (
        lambda: metrics.CRPS().update(ONE[0], ONE[0], ONE[0]),
        r"mean must have a batch dimension",
    ),
    "one fair draw": (
        lambda: metrics.sample_crps(torch.ones(1, 4), torch.ones(4)),
        r"at least 2 draws, but hold 1.*fair=False",
    ),
    "draws last": (
        lambda: metrics.sample_crps(torch.ones(4, 3), torch.ones(4)),
        r"samples must have the shape \[draws, \*targets.shape\].*dimension 0",
    ),
    "level": (lambda: metrics.PICP(95), r"level must be strictly between 0 and 1, but it is 95"),
    "bins": (lambda: metrics.ECE(bins=0), r"bins must be at least 1, but it is 0"),
    "confidence": (
        lambda: metrics.ECE().update_confidence(2 * ONE, ONE),
        r"confidence must lie in \[0, 1\], but 2",
    ),
    "correctness": (
        lambda: metrics.AdaptiveECE().update_confidence(ONE, 2 * ONE),
        r"correct must be true or false .* but 2 is neither",
    ),
    "nothing seen": (
        lambda: metrics.NLL().compute(),
        r"NLL must have seen at least one datum, but has seen 0",
    ),
    "all ignored": (
        lambda: [(m := metrics.ECE()).update(HALF, torch.tensor([-100])), m.compute()],
        r"ECE must have seen at least one datum",
    ),
    "one kind": (
        lambda: metrics.auroc(torch.ones(3), torch.ones(3)),
        r"positive must hold both kinds .* but 3 are positive and 0 negative",
    ),
    "NaN score": (
        lambda: metrics.AUROC().update(torch.nan * ONE, ONE),
        r"scores must be numbers, but hold NaN",
    ),
    "labels": (
        lambda: metrics.auroc(torch.ones(2), torch.tensor([-1, 1])),
        r"positive must be true or false .* but -1 is neither",
    ),
    "loss shape": (
        lambda: metrics.risk_coverage(torch.ones(3), torch.ones(3, 1)),
        r"loss must have the shape of uncertainty, \(3,\)",
    ),
    "NaN log prob": (lambda: metrics.NLL().update_log_probs(torch.nan * ONE), r"log_probs must be"),
    "merge kinds": (
        lambda: metrics.NLL().merge(metrics.Brier()),  # type: ignore[arg-type]
        r"other must be a metric of the same kind, NLL, but it is Brier",
    ),
    "merge bins": (
        lambda: metrics.ECE(10).merge(metrics.ECE(15)),
        r"other must have the same bins, 10, but it has 15",
    ),
    "bootstrap rows": (
        lambda: metrics.bootstrap(lambda a, b: 0.0, torch.ones(3), torch.ones(4)),
        r"data .* must have equally many rows",
    ),
    "resamples": (
        lambda: metrics.bootstrap(lambda a: 0.0, torch.ones(3), resamples=1),
        r"resamples must be at least 2, but it is 1",
    ),
}


@pytest.mark.parametrize(("mistake", "text"), MISTAKES.values(), ids=list(MISTAKES))
def test_mistakes_are_explained(mistake: Callable[[], object], text: str) -> None:
    with pytest.raises(RegvarError, match=text) as caught:
        mistake()
    assert isinstance(caught.value, ArgumentError | DataError)
