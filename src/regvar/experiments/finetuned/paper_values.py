"""The paper's Table 1 as it is printed, and which of its columns each of our cells stands for.

Values are of one run with Wald's 95 % intervals over the held-out data. None of the paper's
networks and only some of its data are used here: each counterpart says what stands in for what.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

COLUMNS = {
    "gpt3-wikitext": "GPT-3 (125M) on Wikitext",
    "gpt3-imdb": "GPT-3 (125M) on IMDB",
    "xl-wikitext": "XL GPT-3 (1.3B) on Wikitext",
    "xl-imdb": "XL GPT-3 (1.3B) on IMDB",
    "vit-places365": "ViT (86M) on Places365",
}
METHODS = {
    "pretrained": "Pre-Trained",
    "map_only": "MAP",
    "last_layer_ensemble": "Ensemble",
    "mc_dropout": "MC Dropout",
    "laplace_last_layer_diag": "Laplace Diag",
    "laplace_last_layer_full": "Laplace Full",
    "amortized": "RegVar",
}
_NLL = {
    "pretrained": "9.781 0.009 10.374 0.012 8.228 0.013 9.886 0.015 5.900 0.002",
    "map_only": "1.383 0.027 9.681 0.015 1.523 0.030 9.206 0.020 5.871 0.012",
    "last_layer_ensemble": "3.925 0.058 22.84 0.005 - - - - 5.885 0.010",
    "mc_dropout": "1.410 0.026 9.551 0.013 1.495 0.029 9.137 0.019 5.878 0.006",
    "laplace_last_layer_diag": "1.481 0.021 9.090 0.011 1.273 0.021 8.797 0.017 5.872 0.026",
    "laplace_last_layer_full": "1.277 0.021 8.774 0.009 1.198 0.021 8.047 0.013 5.869 0.001",
    "amortized": "1.143 0.021 8.009 0.008 1.151 0.020 8.138 0.007 5.853 0.014",
}
_ECE = {
    "pretrained": "0.163 0.001 0.239 0.001 0.233 0.002 0.287 0.002 0.001 0.000",
    "map_only": "0.052 0.001 0.224 0.002 0.060 0.001 0.240 0.002 0.009 0.001",
    "last_layer_ensemble": "0.153 0.002 0.747 0.004 - - - - 0.002 0.000",
    "mc_dropout": "0.036 0.000 0.176 0.002 0.054 0.001 0.219 0.002 0.005 0.000",
    "laplace_last_layer_diag": "0.180 0.002 0.170 0.001 0.072 0.001 0.203 0.001 0.001 0.000",
    "laplace_last_layer_full": "0.082 0.001 0.136 0.001 0.024 0.000 0.126 0.001 0.000 0.000",
    "amortized": "0.019 0.000 0.044 0.001 0.047 0.001 0.024 0.001 0.001 0.000",
}


@dataclass(frozen=True)
class Printed:
    """One value of the table, to the digit."""

    value: str
    half_width: str


def _row(text: str) -> dict[str, Printed]:
    held = text.split()
    pairs = zip(COLUMNS, held[::2], held[1::2], strict=True)
    return {column: Printed(value, half) for column, value, half in pairs if value != "-"}


# metric → method → column → value
PRINTED: Mapping[str, Mapping[str, Mapping[str, Printed]]] = {
    metric: {method: _row(text) for method, text in rows.items()}
    for metric, rows in (("NLL", _NLL), ("ECE", _ECE))
}


@dataclass(frozen=True)
class Counterpart:
    """The column of the paper that a cell is put beside, and how the two differ."""

    column: str  # of `COLUMNS`
    differs: str


_TOKENS = (
    "Another network, tokenizer and vocabulary, and far fewer documents: the sizes of the numbers "
    "cannot agree, only the order of the methods can."
)
_LABELS = (
    "Another network and another task: two classes of sentiment here, where the paper's NLL of 8 "
    "to 10 is far above ln 2 = 0.69, what guessing between two classes costs, and presumably of "
    "tokens. Only the order of the methods may be compared, with caution."
)
COUNTERPARTS: Mapping[str, Counterpart] = {
    "smollm2-wikitext": Counterpart(
        "gpt3-wikitext", f"WikiText-2 stands in for WikiText-103. {_TOKENS}"
    ),
    "smollm2-imdb-text": Counterpart("gpt3-imdb", f"The texts of IMDB, as there. {_TOKENS}"),
    "smollm2-imdb": Counterpart("gpt3-imdb", _LABELS),
    "minilm-imdb": Counterpart("gpt3-imdb", _LABELS),
    "qwen-wikitext": Counterpart(
        "xl-wikitext",
        "WikiText-2 stands in for WikiText-103, and only a LoRA adapter is trained and uncertain, "
        f"not the whole network. {_TOKENS}",
    ),
    "vit-cifar10": Counterpart(
        "vit-places365",
        "A smaller network, and ten classes in place of 365. Guessing among 365 classes costs "
        "ln 365 = 5.900, the paper's value before fine-tuning; its best, 5.853, is 0.047 below, "
        "so that its ECE speaks of confidences near 1/365.",
    ),
}
