"""Matrices in MATLAB files: of versions 5 to 7, and of version 7.3, which is HDF5.

``scipy.io.loadmat`` crashes the process on some damaged files, so the little that feature files need is read here:
real, dense matrices of numbers. A file of version 5 is a header of 128 bytes and then data elements: a type and a size
of 4 bytes each, the data, and padding to 8 bytes; up to 4 bytes of data share the 8 bytes of their tag.
"""

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isch.errors import FormatError, require
from isch.features import hdf5
from isch.features.file import in_our_words
from isch.files import printable, regular

HEADER = 128
ORDERS = {b"IM": "<", b"MI": ">"}  # the last bytes of the header
TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
MATRIX, COMPRESSED = 14, 15  # types of elements that hold elements
NUMERIC = range(6, 16)  # classes of arrays: double, single, integers
COMPLEX = 0x800  # a flag of arrays
INFLATION = 1100  # zlib cannot do more

Array = NDArray[Any]


class Element(NamedTuple):
    """One data element."""

    type: int
    data: memoryview


def largest_matrix(path: Path) -> Array:
    """The largest matrix of numbers in a MATLAB file.

    Raises
    ------
    FormatError
        The file is damaged, of an older version, or holds no matrix.
    """
    with in_our_words(printable(path), "MATLAB file"):
        raw = np.memmap(regular(path), np.uint8, "r").data
        old = raw[126:128].tobytes() in ORDERS and not bytes(raw[:10]).startswith(b"MATLAB 7.3")
        matrices = list(_matrices(raw)) if old else _hdf5_matrices(path)
    if not matrices:
        raise FormatError(f"{path}: expected a matrix of numbers; found none")
    return max(matrices, key=lambda matrix: matrix.size)


def _hdf5_matrices(path: Path) -> list[Array]:
    """MATLAB stores a matrix by columns, so HDF5 shows it transposed."""
    with require("h5py", "formats").File(path, "r") as file:
        found = [np.asarray(hdf5.dataset(file, name, path)).T for name in hdf5.matrices(file, path)]
    return [matrix for matrix in found if matrix.dtype.kind in "biuf" and matrix.size]


def _matrices(raw: memoryview) -> Iterator[Array]:
    order = ORDERS[raw[126:128].tobytes()]
    for element in _elements(raw[HEADER:], order):
        whole = _inflated(element.data, order) if element.type == COMPRESSED else element
        if whole.type == MATRIX and (matrix := _matrix(whole.data, order)) is not None:
            yield matrix


def _elements(data: memoryview, order: str) -> Iterator[Element]:
    place = 0
    while place < len(data):
        kind, size = struct.unpack_from(f"{order}II", data, place)
        if kind >> 16:  # a small element
            yield Element(kind & 0xFFFF, data[place + 4 : place + 4 + min(kind >> 16, 4)])
            place += 8
            continue
        if size > len(data) - place - 8:
            raise ValueError(f"an element of {size:,} bytes where {len(data) - place - 8:,} are left")
        yield Element(kind, data[place + 8 : place + 8 + size])
        place += 8 + size + (0 if kind == COMPRESSED else -size % 8)


def _inflated(data: memoryview, order: str) -> Element:
    """The element inside a compressed one."""
    kind, size = struct.unpack(f"{order}II", zlib.decompressobj().decompress(data, 8))
    if size > INFLATION * len(data):
        raise ValueError(f"{size:,} bytes in {len(data):,} compressed ones")
    inside = zlib.decompressobj().decompress(data, 8 + size)
    if len(inside) != 8 + size:
        raise ValueError("compressed data ends too early")
    return Element(kind, memoryview(inside)[8:])


def _matrix(data: memoryview, order: str) -> Array | None:
    """The matrix of an element; None if it is not a real matrix of numbers with values."""
    parts = _elements(data, order)
    flags, sizes, _, values = (next(parts, Element(0, memoryview(b""))) for _ in range(4))
    if len(flags.data) < 4 or len(sizes.data) % 4:
        raise ValueError("an array without flags or sizes")
    (word,) = struct.unpack_from(f"{order}I", flags.data)
    shape = struct.unpack(f"{order}{len(sizes.data) // 4}i", sizes.data)
    if word & 0xFF not in NUMERIC or word & COMPLEX or len(shape) != 2 or 0 in shape:
        return None
    if min(shape) < 0 or values.type not in TYPES:
        raise ValueError(f"an array of shape {shape} and type {values.type}")
    dtype = np.dtype(f"{order}{TYPES[values.type]}")
    if math.prod(shape) * dtype.itemsize != len(values.data):
        raise ValueError(f"{len(values.data):,} bytes of values for shape {shape}")
    return np.frombuffer(values.data, dtype).reshape(shape, order="F")
