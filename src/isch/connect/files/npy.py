"""Codes as a ``.npy`` file, with keys as texts in ``x.names.npy``; keys 0, 1, 2, … need no such file.

There is no room for metadata, nor for a model tag.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.lib import format as layout

from isch import features
from isch.codes import check, width
from isch.connect.files import text
from isch.connect.source import BATCH_ROWS, ModelTag, ReadOptions, Source
from isch.features import dense
from isch.files import printable, replacing
from isch.search.catalog import Key
from isch.search.reading import Batch


class FeatureCodes(Source):
    """Codes that a feature file holds as a matrix of bytes; its names are the keys."""

    def __init__(self, source: str, options: ReadOptions) -> None:
        self._features = features.open(source)
        self.where = self._features.where
        check(dense(self._features.read(0, 0), None), name=f"{self.where}: codes")
        self.tag = ModelTag(options.length(self._features.shape[1], self.where))

    def __len__(self) -> int:
        return len(self._features)

    def batches(self) -> Iterator[Batch]:
        """All codes, some thousands at a time."""
        names = self._features.names
        for start, block in self._features.batches(BATCH_ROWS):
            stop = start + block.shape[0]
            keys: list[Key] = [*range(start, stop)] if names is None else [*names[start:stop]]
            yield Batch(keys, np.asarray(block), [None] * len(keys), None)


def read(path: Path, options: ReadOptions) -> Source:
    """A ``.npy`` file of codes."""
    return FeatureCodes(printable(path), options)


def write(path: Path, source: Source) -> None:
    """The codes, and their keys beside them."""
    rows = 0
    longest = 1
    numbered = True
    for batch in source.batches():
        numbered = numbered and list(batch.keys) == list(range(rows, rows + len(batch.keys)))
        longest = max(longest, *map(len, _texts(batch, source.where)))
        rows += len(batch.keys)
    names = path.with_suffix(".names.npy")
    if numbered:
        names.unlink(missing_ok=True)
    else:
        texts = (np.array(_texts(batch, source.where), f"S{longest}") for batch in source.batches())
        _write(names, f"|S{longest}", (rows,), texts)
    _write(path, "|u1", (rows, width(source.tag.n_bits)), (batch.codes for batch in source.batches()))


def _texts(batch: Batch, where: str) -> list[bytes]:
    return [text(key, where) for key in batch.keys]


def _write(path: Path, kind: str, shape: tuple[int, ...], parts: Iterator[np.ndarray]) -> None:
    with replacing(path) as temporary, temporary.open("wb") as file:
        layout.write_array_header_1_0(file, {"descr": kind, "fortran_order": False, "shape": shape})
        for part in parts:
            file.write(np.ascontiguousarray(part).data)
