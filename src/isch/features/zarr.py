"""Zarr stores: an array, or a group with one two-dimensional array.

Only codecs that turn bytes into numbers are used: Zarr 2 also has one that unpickles, which can run code from the file.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from isch.errors import FormatError, require
from isch.features.base import Block, Features, SlabFeatures
from isch.features.checks import check_matrix, check_memory
from isch.features.formats import choose

KIND = "Zarr store"
CODECS = {
    *("blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd"),
    *("bitround", "bytes", "delta", "fixedscaleoffset", "packbits", "quantize", "shuffle", "transpose"),
    *("adler32", "crc32", "crc32c", "fletcher32", "sharding_indexed"),
}
METADATA = ("zarr.json", ".zarray", ".zgroup")


class ZarrFeatures(SlabFeatures):
    """A two-dimensional array."""

    def __init__(self, array: Any, where: str) -> None:
        self.where = where
        self._array = array
        self.dtype = np.dtype(array.dtype)
        self.shape = check_matrix(array.shape, self.dtype, where)

    def read(self, start: int, stop: int) -> Block:
        return np.asarray(self._array[start:stop])


def open_features(path: Path, member: str | None) -> Features:
    """A Zarr store in a folder (``file.stamp`` has seen that no link leads out of it)."""
    if not any((path / name).is_file() for name in METADATA):
        raise FormatError(f"{path}: not a readable Zarr store; expected a folder with {', '.join(METADATA)}")
    node = require("zarr", "formats").open(path, mode="r")
    where, folder = str(path), path
    if hasattr(node, "ndim"):
        if member is not None:
            raise FormatError(f"{path}: holds one matrix, which has no name; got ::{member}")
    else:
        name = choose(member, sorted(n for n, array in node.arrays() if array.ndim == 2), path)
        node, where, folder = node[name], f"{path}::{name}", path / name
    _check_codecs(node, where)
    _check_whole(node, folder, where)
    return ZarrFeatures(node, where)


def _check_codecs(array: Any, where: str) -> None:
    foreign = sorted(set(_codecs(array.metadata.to_dict())) - CODECS)
    if foreign:
        raise FormatError(f"{where}: codec {foreign[0]!r} is not used; expected {', '.join(sorted(CODECS))}")


def _codecs(metadata: Any) -> Iterator[str]:
    """The names of all codecs, those inside of others too: ``id`` in version 2, ``name`` in version 3."""
    waiting = [metadata.get(key) for key in ("compressor", "filters", "codecs", "storage_transformers")]
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, list | tuple):
            waiting.extend(entry)
        elif isinstance(entry, dict):
            yield str(entry.get("id", entry.get("name"))).removeprefix("numcodecs.")
            waiting.extend((entry.get("configuration") or {}).get(key) for key in ("codecs", "index_codecs"))


def _check_whole(array: Any, folder: Path, where: str) -> None:
    """Refuse an array with a missing chunk: Zarr would make up its values."""
    size = array.shards or array.chunks
    check_memory(math.prod(size) * np.dtype(array.dtype).itemsize, where)
    grid = [-(-n // chunk) for n, chunk in zip(array.shape, size, strict=True)]
    files = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    if math.prod(grid) <= len(files):
        missing = next(
            (place for place in np.ndindex(*grid) if array.metadata.encode_chunk_key(place) not in files), None
        )
        if missing is None:
            return
        raise FormatError(
            f"{where}: the chunk of row {missing[0] * size[0]} is missing; expected a store written in full "
            "(write_empty_chunks=True)"
        )
    raise FormatError(f"{where}: {math.prod(grid):,} chunks in {len(files):,} files; expected a store written in full")
