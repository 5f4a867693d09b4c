"""Tensors from a PyTorch file in the old format, without PyTorch and without running code from the file.

The file is a sequence of pickles (magic number, version, system, the object, the keys of its storages) followed by
the storages, each an element count and raw little-endian values. Unpickling can call any function that a file names.
This reader knows three kinds of names, builds only dictionaries and descriptions of tensors, and refuses the rest.
"""

import os
import pickle
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from isch.errors import FormatError

MAGIC = 0x1950A86A20F9469CFC6C
STORAGES = {
    "FloatStorage": np.dtype("<f4"),
    "DoubleStorage": np.dtype("<f8"),
    "HalfStorage": np.dtype("<f2"),
    "LongStorage": np.dtype("<i8"),
    "IntStorage": np.dtype("<i4"),
    "ByteStorage": np.dtype("u1"),
}

Tensors = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class _Tensor:
    """A view of a storage that is read later."""

    key: str
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


def read(path: str | os.PathLike[str]) -> Tensors:
    """The named tensors of a state dictionary."""
    try:
        with open(path, "rb") as file:
            return _read(file)
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise FormatError(f"{path}: not a PyTorch state dictionary of the old format ({error})") from error


def _read(file: BinaryIO) -> Tensors:
    if _Unpickler(file).load() != MAGIC:
        raise ValueError("wrong magic number")
    for _ in ("protocol version", "system"):
        _Unpickler(file).load()
    unpickler = _Unpickler(file)
    state = unpickler.load()
    storages = {key: _storage(file, unpickler.storages[key]) for key in _Unpickler(file).load()}
    return {name: _view(tensor, storages) for name, tensor in state.items() if isinstance(tensor, _Tensor)}


class _Unpickler(pickle.Unpickler):
    """Knows dictionaries, tensors and storages; refuses all other names."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.storages: dict[str, np.dtype[Any]] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        raise pickle.UnpicklingError(f"it names {module}.{name}, which is not part of a tensor")

    def persistent_load(self, pid: Any) -> str:
        kind, dtype, key = pid[:3]
        if kind != "storage" or not isinstance(dtype, np.dtype):
            raise pickle.UnpicklingError(f"it refers to a {kind!r}")
        self.storages[str(key)] = dtype
        return str(key)


def _tensor(key: str, offset: int, shape: tuple[int, ...], stride: tuple[int, ...], *_: Any) -> _Tensor:
    return _Tensor(key, int(offset), tuple(map(int, shape)), tuple(map(int, stride)))


def _storage(file: BinaryIO, dtype: np.dtype[Any]) -> NDArray[Any]:
    size = int.from_bytes(file.read(8), "little") * dtype.itemsize
    if size > os.fstat(file.fileno()).st_size - file.tell():
        raise EOFError("it ends inside a storage")
    return np.frombuffer(file.read(size), dtype)


def _view(tensor: _Tensor, storages: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """A copy of the elements offset + Σ index · stride, which must lie inside the storage."""
    storage = storages[tensor.key]
    last = tensor.offset + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride, strict=True))
    if min((tensor.offset, *tensor.shape, *tensor.stride)) < 0 or last >= len(storage):
        raise ValueError("a tensor reaches outside its storage")
    strides = [step * storage.itemsize for step in tensor.stride]
    return np.lib.stride_tricks.as_strided(storage[tensor.offset :], tensor.shape, strides).copy()
