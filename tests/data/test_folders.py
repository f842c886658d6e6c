"""A folder of images by class, against pixels drawn by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from PIL import Image

from regvar.data.folders import image_files, read_images, read_labeled_images
from regvar.errors import ArgumentError, DataError

COLORS = {"red": (200, 10, 20), "blue": (5, 15, 250)}


def draw(path: Path, color: tuple[int, int, int], size: tuple[int, int] = (8, 8)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).save(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "mine"
    for name, color in COLORS.items():
        for k, suffix in enumerate(("png", "PNG", "bmp")):
            draw(root / name / f"{k}.{suffix}", color, (8 + 3 * k, 8))
    (root / "red" / "notes.txt").write_text("not an image")
    (root / ".hidden").mkdir()
    return root


def test_classes_are_the_folders_names(folder: Path) -> None:
    found = read_labeled_images(folder, side=8)
    assert found.classes == ("blue", "red")
    assert found.labels is not None
    assert found.labels.tolist() == [0, 0, 0, 1, 1, 1]
    truth = [COLORS[found.classes[k]] for k in found.labels.tolist()]
    assert torch.equal(found.pixels[:, 3, 5].int(), torch.tensor(truth).int())
    assert found.pixels.shape == (6, 8, 8, 3)


def test_the_middle_is_cut_out_and_not_squeezed(tmp_path: Path) -> None:
    wide = Image.new("RGB", (24, 8), (0, 0, 0))
    wide.paste((255, 255, 255), (8, 0, 16, 8))
    wide.save(tmp_path / "wide.png")
    assert bool((read_images(tmp_path, side=8).pixels == 255).all())


def test_turned_and_gray_and_clear_images_come_upright_in_color(tmp_path: Path) -> None:
    turned = Image.new("RGB", (8, 8), (0, 0, 0))
    turned.paste((255, 255, 255), (0, 0, 8, 4))  # the upper half is white …
    exif = Image.Exif()
    exif[0x0112] = 3  # … and the camera was upside down
    turned.save(tmp_path / "a.png", exif=exif)
    Image.new("L", (8, 8), 77).save(tmp_path / "b.png")
    Image.new("RGBA", (8, 8), (9, 8, 7, 255)).save(tmp_path / "c.png")
    pixels = read_images(tmp_path, side=8).pixels
    assert pixels[0, 0, 0].tolist() == [0, 0, 0]
    assert pixels[0, 7, 0].tolist() == [255, 255, 255]
    assert pixels[1, 0, 0].tolist() == [77, 77, 77]
    assert pixels[2, 0, 0].tolist() == [9, 8, 7]


def test_images_come_in_the_order_of_their_names(folder: Path) -> None:
    assert [p.name for p in image_files(folder / "red")] == ["0.png", "1.PNG", "2.bmp"]
    assert read_images(folder / "red", side=4).labels is None


def test_classes_of_before_are_kept(folder: Path) -> None:
    found = read_labeled_images(folder, side=8, classes=("red", "green", "blue"))
    assert found.labels is not None
    assert found.labels.tolist() == [2, 2, 2, 0, 0, 0]
    with pytest.raises(DataError, match=r"classes \['bleu', 'red'\], but there is 'blue'. Did you"):
        read_labeled_images(folder, side=8, classes=("bleu", "red"))


def test_each_fault_is_one_line(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="must be a folder, but there is none of that name"):
        read_labeled_images(tmp_path / "none", side=8)
    with pytest.raises(DataError, match=r"two classes at least, but the folders in it are \[\]"):
        read_labeled_images(folder / "red", side=8)
    with pytest.raises(ArgumentError, match="side must be a positive number of pixels"):
        read_images(folder / "red", side=0)
    (folder / "green").mkdir()
    with pytest.raises(DataError, match=r"green must hold images \(\.png, .*\), but there is none"):
        read_labeled_images(folder, side=8)
    (folder / "green" / "odd.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"odd\.png must be a readable image, but: .*Delete it"):
        read_labeled_images(folder, side=8)


def test_a_missing_pillow_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(DataError, match=r"needs the package pillow.*pip install pillow"):
        read_images(folder / "red", side=8)
