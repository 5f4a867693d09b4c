"""CIFAR-10: 60,000 colour images, 32 × 32, in the binary or the Python version of its authors."""

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.errors import FormatError
from isch.evaluate.datasets.base import Dataset, existing
from isch.evaluate.datasets.fetch import Download, fetch
from isch.features.file import in_our_words
from isch.files import content, printable

BINARY = Download(
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "md5:c32a1d4ab5d03f1284b67883e8d87530", unpack=True
)
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
ROW = 1 + 3 * 32 * 32  # the label, then the red, green and blue planes
LARGEST = 256 << 20  # bytes of a batch; the real ones have 31 MB
PROTOCOL = 2  # of the pickles; newer protocols are never needed

Batch = tuple[NDArray[np.uint8], NDArray[np.int64]]


def load(folder: Path) -> Dataset:
    """The five training batches and the test batch, in this order."""
    binary = [folder / "cifar-10-batches-bin", folder]
    python = [folder / "cifar-10-batches-py", folder]
    if found := existing([place / "data_batch_1.bin" for place in binary]):
        paths = [found.parent / f"{name}.bin" for name in _names()]
        batches = [read_binary(path) for path in paths]
    elif found := existing([place / "data_batch_1" for place in python]):
        batches = [read_python(found.parent / name) for name in _names()]
    else:
        fetch(BINARY, folder)
        batches = [read_binary(folder / "cifar-10-batches-bin" / f"{name}.bin") for name in _names()]
    planes, labels = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    images = np.ascontiguousarray(planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    return Dataset("cifar10", len(images), labels, images=images, classes=CLASSES)


def _names() -> list[str]:
    return [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]


def read_binary(path: Path) -> Batch:
    """(planes (n, 3072), labels) of a batch of the binary version."""
    raw = np.frombuffer(content(path, LARGEST, "a batch of CIFAR-10"), np.uint8)
    if not raw.size or raw.size % ROW:
        raise FormatError(f"{path}: expected a whole number of {ROW}-byte images; got {raw.size} bytes")
    rows = raw.reshape(-1, ROW)
    return rows[:, 1:], rows[:, 0].astype(np.int64)


def read_python(path: Path) -> Batch:
    """(planes (n, 3072), labels) of a batch of the Python version, read without executing anything in it."""
    raw = content(path, LARGEST, "a batch of CIFAR-10")
    with in_our_words(printable(path), "batch of the Python version of CIFAR-10"):
        if any(code.proto > PROTOCOL for code, _, _ in pickletools.genops(raw)):
            raise ValueError(f"it is not a pickle of protocol {PROTOCOL}")
        batch = _Unpickler(io.BytesIO(raw), encoding="bytes").load()
        planes = np.frombuffer(batch[b"data"].content, np.uint8).reshape(-1, ROW - 1)
        labels = np.array([int(label) for label in batch[b"labels"]], np.int64)
    if len(labels) != len(planes):
        raise FormatError(f"{path}: {len(labels)} labels for {len(planes)} images; expected one each")
    return planes, labels


class _Array:
    """A pickled NumPy array, read only as bytes, so that NumPy never sees a crafted state."""

    content = b""

    def __init__(self, *ignored: object) -> None:
        pass

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.content = bytes(state[-1]) if isinstance(state[-1], bytes) else b""


def _encoded(text: str, encoding: str) -> bytes:
    """How newer versions of Python write bytes in old pickles."""
    return text.encode("latin-1")


class _Unpickler(pickle.Unpickler):
    """Rebuilds containers, text, numbers and bytes of arrays, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] == "numpy" and name in ("ndarray", "dtype", "_reconstruct"):
            return _Array
        if (module, name) == ("_codecs", "encode"):
            return _encoded
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")
