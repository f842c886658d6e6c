"""Everything that is scored on one split, in one streaming pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from regvar.batches import IGNORED
from regvar.calibration import Calibrated
from regvar.errors import ArgumentError
from regvar.metrics import (
    AUROC,
    ECE,
    NLL,
    Accuracy,
    AdaptiveECE,
    Brier,
    Estimate,
    RiskCoverage,
    label_scores,
)
from regvar.predictives import Classification, scaled


@dataclass
class Split:
    """The metrics of one split, and each label's uncertainty for comparisons between splits."""

    nll: NLL = field(default_factory=NLL)
    ece: ECE = field(default_factory=ECE)
    adaptive: AdaptiveECE = field(default_factory=AdaptiveECE)
    brier: Brier = field(default_factory=Brier)
    accuracy: Accuracy = field(default_factory=Accuracy)
    selective: RiskCoverage = field(default_factory=RiskCoverage)
    errors: AUROC = field(default_factory=AUROC)
    total: list[Tensor] = field(default_factory=lambda: [])  # H[p], one number per label
    epistemic: list[Tensor] = field(default_factory=lambda: [])  # I[y; f]
    variance: list[Tensor] = field(default_factory=lambda: [])  # σ²_f, mean over the outputs
    confidence: list[Tensor] = field(default_factory=lambda: [])
    correct: list[Tensor] = field(default_factory=lambda: [])

    def metrics(self) -> dict[str, Estimate]:
        """By name, as records hold them; none for a split without labels."""
        if not self.correct:
            return {}
        return {
            "NLL": self.nll.compute(),
            "ECE": self.ece.compute(),
            "adaptive ECE": self.adaptive.compute(),
            "Brier": self.brier.compute(),
            "accuracy": self.accuracy.compute(),
            "AURC": self.selective.compute(),
            **({"AUROC of errors": self.errors.compute()} if self._both() else {}),
        }

    def _both(self) -> bool:
        right = torch.cat(self.correct)
        return bool(right.any()) and not bool(right.all())

    def reliability(self) -> dict[str, list[float]]:
        """Accuracy against confidence, bin by bin."""
        found = self.ece.reliability()
        return {
            "confidence": found.confidence.tolist(),
            "accuracy": found.accuracy.tolist(),
            "count": found.count.tolist(),
        }

    def risk(self, points: int = 40) -> dict[str, list[float]]:
        """The risk-coverage curve, thinned."""
        curve = self.selective.curve()
        count = len(curve.risk)
        index = torch.linspace(0, count - 1, min(points, count)).round().long()
        return {
            "coverage": curve.coverage[index].tolist(),
            "risk": curve.risk[index].tolist(),
        }


def score(calibrated: Calibrated, loader: Any) -> Split:
    """One pass over a split; where it has no labels, only uncertainties are collected."""
    split = Split()
    for batch in loader:
        raw = calibrated.uq.moments(batch)
        moments = scaled(raw, calibrated.scale)
        targets = calibrated.network.targets(batch, moments.mean)
        made = calibrated.predictive.predict(moments)
        if not isinstance(made, Classification):
            raise ArgumentError(f"calibrated must predict classes, but it gives {type(made)}.")
        spread = raw.variance.reshape(*made.total.shape, -1).mean(-1)
        if targets is None:
            split.total.append(made.total.flatten().cpu())
            split.epistemic.append(made.epistemic.flatten().cpu())
            split.variance.append(spread.flatten().cpu())
            continue
        split.variance.append(spread.cpu()[(targets != IGNORED).cpu()])
        split.nll.update_log_probs(calibrated.predictive.log_prob(moments, targets)[0])
        _add(split, made, targets)
    return split


def _add(split: Split, made: Classification, targets: Tensor) -> None:
    for metric in (split.brier, split.accuracy):
        metric.update(made.probs, targets)
    scores = label_scores(made.probs, targets)
    wrong = ~scores.correct
    scored = (targets != IGNORED).cpu()
    entropy = made.total.cpu()[scored]
    split.ece.update_confidence(scores.confidence, scores.correct)
    split.adaptive.update_confidence(scores.confidence, scores.correct)
    split.selective.update(entropy, wrong.float())
    split.errors.update(entropy, wrong)
    split.total.append(entropy)
    split.epistemic.append(made.epistemic.cpu()[scored])
    split.confidence.append(scores.confidence)
    split.correct.append(scores.correct)


def shift_auroc(inside: Split, outside: Split) -> dict[str, Estimate]:
    """How well uncertainty tells shifted labels from those of the test set."""
    found: dict[str, Estimate] = {}
    for name, attribute in (
        ("AUROC of shift", "total"),
        ("AUROC of shift, epistemic", "epistemic"),
        ("AUROC of shift, variance", "variance"),
    ):
        metric = AUROC()
        metric.update_groups(
            inside=torch.cat(getattr(inside, attribute)),
            outside=torch.cat(getattr(outside, attribute)),
        )
        found[name] = metric.compute()
    return found


def summary(calibrated: Calibrated, loaders: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """NLL, ECE and accuracy alone, for a variant that needs no record of its own."""
    chosen = ("NLL", "ECE", "accuracy")
    return {
        name: {m: asdict(e) for m, e in score(calibrated, loader).metrics().items() if m in chosen}
        for name, loader in loaders.items()
    }
