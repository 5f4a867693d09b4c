"""Parquet files: one column of vectors of equal length, or all numeric columns. A column ``names`` names the rows."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.errors import FormatError, require
from isch.features.arrow import Columns, tables, texts, valid
from isch.features.base import Block, Features
from isch.features.checks import check_matrix
from isch.features.content import Content, write_beside
from isch.files import replacing

KIND = "Parquet file"
BATCH = 65_536  # rows decoded at once, at most


class ParquetFeatures(Features):
    """A Parquet file, decoded batch by batch; every row is checked whenever it is read."""

    def __init__(self, path: Path, member: str | None) -> None:
        self.where = str(path)
        self._path = path
        with self._file() as file:
            self._columns = Columns(file.schema_arrow, member, path)
            self._metadata = file.metadata
            sizes = [self._metadata.row_group(i).num_rows for i in range(self._metadata.num_row_groups)]
            if min(sizes, default=0) < 0 or sum(sizes) != self._metadata.num_rows:
                raise FormatError(f"{path}: {self._metadata.num_rows:,} rows; its row groups have {sum(sizes):,}")
            self._borders = np.cumsum([0, *sizes])
            first = next(file.iter_batches(1, columns=self._columns.chosen), None)
        self.dtype = self._columns.dtype
        width = self._columns.width(valid(first)) if first is not None and first.num_rows else 0
        self.shape = check_matrix((self._metadata.num_rows, width), self.dtype, self.where)

    def read(self, start: int, stop: int) -> Block:
        out = np.empty((stop - start, self.shape[1]), self.dtype)
        for row, piece in self._pieces(start, stop, BATCH):
            out[row - start : row - start + len(piece)] = piece
        return out

    def batches(self, rows: int) -> Iterator[tuple[int, Block]]:
        start, waiting = 0, np.empty((0, self.shape[1]), self.dtype)
        for _, piece in self._pieces(0, len(self), min(self.slab(rows), BATCH)):
            waiting = np.concatenate([waiting, piece]) if len(waiting) else piece
            while len(waiting) >= rows:
                yield start, waiting[:rows]
                start, waiting = start + rows, waiting[rows:]
        if len(waiting):
            yield start, waiting

    def _load_names(self) -> Sequence[str] | None:
        if self._columns.names is None:
            return None
        with self._file() as file:
            return texts((b.column(0) for b in file.iter_batches(BATCH, columns=[self._columns.names])), self.where)

    def _pieces(self, start: int, stop: int, rows: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """(first row, matrix) of consecutive pieces that together are the rows ``start`` to ``stop``."""
        touched = [i for i, (a, b) in enumerate(pairwise(self._borders)) if a < stop and b > start]
        if not touched or start >= stop:
            return
        row = int(self._borders[touched[0]])
        with self._file() as file:
            for batch in file.iter_batches(rows, row_groups=touched, columns=self._columns.chosen):
                a, b = max(start, row), min(stop, row + batch.num_rows)
                if a < b:
                    yield a, self._columns.matrix(valid(batch).slice(a - row, b - a), self.shape[1], a)
                row += batch.num_rows
                if row >= stop:
                    return
        raise FormatError(f"{self.where}: ends before row {row}; expected {len(self):,} rows")

    def _file(self) -> Any:
        """The file, opened anew for each use, so that several threads can read."""
        pq = require("pyarrow.parquet", "formats")
        return pq.ParquetFile(self._path, metadata=getattr(self, "_metadata", None), page_checksum_verification=True)


def write(path: Path, content: Content) -> None:
    """Columns ``names``, ``labels`` and ``features``, with a checksum for each page; attachments beside it."""
    pq = require("pyarrow.parquet", "formats")
    schema, batches = tables(content)
    write_beside(path, content)
    with replacing(path) as temporary, pq.ParquetWriter(temporary, schema, write_page_checksum=True) as file:
        for batch in batches:
            file.write_batch(batch)


def open_features(path: Path, member: str | None) -> Features:
    """A Parquet file."""
    return ParquetFeatures(path, member)
