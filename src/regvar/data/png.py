"""The one kind of PNG that CIFAR-10 comes in: 8-bit RGB, not interlaced, with zlib alone."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from regvar.errors import DataError

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = 3
_KIND = (8, 2, 0, 0, 0)  # depth, RGB, deflate, the five filters, not interlaced


def read_rgb(path: Path) -> Tensor:
    """The pixels, [height, width, 3], uint8."""
    data = path.read_bytes()
    chunks = list(_chunks(data, path))
    width, height, *kind = struct.unpack(">IIBBBBB", chunks[0][1])
    if tuple(kind) != _KIND:
        raise DataError(f"{path.name} must be a plain 8-bit RGB image, but its header says {kind}.")
    packed = b"".join(body for name, body in chunks if name == b"IDAT")
    raw = torch.frombuffer(bytearray(zlib.decompress(packed)), dtype=torch.uint8)
    lines = raw.view(height, 1 + _CHANNELS * width)
    return _unfiltered(lines[:, 0].tolist(), lines[:, 1:]).view(height, width, _CHANNELS)


def written(pixels: Tensor) -> bytes:
    """The file of an image [height, width, 3 or 1], uint8; gray becomes RGB."""
    height, width, _ = pixels.shape
    lines = pixels.expand(height, width, _CHANNELS).reshape(height, -1)
    plain = torch.zeros(height, 1, dtype=torch.uint8)  # each line's filter: none
    packed = zlib.compress(torch.cat([plain, lines], dim=1).numpy().tobytes(), 9)
    header = struct.pack(">IIBBBBB", width, height, *_KIND)
    chunks = ((b"IHDR", header), (b"IDAT", packed), (b"IEND", b""))
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
    )


def _chunks(data: bytes, path: Path) -> Iterator[tuple[bytes, bytes]]:
    if not data.startswith(_SIGNATURE):
        raise DataError(f"{path.name} must be a PNG image, but does not begin like one.")
    place = len(_SIGNATURE)
    while place < len(data):
        (size,) = struct.unpack_from(">I", data, place)
        yield data[place + 4 : place + 8], data[place + 8 : place + 8 + size]
        place += size + 12


def _unfiltered(filters: list[int], lines: Tensor) -> Tensor:
    """Undo each line's filter; the first two, which most lines have, for all lines at once."""
    pixels = lines.view(len(filters), -1, _CHANNELS)
    sub = torch.tensor(filters) == 1
    out = pixels.clone()
    out[sub] = pixels[sub].cumsum(dim=1, dtype=torch.int32).remainder(256).to(torch.uint8)
    blank = [0] * lines.shape[1]
    for row, kind in enumerate(filters):
        if kind > 1:
            above = out[row - 1].flatten().tolist() if row else blank
            line = _line(kind, lines[row].tolist(), above)
            out[row] = torch.tensor(line, dtype=torch.uint8).view(-1, _CHANNELS)
    return out


def _line(kind: int, line: list[int], above: list[int]) -> list[int]:
    """Up (2), average (3) and Paeth (4), from left to right."""
    out: list[int] = []
    for i, value in enumerate(line):
        left = out[i - _CHANNELS] if i >= _CHANNELS else 0
        corner = above[i - _CHANNELS] if i >= _CHANNELS else 0
        guess = (above[i], (left + above[i]) // 2, _paeth(left, above[i], corner))[kind - 2]
        out.append((value + guess) % 256)
    return out


def _paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    return min((left, above, corner), key=lambda known: abs(guess - known))
