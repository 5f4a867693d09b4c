"""MNIST: 70,000 handwritten digits, 28 × 28, in the IDX format of its authors (plain or gzipped)."""

import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isch.errors import FormatError
from isch.evaluate.datasets.base import Dataset, existing
from isch.evaluate.datasets.fetch import Download, fetch
from isch.features import open as open_features

MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist"
FILES = {
    "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
}


def load(folder: Path) -> Dataset:
    """Training and test digits together; features are the pixels divided by 255."""
    arrays = {name: read_idx(_file(folder, name)) for name in FILES}
    images = np.concatenate([arrays["train-images-idx3-ubyte"], arrays["t10k-images-idx3-ubyte"]])
    labels = np.concatenate([arrays["train-labels-idx1-ubyte"], arrays["t10k-labels-idx1-ubyte"]])
    pixels = images.reshape(len(images), -1).astype(np.float32) / 255
    return Dataset(
        "mnist",
        len(images),
        labels.astype(np.int64),
        open_features(pixels),
        images,
        classes=tuple(map(str, range(10))),
    )


def _file(folder: Path, name: str) -> Path:
    found = existing([folder / name, folder / f"{name}.gz", folder / name.replace("-idx", ".idx")])
    return found or fetch(Download(f"{MIRROR}/{name}.gz", f"md5:{FILES[name]}"), folder)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An IDX file of bytes: two zero bytes, the type (8), the number of dimensions, each size big-endian, the data."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (EOFError, gzip.BadGzipFile) as error:
        raise FormatError(f"{path}: not a whole gzip file ({error})") from error
    if len(raw) < 4 or raw[:3] != b"\0\0\x08":
        raise FormatError(f"{path}: not an IDX file of bytes (it begins with {raw[:4].hex(' ') or 'nothing'})")
    dimensions = raw[3]
    shape = tuple(np.frombuffer(raw, ">i4", dimensions, 4).tolist()) if len(raw) >= 4 + 4 * dimensions else ()
    data = np.frombuffer(raw, np.uint8, offset=min(len(raw), 4 + 4 * dimensions))
    if not shape or data.size != np.prod(shape):
        raise FormatError(f"{path}: expected {' × '.join(map(str, shape))} bytes of data; got {data.size}")
    return data.reshape(shape)
