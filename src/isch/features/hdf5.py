"""HDF5 files. A dataset ``names`` of strings beside the matrix names its rows.

Only what lies in the file itself is read: HDF5 can also point to other files and load filters from outside.
"""

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from isch.errors import FormatError, require
from isch.features import hdf5_strings
from isch.features.base import Block, Features, SlabFeatures, dense
from isch.features.checks import check_matrix, check_memory
from isch.features.content import Content
from isch.features.file import in_our_words
from isch.features.formats import choose
from isch.features.hdf5_strings import REFERENCE
from isch.files import printable, regular, replacing

KIND = "HDF5 file"
CHUNK = 1 << 20  # bytes
CHECKSUM = 4  # bytes that fletcher32 adds to a chunk
SLACK = 4096  # bytes that a filter may add to what it cannot compress
FILTERS = {1: "deflate", 2: "shuffle", 3: "fletcher32", 4: "szip", 5: "nbit", 6: "scale-offset", 32000: "lzf"}


class Hdf5Features(SlabFeatures):
    """A two-dimensional dataset."""

    def __init__(self, file: Any, name: str, path: Path) -> None:
        self.where = f"{path}::{name}"
        self._file = file
        self._path = path
        self._dataset = dataset(file, name, path)
        self.dtype = np.dtype(self._dataset.dtype)
        self.shape = check_matrix(self._dataset.shape, self.dtype, self.where)

    def read(self, start: int, stop: int) -> Block:
        return np.asarray(self._dataset[start:stop])

    def _load_names(self) -> Sequence[str] | None:
        if "names" not in self._file:
            return None
        names = dataset(self._file, "names", self._path)
        if names.shape != (len(self),) or require("h5py", "formats").check_string_dtype(names.dtype) is None:
            return None
        return hdf5_strings.read(names, self._path)


def open_features(path: Path, member: str | None) -> Features:
    """The only matrix of an HDF5 file, or the one that ``member`` names."""
    file = require("h5py", "formats").File(path, "r")
    return Hdf5Features(file, choose(member, matrices(file, path), path), path)


def write(path: Path, content: Content) -> None:
    """Datasets ``features``, ``names``, ``labels``, attachments as bytes; a sparse matrix as compressed float16.

    Checksums cover everything: those of version 1.10 of the format its structure, Fletcher-32 the values. Strings have
    a fixed length, because heaps have no checksum.
    """
    h5py = require("h5py", "formats")
    with replacing(path) as temporary, h5py.File(temporary, "w", libver=("v110", "v110")) as file:
        features, row = file.create_dataset("features", content.shape, **_layout(content)), 0
        for block in content.blocks():
            features[row : row + block.shape[0]] = dense(block, features.dtype)
            row += block.shape[0]
        for name, values in (("names", content.names), ("labels", content.labels)):
            encoded = [value.encode() for value in values]
            kind = h5py.string_dtype("utf-8", max(1, *map(len, encoded)))
            file.create_dataset(name, data=np.array(encoded, kind), compression="gzip", fletcher32=True)
        for name, attached in content.attachments.items():
            file.create_dataset(name, data=np.frombuffer(attached, np.uint8), fletcher32=True)
        file.attrs["recipe"] = np.array(
            content.recipe.encode(), h5py.string_dtype("utf-8", len(content.recipe.encode()))
        )


