"""Feature matrices in chunked stores: HDF5, Zarr, Parquet and Feather."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from isch.errors import FormatError, require
from isch.features.arrays import ArrayFeatures, choose
from isch.features.base import Block, Features, SlabFeatures, check_matrix


class StoreFeatures(SlabFeatures):
    """A two-dimensional dataset of HDF5 or Zarr."""

    def __init__(self, dataset: Any, where: str, names: Sequence[str] | None = None) -> None:
        self.dtype = np.dtype(dataset.dtype)
        self.shape = check_matrix(dataset.shape, self.dtype, where)
        self.where = where
        self.names = names
        self._dataset = dataset

    def read(self, start: int, stop: int) -> Block:
        return np.asarray(self._dataset[start:stop])


def open_hdf5(path: Path, member: str | None) -> Features:
    """An HDF5 file; a dataset ``names`` of strings beside the matrix names its rows."""
    h5py = require("h5py", "formats")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise FormatError(f"{path}: not a readable HDF5 file ({error})") from error
    matrices: list[str] = []
    file.visititems(lambda name, item: matrices.append(name) if getattr(item, "ndim", 0) == 2 else None)
    name = choose(member, matrices, path)
    names = file["names"].asstr()[:] if "names" in file else None
    return StoreFeatures(file[name], f"{path}::{name}", names)


def open_zarr(path: Path, member: str | None) -> Features:
    """A Zarr array, or a group with one two-dimensional array."""
    zarr = require("zarr", "formats")
    try:
        node = zarr.open(path, mode="r")
    except Exception as error:  # zarr raises many kinds for a folder that is not a store
        raise FormatError(f"{path}: not a readable Zarr store ({error})") from error
    if not hasattr(node, "ndim"):
        node = node[choose(member, [n for n, a in node.arrays() if a.ndim == 2], path)]
    return StoreFeatures(node, str(path))


class ParquetFeatures(Features):
    """A Parquet file: one column of vectors of equal length, or all its numeric columns."""

    def __init__(self, path: Path, member: str | None = None) -> None:
        pq = require("pyarrow.parquet", "formats")
        arrow = require("pyarrow", "formats")
        try:
            self._file = pq.ParquetFile(path)
        except (arrow.ArrowInvalid, OSError) as error:
            raise FormatError(f"{path}: not a readable Parquet file ({error})") from error
        self.where = str(path)
        self._columns = _columns(self._file.schema_arrow, member, path)
        rows = self._file.metadata.num_rows
        head = _matrix(next(self._file.iter_batches(1, columns=self._columns)), path) if rows else np.empty((0, 0))
        self.dtype = head.dtype
        self.shape = check_matrix((rows, head.shape[1]), head.dtype, self.where)
        sizes = [self._file.metadata.row_group(i).num_rows for i in range(self._file.metadata.num_row_groups)]
        self._borders = np.concatenate([[0], np.cumsum(sizes)])

    def read(self, start: int, stop: int) -> Block:
        touched = [i for i, (a, b) in enumerate(pairwise(self._borders)) if a < stop and b > start]
        if not touched:
            return np.empty((0, self.shape[1]), self.dtype)
        table = self._file.read_row_groups(touched, columns=self._columns).combine_chunks()
        matrix = np.concatenate([_matrix(b, Path(self.where)) for b in table.to_batches()])
        first = int(self._borders[touched[0]])
        return matrix[start - first : stop - first]

    def batches(self, rows: int) -> Iterator[tuple[int, Block]]:
        start, rest = 0, np.empty((0, self.shape[1]), self.dtype)
        for batch in self._file.iter_batches(max(rows, 4096), columns=self._columns):
            rest = np.concatenate([rest, _matrix(batch, Path(self.where))])
            while len(rest) >= rows:
                yield start, rest[:rows]
                start, rest = start + rows, rest[rows:]
        if len(rest):
            yield start, rest


def open_parquet(path: Path, member: str | None) -> Features:
    """A Parquet file."""
    return ParquetFeatures(path, member)


def open_feather(path: Path, member: str | None) -> Features:
    """A Feather (Arrow IPC) file, memory-mapped where its encoding allows."""
    feather = require("pyarrow.feather", "formats")
    arrow = require("pyarrow", "formats")
    try:
        table = feather.read_table(path, memory_map=True)
    except (arrow.ArrowInvalid, OSError) as error:
        raise FormatError(f"{path}: not a readable Feather file ({error})") from error
    columns = _columns(table.schema, member, path)
    parts = [_matrix(batch, path) for batch in table.select(columns).to_batches()]
    return ArrayFeatures(np.concatenate(parts) if parts else np.empty((0, 0)), str(path))


def _columns(schema: Any, member: str | None, path: Path) -> list[str]:
    types = require("pyarrow", "formats").types
    vectors = [f.name for f in schema if types.is_fixed_size_list(f.type) or types.is_list(f.type)]
    if vectors or member is not None:
        return [choose(member, vectors, path)]
    numeric = [f.name for f in schema if types.is_floating(f.type) or types.is_integer(f.type)]
    if not numeric:
        raise FormatError(f"{path}: expected a column of vectors or numeric columns; it has {', '.join(schema.names)}")
    return numeric


def _matrix(batch: Any, path: Path) -> Any:
    """A record batch as a matrix."""
    if batch.num_columns > 1 or not hasattr(batch.column(0), "flatten"):
        return np.column_stack([c.to_numpy(zero_copy_only=False) for c in batch.columns])
    column = batch.column(0)
    values = column.flatten().to_numpy(zero_copy_only=False)
    if len(column) and len(values) % len(column):
        raise FormatError(f"{path}: the vectors of column {batch.schema.names[0]!r} differ in length")
    return values.reshape(len(column), -1)
