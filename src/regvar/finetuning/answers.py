"""What a fitted network says of each row: a label and how sure it is, or how likely a text is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from regvar.errors import ModelError
from regvar.estimators import Amortized, Sampled
from regvar.huggingface.readings import sequence_scores
from regvar.likelihoods import Categorical
from regvar.predictives import Classification, Probit, scaled

Value = str | float | int | None
Columns = dict[str, list[Value]]  # by name, one value per row


@dataclass(frozen=True)
class Reader:
    """An estimator with the scale of its variance."""

    uq: Sampled | Amortized
    scale: float  # s*
    classes: tuple[str, ...]  # none for a language model
    shared: bool = False  # one variance for all classes of a row

    def read(self, loader: Iterable[Any], rows: int) -> Columns:
        """The answers to all rows of a loader, in its order.

        Args:
            loader: batches without labels.
            rows: how many there are, for the bar.
        """
        found: Columns = {}
        answer = self._classified if self.classes else self._likely
        with tqdm(total=rows, desc="predict", unit="row", leave=False, disable=None) as bar:
            for batch in loader:
                part = answer(batch)
                for name, values in part.items():
                    found.setdefault(name, []).extend(values)
                bar.update(len(next(iter(part.values()))))
        return found

    def _classified(self, batch: Any) -> Columns:
        moments = scaled(self.uq.moments(batch), self.scale)
        made = Probit(Categorical(), self.shared).predict(moments)
        if not bool(torch.isfinite(made.probs).all()):
            raise ModelError(
                "outputs of the fitted network must be finite, but hold NaN or inf. Run "
                "`regvar finetune` again with a lower --lr."
            )
        confidence, label = made.probs.max(-1)
        columns: Columns = {
            "predicted": [self.classes[k] for k in label.tolist()],
            "confidence": numbers(confidence),
        }
        for k, name in enumerate(self.classes):
            columns[probability(name)] = numbers(made.probs[:, k])
        return columns | _uncertainties(made)

    def _likely(self, batch: Any) -> Columns:
        scores = sequence_scores(self.uq, batch)
        std = (self.scale * scores.variance).sqrt()
        count: list[Value] = [*scores.count.tolist()]
        known = scores.count > 0  # a text of one token has none to predict

        def where_known(values: Tensor) -> list[Value]:
            pairs = zip(numbers(values), known.tolist(), strict=True)
            return [value if held else None for value, held in pairs]

        return {
            "mean_log_prob": where_known(scores.log_prob),
            "std": where_known(std),
            "tokens": count,
        }


def probability(name: str) -> str:
    """The column of a class's probability."""
    return f"probability_{name}"


def _uncertainties(made: Classification) -> Columns:
    return {"total": numbers(made.total), "epistemic": numbers(made.epistemic)}


def numbers(values: Tensor) -> list[Value]:
    """As Python's own, at full precision."""
    return [*values.detach().cpu().double().tolist()]
