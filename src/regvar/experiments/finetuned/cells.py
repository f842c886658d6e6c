"""The cells of each study: which network on which data, in sizes that two cores carry.

| study | the paper's | here |
|---|---|---|
| `snippets` | – | MiniLM on 1,000 rated film snippets |
| `table1-sentiment` | – | MiniLM and SmolLM2-135M on IMDB, two classes |
| `table1-lm-small` | GPT-Neo-125M, next token | SmolLM2-135M on WikiText-2 and the texts of IMDB |
| `table1-lm-xl` | GPT-Neo-1.3B, next token | Qwen2.5-Coder-1.5B with a LoRA adapter on WikiText-2 |
| `table1-vit` | ViT-Base on Places365 | ViT-S/14 and MobileNetV2 on CIFAR-10 |

Language models follow the paper's protocol: one epoch of Adam at 2·10⁻⁵, 16 documents a step, and
refits that do the same. The vision networks have its five epochs and its split of 4,000 images.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from regvar.experiments.finetuned.config import CORRUPTIONS, Config, Part

FILM = "snippets-film"
METHODS = (
    "pretrained",
    "map_only",
    "temperature",
    "drift",
    "last_layer_ensemble",
    "mc_dropout",
    "laplace_last_layer_diag",
    "laplace_last_layer_full",
    "gradient_norm",
    "amortized",
    "amortized_control",
    "sampled",
)


@dataclass(frozen=True)
class Study:
    """Cells that share a page."""

    name: str
    summary: str
    cells: Mapping[str, Config]
    without: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {})
    seeds: tuple[int, ...] = (0, 1, 2)


SNIPPETS = Study(
    "snippets",
    "MiniLM fine-tuned on rated film snippets; shift to products, tweets, editorials",
    {
        "minilm-film": Config(
            model="minilm",
            task="sequence-classification",
            frozen=("embeddings",),
            train=Part(FILM, "all", 1000),
            validation=Part(FILM, "all", 500, offset=1000),
            test=Part(FILM, "all", 1000, offset=1500),
            shifts=(
                Part("snippets-product", "all", 500),
                Part("snippets-tweet", "all", 500),
                Part("snippets-editorial", "all", 500),
            ),
        )
    },
)

# What `regvar demo` runs: fewer rows and epochs, and the methods that take seconds each.
DEMO = Study(
    SNIPPETS.name,
    "MiniLM fine-tuned on 400 rated film snippets; shift to products, tweets, editorials",
    {
        "minilm-film": replace(
            SNIPPETS.cells["minilm-film"],
            train=Part(FILM, "all", 400),
            validation=Part(FILM, "all", 250, offset=400),
            test=Part(FILM, "all", 300, offset=650),
            shifts=(
                Part("snippets-product", "all", 150),
                Part("snippets-tweet", "all", 150),
                Part("snippets-editorial", "all", 150),
            ),
            lam=(1.0,),
            head_precision=(2.0, 20.0),
            samples=4,
        )
    },
    {
        "minilm-film": (
            "pretrained",
            "last_layer_ensemble",
            "mc_dropout",
            "laplace_last_layer_diag",
            "gradient_norm",
            "amortized_control",
        )
    },
    seeds=(0,),
)


def _reviews(size: int) -> tuple[Part, ...]:
    """Other reviews, then other kinds of text; the last has no sentiment to be right about."""
    return (
        Part("rotten-tomatoes", "all", size),
        Part("snippets-product", "all", size),
        Part("snippets-tweet", "all", size),
        Part("20newsgroups", "test", size, labeled=False),
    )


SENTIMENT = Study(
    "table1-sentiment",
    "MiniLM and SmolLM2-135M on IMDB sentiment; shift to other reviews, tweets, newsgroups",
    {
        "minilm-imdb": Config(
            model="minilm",
            task="sequence-classification",
            frozen=("embeddings",),
            train=Part("imdb", "train", 300),
            validation=Part("imdb", "train", 150, offset=300),
            test=Part("imdb", "test", 200),
            shifts=_reviews(60),
            samples=4,
            dropout=(0.02, 0.1),
            lam=(1.0, 10.0),
            head_precision=(0.2, 2.0, 20.0),
        ),
        "smollm2-imdb": Config(
            model="smollm2-135m",
            task="sequence-classification",
            train=Part("imdb", "train", 96),
            validation=Part("imdb", "train", 40, offset=96),
            test=Part("imdb", "test", 64),
            shifts=_reviews(16),
            tokens=48,
            batch=8,
            epochs=2,
            lr=5e-5,
            samples=4,
            sampled_lr=5e-5,
            dropout=(0.01, 0.05),
            lam=(1.0, 10.0),
            head_precision=(0.2, 2.0, 20.0),
        ),
    },
    # A backward pass through 135 million parameters for each text of every set.
    {"smollm2-imdb": ("gradient_norm",)},
)

# A backward pass for each of 49,152 outputs at each place.
_MANY_OUTPUTS = ("gradient_norm",)


def _language(data: str, validation: Part, shift: Part) -> Config:
    return Config(
        model="smollm2-135m",
        task="causal-lm",
        classes=None,
        train=Part(data, "train", 64),
        validation=validation,
        test=Part(data, "test", 32),
        shifts=(shift,),
        tokens=64,
        epochs=1,
        lr=2e-5,
        samples=4,
        sampled_lr=2e-5,
        head_precision=(0.02, 2.0, 200.0),
        dropout=(0.002, 0.01, 0.05),
        lam=(1.0, 10.0, 100.0),
    )


SMALL = Study(
    "table1-lm-small",
    "SmolLM2-135M, next token, on WikiText-2 and on the texts of IMDB",
    {
        "smollm2-wikitext": _language(
            "wikitext-2", Part("wikitext-2", "validation", 16), Part("imdb", "test", 16)
        ),
        "smollm2-imdb-text": _language(
            "imdb", Part("imdb", "train", 16, offset=64), Part("wikitext-2", "test", 16)
        ),
    },
    {"smollm2-wikitext": _MANY_OUTPUTS, "smollm2-imdb-text": _MANY_OUTPUTS},
)

XL = Study(
    "table1-lm-xl",
    "Qwen2.5-Coder-1.5B with a LoRA adapter, next token, on WikiText-2",
    {
        "qwen-wikitext": Config(
            model="qwen2.5-coder-1.5b",
            task="causal-lm",
            classes=None,
            adapter_rank=8,
            train=Part("wikitext-2", "train", 32),
            validation=Part("wikitext-2", "validation", 8),
            test=Part("wikitext-2", "test", 16),
            tokens=64,
            batch=4,
            epochs=1,
            lr=1e-4,
            refit_lr=1e-4,
            lam=(10.0,),
            samples=2,
            sampled_lr=1e-4,
            head_precision=(2.0,),
            dropout=(0.01,),
            passes=4,
        )
    },
    # As in the paper: ten heads of 233 million parameters each.
    {"qwen-wikitext": (*_MANY_OUTPUTS, "last_layer_ensemble")},
    seeds=(0,),
)


def _images(model: str, pixels: int, lr: float, sampled_lr: float) -> Config:
    """The paper's split of 4,000 images."""
    corrupted = (
        Part("cifar10", "test", 40, offset=1000, corruption=f"{kind}-{strength}")
        for kind in CORRUPTIONS
        for strength in range(1, 6)
    )
    return Config(
        model=model,
        task="image-classification",
        classes=10,
        train=Part("cifar10", "train", 2000),
        validation=Part("cifar10", "train", 1000, offset=2000),
        test=Part("cifar10", "test", 1000),
        shifts=(*corrupted, Part("fashion-mnist", "test", 200, labeled=False)),
        pixels=pixels,
        batch=32,
        epochs=5,
        lr=lr,
        dropout=(0.02, 0.1),
        lam=(1.0, 10.0),
        head_precision=(0.2, 2.0, 20.0),
        samples=4,
        sampled_lr=sampled_lr,
    )


VISION = Study(
    "table1-vit",
    "ViT-S/14 and MobileNetV2 on CIFAR-10; shift to noise, blur, contrast and Fashion-MNIST",
    {
        "vit-cifar10": _images("vit-s14", 42, lr=3e-5, sampled_lr=3e-5),
        "mobilenet-cifar10": _images("mobilenet-v2", 64, lr=1e-3, sampled_lr=1e-4),
    },
)

STUDIES = (SNIPPETS, SENTIMENT, SMALL, XL, VISION)
