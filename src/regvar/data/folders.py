"""A user's own images: a folder of files, or one with a folder per class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from regvar.data.catalogue import suggestion
from regvar.data.datasets import Images
from regvar.errors import DataError, require

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")


def read_labeled_images(
    folder: str | Path, side: int, classes: Sequence[str] | None = None
) -> Images:
    """Images by class: `folder/<class>/<any name>.png` and the like.

    Args:
        folder: holds one folder per class.
        side: images are scaled to cover side × side pixels and cut to the middle.
        classes: the classes there may be, in order; by default the folders' names, sorted.
    """
    root = _existing(folder)
    found = sorted(p.name for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
    known = tuple(classes) if classes is not None else tuple(found)
    for name in found:
        if name not in known:
            raise DataError(
                f"folders in {root.name} must be named as the classes {list(known)}, but there is "
                f"{name!r}." + suggestion(name, known)
            )
    if len(found) < (2 if classes is None else 1):
        raise DataError(
            f"{root.name} must hold one folder of images for each of two classes at least, but the "
            f"folders in it are {found}."
        )
    paths = [(image_files(root / name), known.index(name)) for name in found]
    pixels = [_pixels(path, side) for group, _ in paths for path in group]
    labels = [label for group, label in paths for _ in group]
    return Images(torch.stack(pixels), torch.tensor(labels, dtype=torch.int64), known)


def read_images(folder: str | Path, side: int) -> Images:
    """Images without labels, in the order of `image_files`.

    Args:
        folder: holds the images.
        side: images are scaled to cover side × side pixels and cut to the middle.
    """
    return read_image_files(image_files(folder), side)


def read_image_files(paths: Sequence[Path], side: int) -> Images:
    """Images without labels, from these files.

    Args:
        paths: one file or more.
        side: images are scaled to cover side × side pixels and cut to the middle.
    """
    return Images(torch.stack([_pixels(path, side) for path in paths]))


def image_files(folder: str | Path) -> list[Path]:
    """The image files of a folder, sorted by name."""
    root = _existing(folder)
    found = sorted(p for p in root.iterdir() if p.suffix.lower() in SUFFIXES)
    if not found:
        raise DataError(
            f"{root.name} must hold images ({', '.join(SUFFIXES)}), but there is none in it."
        )
    return found


def _existing(folder: str | Path) -> Path:
    root = Path(folder)
    if not root.is_dir():
        raise DataError(f"{root} must be a folder, but there is none of that name.")
    return root


def _pixels(path: Path, side: int) -> Tensor:
    """[side, side, 3], uint8."""
    require(side > 0, "side", "a positive number of pixels", side)
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise DataError(
            "reading image files needs the package pillow, but it is not installed. "
            "Run `pip install pillow`."
        ) from error
    try:
        with Image.open(path) as stored:
            upright = ImageOps.exif_transpose(stored).convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(
            f"{path.name} must be a readable image, but: {error}. Delete it or save it anew."
        ) from error
    fitted = ImageOps.fit(upright, (side, side), Image.Resampling.BILINEAR)
    return torch.frombuffer(bytearray(fitted.tobytes()), dtype=torch.uint8).view(side, side, 3)
