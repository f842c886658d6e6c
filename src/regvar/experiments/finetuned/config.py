"""What is fine-tuned on what, how, and which settings each method may choose from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from regvar.data import Blur, Contrast, Corruption, GaussianNoise

CORRUPTIONS: dict[str, Callable[[int], Corruption]] = {
    "noise": GaussianNoise,
    "blur": Blur,
    "contrast": Contrast,
}


@dataclass(frozen=True)
class Part:
    """Some rows of a data set of `regvar.data`."""

    data: str  # its short name
    split: str  # one of its splits
    size: int
    offset: int = 0  # rows of the same drawing that others have taken
    labeled: bool = True  # False: its labels mean something else, only uncertainty is scored
    corruption: str = ""  # of images: one of `CORRUPTIONS`, a dash, its strength

    @property
    def name(self) -> str:
        """What its split is called when it is a shift."""
        return self.corruption or self.data


@dataclass(frozen=True)
class Config:
    """One cell: a network, its data and the grids of the methods.

    The defaults are the paper's where it gives them: precision 0.02 (N(0, 50 I)), Adam at 2·10⁻⁵
    for the refit, one epoch, ten heads and ten passes, and λ, the dropout rate and the prior of
    the last-layer approximations chosen on validation likelihood, with a variance scale for each.
    """

    model: str  # a name for `huggingface.loading.load`
    task: str  # "sequence-classification", "causal-lm" or "image-classification"
    train: Part
    validation: Part
    test: Part
    shifts: tuple[Part, ...] = ()
    classes: int | None = 2
    frozen: tuple[str, ...] = ()
    adapter_rank: int | None = None  # LoRA in place of the whole network
    tokens: int = 64
    pixels: int = 0  # the side of images
    batch: int = 16
    epochs: int = 4
    lr: float = 1e-4
    precision: float = 0.02
    refit_epochs: int = 1
    refit_lr: float = 2e-5  # of the paper's refit and its control
    lam: tuple[float, ...] = (0.1, 1.0, 10.0)
    samples: int = 6
    sampled_lr: float = 1e-4
    sampled_lam: float = 1.0
    dropout: tuple[float, ...] = (0.02, 0.05, 0.1)
    passes: int = 10
    heads: int = 10
    head_precision: tuple[float, ...] = (0.2, 2.0, 20.0, 200.0)
    examples: int = 8  # texts or images shown on the page, of each kind
    documents: int = 3  # shown token by token, for language models
