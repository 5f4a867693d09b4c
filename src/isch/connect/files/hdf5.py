"""Codes as an HDF5 file: datasets ``codes``, ``keys``, ``numbered`` and ``metadata``, the model tag in ``isch``.

Strings have a fixed length and everything a checksum, as in feature files. In a file of somebody else the codes are its
only matrix of bytes, or the one that is asked for; ``keys`` or ``names`` may name its rows.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from isch import features
from isch.codes import check, width
from isch.connect.files import text
from isch.connect.source import BATCH_ROWS, ReadOptions, Source, parsed
from isch.errors import FormatError, require
from isch.features import dense, hdf5, hdf5_strings
from isch.features.file import in_our_words
from isch.files import printable, regular, replacing
from isch.search.catalog import Key
from isch.search.reading import Batch

CHUNK = 1 << 20  # bytes


class Hdf5Codes(Source):
    """The codes of an HDF5 file."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self._path = path
        self.where = printable(path)
        with in_our_words(self.where, hdf5.KIND), self._file() as file:
            matrices = hdf5.matrices(file, path)
            self._names = next((name for name in (options.key, "keys", "names") if name and name in file), None)
            self._ours = {"isch", "numbered", "metadata", "keys"} <= set(file)
        if options.key is not None and self._names != options.key:
            raise FormatError(f"{self.where}: has no dataset {options.key!r}")
        member = options.code or ("codes" if "codes" in matrices else None)
        self._features = features.open(self.where if member is None else f"{self.where}::{member}")
        check(dense(self._features.read(0, 0), None), name=f"{self.where}: codes")
        tag = hdf5.attachment(path, "isch") if self._ours else None
        text = None if tag is None else tag.decode("utf-8", "replace")
        self.tag = options.tag(text, self._features.shape[1], self.where)

    def __len__(self) -> int:
        return len(self._features)

    def batches(self) -> Iterator[Batch]:
        """All items, some thousands at a time."""
        keys = self._keys()
        notes = self._texts("metadata") if self._ours else None
        for start, block in self._features.batches(BATCH_ROWS):
            rows = slice(start, start + block.shape[0])
            some = list(keys[rows])
            texts = [None] * len(some) if notes is None else [text or None for text in notes[rows]]
            yield Batch(some, np.asarray(block), [parsed(text, self.where) for text in texts], None)

    def _keys(self) -> Sequence[Key]:
        if self._names is None:
            return range(len(self))
        with in_our_words(self.where, hdf5.KIND), self._file() as file:
            found = hdf5.dataset(file, self._names, self._path)
            if found.shape == (len(self),) and found.dtype.kind in "iu":
                return [int(key) for key in found[:]]
        keys = self._texts(self._names)
        if not self._ours:
            return keys
        with in_our_words(self.where, hdf5.KIND), self._file() as file:
            numbered = hdf5.dataset(file, "numbered", self._path)
            if numbered.shape != (len(self),):
                raise FormatError(f"{self.where}::numbered: expected one value for each of {len(self)} rows")
            return [int(key) if number else key for key, number in zip(keys, numbered[:].tolist(), strict=True)]

    def _texts(self, name: str) -> list[str]:
        with in_our_words(self.where, hdf5.KIND), self._file() as file:
            found = hdf5.dataset(file, name, self._path)
            text = require("h5py", "formats").check_string_dtype(found.dtype) is not None
            if found.shape != (len(self),) or not text:
                raise FormatError(f"{self.where}::{name}: expected one text for each of {len(self)} rows")
            return list(hdf5_strings.read(found, self._path))

    def _file(self) -> Any:
        return require("h5py", "formats").File(regular(self._path), "r")


def read(path: Path, options: ReadOptions) -> Source:
    """An HDF5 file of codes."""
    return Hdf5Codes(path, options)


def write(path: Path, source: Source) -> None:
    """The datasets, each with checksums; the codes are read twice, because strings have the length of the longest."""
    h5py = require("h5py", "formats")
    rows = 0
    lengths = [1, 1]
    for batch in source.batches():
        lengths = [max(n, *map(len, texts)) for n, texts in zip(lengths, _texts(batch, source.where), strict=True)]
        rows += len(batch.keys)
    columns = {
        "codes": ((rows, width(source.tag.n_bits)), np.dtype(np.uint8)),
        "keys": ((rows,), h5py.string_dtype("utf-8", lengths[0])),
        "metadata": ((rows,), h5py.string_dtype("utf-8", lengths[1])),
        "numbered": ((rows,), np.dtype(np.uint8)),
    }
    with replacing(path) as temporary, h5py.File(temporary, "w", libver=("v110", "v110")) as file:
        file.create_dataset("isch", data=np.frombuffer(str(source.tag).encode(), np.uint8), fletcher32=True)
        made = [file.create_dataset(name, shape, **_layout(shape, kind)) for name, (shape, kind) in columns.items()]
        start = 0
        for batch in source.batches():
            stop = start + len(batch.keys)
            keys, notes = _texts(batch, source.where)
            numbered = [isinstance(key, int) for key in batch.keys]
            for dataset, values in zip(made, (batch.codes, keys, notes, numbered), strict=True):
                dataset[start:stop] = np.array(values, dataset.dtype)
            start = stop


def _texts(batch: Batch, where: str) -> tuple[list[bytes], list[bytes]]:
    """Keys and metadata as they are written; no metadata are an empty text."""
    notes = ("" if note is None else json.dumps(note, ensure_ascii=False) for note in batch.metadata)
    return [text(key, where) for key in batch.keys], [note.encode() for note in notes]


def _layout(shape: tuple[int, ...], kind: np.dtype[Any]) -> dict[str, Any]:
    row = kind.itemsize * (shape[1] if len(shape) > 1 else 1)
    chunks = (max(1, min(shape[0], CHUNK // row)), *shape[1:])
    return {
        "dtype": kind,
        "chunks": chunks,
        "fletcher32": True,
        **({} if kind == np.uint8 else {"compression": "gzip"}),
    }
