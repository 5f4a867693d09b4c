"""Strings of HDF5 datasets.

Strings of variable length are stored in global heaps. libhdf5 (2.0) loops forever on a damaged heap, so heaps are read
here, within bounds. Format: *HDF5 File Format Specification*, III.E "Disk Format: Level 1E – Global Heap".
"""

import math
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from isch.errors import FormatError
from isch.files import reading

REFERENCE = np.dtype([("length", "<u4"), ("address", "<u8"), ("index", "<u4")])
DEFLATE, SHUFFLE = 1, 2  # HDF5 allows no checksum here


def read(dataset: Any, path: Path) -> list[str]:
    """The strings of a one-dimensional dataset that lies whole in the file (``hdf5.dataset``)."""
    if dataset.dtype.kind == "S":
        return [value.decode() for value in dataset[:].tolist()]
    where = f"{path}::{dataset.name.strip('/')}"
    if dataset.file.id.get_create_plist().get_sizes() != (8, 8):
        raise FormatError(f"{where}: expected addresses of 8 bytes")
    with reading(path) as file:
        references = _references(dataset, file, where)
        heaps = Heaps(file, dataset.file.userblock_size, where)
        return [heaps.get(address, index)[:length].decode() for length, address, index in references.tolist()]


class Heaps:
    """The global heaps of a file, each read once."""

    def __init__(self, file: IO[bytes], base: int, where: str) -> None:
        self._file = file
        self._base = base
        self._where = where
        self._left = os.fstat(file.fileno()).st_size  # heaps do not overlap: together they are no larger than the file
        self._heaps: dict[int, dict[int, bytes]] = {}

    def get(self, address: int, index: int) -> bytes:
        """An object; address 0 stands for the empty string."""
        if address == 0:
            return b""
        if address not in self._heaps:
            self._heaps[address] = dict(self._objects(self._collection(address)))
        if index not in self._heaps[address]:
            raise FormatError(f"{self._where}: a string points to nothing (heap {address}, object {index})")
        return self._heaps[address][index]

    def _collection(self, address: int) -> bytes:
        self._file.seek(self._base + address)
        signature, version, size = struct.unpack("<4sB3xQ", self._file.read(16))
        if signature != b"GCOL" or version != 1 or not 16 <= size <= self._left:
            raise FormatError(f"{self._where}: no heap of strings at {address}")
        self._left -= size
        return self._file.read(size - 16)

    def _objects(self, heap: bytes) -> Iterator[tuple[int, bytes]]:
        place = 0
        while place + 16 <= len(heap):
            index, _, size = struct.unpack_from("<HH4xQ", heap, place)
            if index == 0:  # free space, up to the end
                return
            if size > len(heap) - place - 16:
                raise FormatError(f"{self._where}: a string of {size:,} bytes does not fit its heap")
            yield index, heap[place + 16 : place + 16 + size]
            place += 16 + -(-size // 8) * 8


def _references(dataset: Any, file: IO[bytes], where: str) -> NDArray[Any]:
    """Where in the heaps each string lies."""
    if dataset.chunks is None:
        offset = dataset.id.get_offset()
        if offset is None:
            raise FormatError(f"{where}: expected strings of fixed length, or in a contiguous or chunked dataset")
        file.seek(offset)
        return np.frombuffer(file.read(len(dataset) * REFERENCE.itemsize), REFERENCE)
    chunks = [dataset.id.get_chunk_info(i) for i in range(dataset.id.get_num_chunks())]
    parts = [
        _unfiltered(dataset, dataset.id.read_direct_chunk(chunk.chunk_offset), where)
        for chunk in sorted(chunks, key=lambda chunk: chunk.chunk_offset)
    ]
    return np.frombuffer(b"".join(parts), REFERENCE)[: len(dataset)]


def _unfiltered(dataset: Any, chunk: tuple[int, bytes], where: str) -> bytes:
    """The content of a chunk, each filter undone that was applied to it."""
    mask, content = chunk
    recipe, size = dataset.id.get_create_plist(), math.prod(dataset.chunks) * REFERENCE.itemsize
    for position in reversed(range(recipe.get_nfilters())):
        number = recipe.get_filter(position)[0]
        if mask >> position & 1:
            continue
        if number == DEFLATE:
            content = zlib.decompressobj().decompress(content, size + 1)
        elif number == SHUFFLE:
            content = np.frombuffer(content, np.uint8).reshape(REFERENCE.itemsize, -1).T.tobytes()
        else:
            raise FormatError(f"{where}: strings behind filter {number}; expected deflate or shuffle")
    if len(content) != size:
        raise FormatError(f"{where}: a chunk of {len(content):,} bytes; expected {size:,}")
    return content