def _layout(content: Content) -> dict[str, Any]:
    """Type and chunks of the matrix; sparse rows are mostly zeros, which compress well."""
    rows, columns = content.shape
    if content.sparse:
        return {"dtype": np.float16, "chunks": (1, columns), "compression": "lzf", "fletcher32": True}
    fitting = min(rows, max(1, CHUNK // (columns * content.dtype.itemsize)))
    return {"dtype": content.dtype, "chunks": (fitting, columns), "maxshape": (None, columns), "fletcher32": True}


def attachment(path: Path, name: str) -> bytes | None:
    """The bytes of a dataset that is not a matrix, or None if there is no such dataset."""
    with in_our_words(printable(path), KIND), require("h5py", "formats").File(regular(path), "r") as file:
        return bytes(dataset(file, name, path)[:].tobytes()) if name in file else None


def matrices(file: Any, path: Path) -> list[str]:
    """The names of the two-dimensional datasets; links are not followed, except those that name an object twice."""
    found: list[str] = []

    def visit(name: str, item: Any) -> None:
        if hasattr(item, "dtype"):
            _check_own(item, f"{path}::{name}")
            if item.ndim == 2:
                found.append(name)

    file.visititems(visit)
    return found


def dataset(file: Any, name: str, path: Path) -> Any:
    """A dataset that lies whole in the file.

    Raises
    ------
    FormatError
        It is reached by a link, stored elsewhere, needs a filter from outside, or was never written in full.
    """
    where = f"{path}::{name}"
    parts = name.strip("/").split("/")
    for depth in range(len(parts)):
        link = file.get("/".join(parts[: depth + 1]), getlink=True)
        if type(link).__name__ != "HardLink":
            raise FormatError(f"{where}: is a link; expected a dataset of the file itself")
    found = file[name]
    if not hasattr(found, "dtype"):
        raise FormatError(f"{where}: expected a dataset; got a group")
    _check_own(found, where)
    _check_whole(found, where)
    return found


def _check_own(found: Any, where: str) -> None:
    """Refuse a dataset whose values come from other files or by other programs."""
    recipe = found.id.get_create_plist()
    if recipe.get_external_count() or recipe.get_layout() == require("h5py", "formats").h5d.VIRTUAL:
        raise FormatError(f"{where}: its values lie in other files; expected them in this one")
    filters = [recipe.get_filter(i) for i in range(recipe.get_nfilters())]
    foreign = [f"{number} ({name.decode(errors='replace')})" for number, _, _, name in filters if number not in FILTERS]
    if foreign:
        raise FormatError(
            f"{where}: filter {foreign[0]} would be loaded from outside; expected {', '.join(FILTERS.values())}"
        )


def _check_whole(found: Any, where: str) -> None:
    """Refuse a dataset that was only partly written: HDF5 would make up the missing values."""
    if found.chunks is None:
        width = REFERENCE.itemsize if found.dtype.hasobject else found.dtype.itemsize
        expected, present, unit = found.size * width, found.id.get_storage_size(), "bytes"
    else:
        expected = math.prod(-(-size // chunk) for size, chunk in zip(found.shape, found.chunks, strict=True))
        present, unit = found.id.get_num_chunks(), "chunks"
    if expected != present:
        raise FormatError(f"{where}: holds {present:,} of {expected:,} {unit}; expected a dataset written in full")
    if found.chunks is not None:
        _check_chunks(found, where)


def _check_chunks(found: Any, where: str) -> None:
    """Refuse chunks of impossible size or place, which libhdf5 (2.0) trusts and crashes on."""
    width = REFERENCE.itemsize if found.dtype.hasobject else found.dtype.itemsize
    raw, file_size = math.prod(found.chunks) * width, os.path.getsize(found.file.filename)
    least = 1 + CHECKSUM if found.fletcher32 else 1
    plain = (1 << found.id.get_create_plist().get_nfilters()) - 1  # the mask of a chunk that no filter was applied to
    check_memory(raw, where)
    places = set()

    def check(chunk: Any) -> None:
        inside = all(
            o < n and o % c == 0 for o, n, c in zip(chunk.chunk_offset, found.shape, found.chunks, strict=True)
        )
        fitting = chunk.size == raw if chunk.filter_mask == plain else least <= chunk.size <= 2 * raw + SLACK
        if not inside or not fitting or chunk.filter_mask > plain or chunk.byte_offset + chunk.size > file_size:
            raise FormatError(f"{where}: the chunk of row {chunk.chunk_offset[0]} cannot be as the file says")
        places.add(chunk.chunk_offset)

    found.id.chunk_iter(check)
    if len(places) != found.id.get_num_chunks():
        raise FormatError(f"{where}: two chunks have the same place")
