"""One fit of each kind for all tests of this folder, which only read what it has written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regvar.finetuning import Settings
from tests.finetuning import tiny
from tests.finetuning.fits import Fit, fit

TEXTS: dict[str, dict[str, Any]] = {
    "sampled": {},
    "amortized": {"method": "amortized"},
    "sampled-lora": {"lora": True},
    "amortized-lora": {"lora": True, "method": "amortized"},
}
WRONG = 0.15  # of the labels, which the network learns by heart: calibration has work to do


@pytest.fixture(scope="session")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network of each kind: bert, gpt2, vit."""
    root = tmp_path_factory.mktemp("networks")
    tiny.bert(root / "bert", width=32, spread=0.1)
    tiny.gpt2(root / "gpt2")
    tiny.vit(root / "vit")
    return root


@pytest.fixture(scope="session")
def rows() -> list[tuple[str, str]]:
    return tiny.sentences(300, wrong=WRONG)


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]) -> Path:
    return tiny.table(tmp_path_factory.mktemp("table") / "sentences.csv", rows)


@pytest.fixture(scope="session")
def texts_fits(
    tmp_path_factory: pytest.TempPathFactory, networks: Path, table: Path
) -> Callable[[str], Fit]:
    """The fit of a name in `TEXTS`, run when it is first asked for."""
    root = tmp_path_factory.mktemp("texts")
    found: dict[str, Fit] = {}

    def get(name: str) -> Fit:
        if name not in found:
            bert = str(networks / "bert")
            how = {"epochs": 20, "lr": 5e-3, "samples": 3, **TEXTS[name]}
            settings = Settings(str(table), model=bert, **how)
            found[name] = fit(settings, root / name)
        return found[name]

    return get


@pytest.fixture(params=TEXTS)
def any_fit(request: pytest.FixtureRequest, texts_fits: Callable[[str], Fit]) -> Fit:
    """Each of them in turn."""
    return texts_fits(request.param)


@pytest.fixture
def texts_fit(texts_fits: Callable[[str], Fit]) -> Fit:
    return texts_fits("sampled")


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hard to tell apart, so that the network is too sure of them."""
    return tiny.pictures(tmp_path_factory.mktemp("images") / "pictures", 20, contrast=18)


@pytest.fixture(scope="session")
def images_fit(tmp_path_factory: pytest.TempPathFactory, networks: Path, images: Path) -> Fit:
    settings = Settings(
        str(images),
        task="image-classification",
        model=str(networks / "vit"),
        epochs=20,
        lr=3e-2,
        samples=3,
    )
    return fit(settings, tmp_path_factory.mktemp("images-fit") / "run")


@pytest.fixture(scope="session")
def language_fit(tmp_path_factory: pytest.TempPathFactory, networks: Path) -> Fit:
    root = tmp_path_factory.mktemp("language")
    settings = Settings(
        str(tiny.table(root / "texts.csv", tiny.sentences(45))),
        task="causal-lm",
        model=str(networks / "gpt2"),
        epochs=15,
        lr=3e-2,
        samples=2,
        batch=9,
    )
    return fit(settings, root / "run")
