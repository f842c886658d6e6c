"""PNG, idx and spreadsheet files against other readers and against bytes written by hand."""

from __future__ import annotations

import gzip
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regvar.data.pictures import read_idx
from regvar.data.png import read_rgb
from regvar.data.tables import LAYOUTS
from regvar.errors import ArgumentError, DataError


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(path: Path, filters: list[int], width: int, kind: int = 2) -> Path:
    """Random bytes behind the given filters: whatever they mean, every reader must agree."""
    generator = np.random.default_rng(len(filters) + width)
    lines = generator.integers(0, 256, (len(filters), 3 * width), dtype=np.uint8)
    raw = b"".join(bytes([f]) + line.tobytes() for f, line in zip(filters, lines, strict=True))
    packed = zlib.compress(raw)
    header = struct.pack(">IIBBBBB", width, len(filters), 8, kind, 0, 0, 0)
    middle = len(packed) // 2
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", packed[:middle])
        + chunk(b"IDAT", packed[middle:])
        + chunk(b"IEND", b"")
    )
    return path


@pytest.mark.parametrize(
    "filters", [[0], [1], [2], [3], [4], [1] * 30, [4, 1, 3, 2, 0, 1, 4, 4, 2, 3, 1, 0, 3]]
)
@pytest.mark.parametrize("width", [1, 7, 64])
def test_png_is_read_as_pillow_reads_it(tmp_path: Path, filters: list[int], width: int) -> None:
    path = png(tmp_path / "p.png", filters, width)
    assert np.array_equal(read_rgb(path).numpy(), np.asarray(Image.open(path)))


def test_png_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"p\.png must be a plain 8-bit RGB image"):
        read_rgb(png(tmp_path / "p.png", [0], 4, kind=6))
    (tmp_path / "q.png").write_bytes(b"GIF89a")
    with pytest.raises(DataError, match=r"q\.png must be a PNG image"):
        read_rgb(tmp_path / "q.png")


@pytest.mark.parametrize("name", ["plain-ubyte", "packed-ubyte.gz"])
def test_idx_is_read_row_by_row(tmp_path: Path, name: str) -> None:
    truth = np.arange(2 * 3 * 5, dtype=np.uint8).reshape(2, 3, 5)
    data = bytes([0, 0, 8, 3]) + struct.pack(">3I", 2, 3, 5) + truth.tobytes()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert np.array_equal(read_idx(tmp_path / name).numpy(), truth)


def test_idx_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(bytes([0, 0, 8, 1]) + struct.pack(">I", 9) + b"1234")
    with pytest.raises(DataError, match=r"short must hold \(9,\) bytes, but holds 4"):
        read_idx(tmp_path / "short")
    (tmp_path / "odd").write_bytes(b"PK\x03\x04....")
    with pytest.raises(DataError, match="odd must be an idx file"):
        read_idx(tmp_path / "odd")


def test_the_first_sheet_of_a_workbook_is_read(tmp_path: Path) -> None:
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    rows = ["<c t='s'><v>0</v></c><c t='s'><v>1</v></c>", "<c><v>1.5</v></c><c><v>-2e-3</v></c>"]
    body = "".join(f"<row>{cells}</row>" for cells in [*rows, "<c/><c/>"])
    with zipfile.ZipFile(tmp_path / "book.xlsx", "w") as book:
        sheet = f"<worksheet {space}><sheetData>{body}</sheetData></worksheet>"
        book.writestr("xl/worksheets/sheet1.xml", sheet)
    header, *found = LAYOUTS["power"].read(tmp_path / "book.xlsx")
    assert header == ["AT", "V", "AP", "RH", "PE"]
    assert found == [["1.5", "-2e-3"]]


def test_pixels_are_bytes(tmp_path: Path) -> None:
    assert read_rgb(png(tmp_path / "p.png", [1, 4], 5)).dtype == torch.uint8


def test_unknown_tables_are_suggested() -> None:
    from regvar.data.tables import uci

    with pytest.raises(ArgumentError, match="Did you mean 'wine-red'"):
        uci("wine_red")
