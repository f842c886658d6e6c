"""Images by class: the fit, its page, and `predict` on a folder of folders, a folder and a file."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import pytest
import torch
from PIL import Image
from transformers import ViTForImageClassification, ViTImageProcessorPil

from regvar.finetuning import Settings, predict, sources, splitting
from tests.finetuning import tiny
from tests.finetuning.fits import Fit, fit, nll, numbers
from tests.report.html_reader import read


def test_test_rows_are_files_of_their_class_and_of_no_other_part(
    images_fit: Fit, images: Path
) -> None:
    rows = images_fit.test
    assert images_fit.metrics["rows"] == {"train": 24, "validation": 8, "test": 8}
    assert [row["label"] for row in rows] == [Path(row["file"]).parent.name for row in rows]
    assert all((images / row["file"]).is_file() for row in rows)
    whole = sources.read(images_fit.settings, tiny.SIDE)
    parts = splitting.split(whole, None, images_fit.settings.seed)
    named = {
        name: sources.names(images_fit.settings, part.rows, part.indices)
        for name, part in parts.items()
    }
    assert named["test"] == [row["file"] for row in rows]
    everything = sorted(str(p.relative_to(images)) for p in images.rglob("*.png"))
    assert sorted(name for names in named.values() for name in names) == everything


def test_scores_are_those_of_the_rows_on_file(images_fit: Fit) -> None:
    scores, validation = images_fit.metrics["test"], images_fit.metrics["validation"]
    assert scores["regvar"]["NLL"]["value"] == pytest.approx(nll(images_fit.test), rel=1e-5)
    assert validation["scale"] > 0
    assert validation["log_likelihood"] > validation["log_likelihood_of_map"]


def test_scores_of_the_network_alone_are_those_of_transformers_own(
    images_fit: Fit, images: Path
) -> None:
    folder = images_fit.directory / "model"
    network = ViTForImageClassification.from_pretrained(folder).eval()
    processor = ViTImageProcessorPil.from_pretrained(folder)
    rows = images_fit.test
    opened = [Image.open(images / row["file"]) for row in rows]
    with torch.no_grad():
        f = network(**processor(opened, return_tensors="pt")).logits
    labels = torch.tensor([("above", "below").index(row["label"]) for row in rows])
    expected = float(torch.nn.functional.cross_entropy(f, labels))
    assert images_fit.metrics["test"]["map"]["NLL"]["value"] == pytest.approx(expected, rel=1e-4)


def test_predict_says_of_the_test_images_what_finetune_wrote(
    images_fit: Fit, images: Path, tmp_path: Path
) -> None:
    made = predict(images_fit.directory, images, tmp_path / "all.csv")
    found = {row["file"]: row for row in tiny.written(made.path)}
    assert len(found) == made.rows == 40
    for row in images_fit.test:
        before = numbers(row)
        assert numbers(found[row["file"]]) == pytest.approx(before, rel=1e-4, abs=1e-6)
        assert found[row["file"]]["predicted"] == row["predicted"]


def test_a_folder_and_a_file_are_answered_as_in_the_whole(
    images_fit: Fit, images: Path, tmp_path: Path
) -> None:
    whole = {
        Path(row["file"]).name: numbers(row)
        for row in tiny.written(predict(images_fit.directory, images, tmp_path / "all.csv").path)
        if row["file"].startswith("above")
    }
    folder = tiny.written(
        predict(images_fit.directory, images / "above", tmp_path / "above.csv").path
    )
    assert [row["file"] for row in folder] == sorted(whole)
    for row in folder:
        assert numbers(row) == pytest.approx(whole[row["file"]], rel=1e-4, abs=1e-6)
    made = predict(images_fit.directory, images / "above" / "03.png", tmp_path / "one.csv")
    (one,) = tiny.written(made.path)
    assert one["file"] == "03.png"
    assert numbers(one) == pytest.approx(whole["03.png"], rel=1e-4, abs=1e-6)


def test_images_of_other_sizes_and_colors_are_fitted_to_the_network(
    images_fit: Fit, images: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    with Image.open(images / "below" / "00.png") as small:
        small.resize((40, 40), Image.Resampling.NEAREST).save(folder / "large.png")
        small.convert("L").save(folder / "gray.jpg")
        small.convert("RGBA").resize((21, 9)).save(folder / "wide.webp")
    (folder / "notes.txt").write_text("not an image")
    made = predict(images_fit.directory, folder, tmp_path / "odd.csv")
    assert made.columns["file"] == ["gray.jpg", "large.png", "wide.webp"]


def test_the_page_shows_test_images_inside_itself(images_fit: Fit, images: Path) -> None:
    found = read(images_fit.html)
    shown = {attributes["alt"]: attributes["src"] for attributes in found.all("img")}
    # Four of the least certain and four of the most certain: all test rows.
    assert shown.keys() == {row["file"] for row in images_fit.test}
    for file, source in shown.items():
        head, encoded = source.split(",")
        assert head == "data:image/png;base64"
        drawn = Image.open(io.BytesIO(base64.b64decode(encoded)))
        assert drawn.convert("RGB").tobytes() == Image.open(images / file).tobytes()


def test_an_adapter_of_an_image_network_is_opened_on_its_base(
    networks: Path, images: Path, tmp_path: Path
) -> None:
    settings = Settings(
        str(images),
        task="image-classification",
        model=str(networks / "vit"),
        lora=True,
        epochs=1,
        lr=1e-2,
        samples=1,
    )
    made = fit(settings, tmp_path / "run")
    found = predict(made.directory, images, tmp_path / "p.csv")
    again = {row["file"]: numbers(row) for row in tiny.written(found.path)}
    for row in made.test:
        assert again[row["file"]] == pytest.approx(numbers(row), rel=1e-4, abs=1e-6)
