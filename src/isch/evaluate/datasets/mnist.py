"""MNIST: 70,000 handwritten digits, 28 × 28, in the IDX format of its authors (plain or gzipped)."""

import math
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isch.errors import FormatError
from isch.evaluate.datasets.base import Dataset, existing
from isch.evaluate.datasets.fetch import Download, fetch
from isch.features import open as open_features
from isch.features.file import in_our_words
from isch.files import content, printable

MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist"
FILES = {
    "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
}
KINDS = ("images-idx3-ubyte", "labels-idx1-ubyte")
LARGEST = 256 << 20  # bytes of a file, unpacked


def load(folder: Path) -> Dataset:
    """Training and test digits together; features are the pixels divided by 255."""
    arrays = {name: read_idx(_file(folder, name)) for name in FILES}
    images, labels = (_joined(folder, [arrays[f"{part}-{what}"] for part in ("train", "t10k")]) for what in KINDS)
    pixels = images.reshape(len(images), -1).astype(np.float32) / 255
    return Dataset(
        "mnist",
        len(images),
        labels.astype(np.int64),
        open_features(pixels),
        images,
        classes=tuple(map(str, range(10))),
    )


def _joined(folder: Path, parts: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    if parts[0].shape[1:] != parts[1].shape[1:]:
        raise FormatError(f"{folder}: training and test files hold items of different sizes")
    return np.concatenate(parts)


def _file(folder: Path, name: str) -> Path:
    found = existing([folder / name, folder / f"{name}.gz", folder / name.replace("-idx", ".idx")])
    return found or fetch(Download(f"{MIRROR}/{name}.gz", f"md5:{FILES[name]}"), folder)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An IDX file of bytes: two zero bytes, the type (8), the number of dimensions, each size big-endian, the data."""
    raw = content(path, LARGEST, "an IDX file")
    if path.suffix == ".gz":
        with in_our_words(printable(path), "gzip file"):
            raw = _unpacked(raw)
    if len(raw) < 4 or raw[:3] != b"\0\0\x08" or not 1 <= raw[3] <= 3:
        raise FormatError(f"{path}: not an IDX file of bytes (it begins with {raw[:4].hex(' ') or 'nothing'})")
    start = 4 + 4 * raw[3]
    shape = struct.unpack(f">{raw[3]}I", raw[4:start]) if len(raw) >= start else ()
    if not shape or len(raw) - start != math.prod(shape):
        raise FormatError(f"{path}: expected {' × '.join(map(str, shape))} bytes of data; got {len(raw)} bytes in all")
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)


def _unpacked(raw: bytes) -> bytes:
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)  # 16: with the header of gzip
    out = unpacker.decompress(raw, LARGEST)
    if not unpacker.eof:
        raise ValueError("it ends too early, or is too large")
    return out
