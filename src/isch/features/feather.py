"""Feather files (Arrow IPC): the same columns as in Parquet."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from isch.errors import require
from isch.features.arrow import Columns, tables, texts, valid
from isch.features.base import Block, Features, SlabFeatures
from isch.features.checks import check_matrix
from isch.features.content import Content, write_beside
from isch.files import replacing

KIND = "Feather file (version 2)"


class FeatherFeatures(SlabFeatures):
    """A Feather file, decoded batch by batch. All rows are checked at opening, which has to count them anyway."""

    def __init__(self, path: Path, member: str | None) -> None:
        self.where = str(path)
        self._path = path
        self._lock = threading.Lock()
        self._columns = Columns(_reader(path).schema, member, path)
        self._reader = _reader(path, self._columns.chosen)
        self._last: tuple[int, Any] = (-1, None)
        self.dtype = self._columns.dtype
        width, borders = 0, [0]
        for number in range(self._reader.num_record_batches):
            batch = self._batch(number)
            width = width or (self._columns.width(batch) if batch.num_rows else 0)
            self._columns.matrix(batch, width, borders[-1])
            borders.append(borders[-1] + batch.num_rows)
        self._borders = borders
        self.shape = check_matrix((borders[-1], width), self.dtype, self.where)

    def read(self, start: int, stop: int) -> Block:
        parts = [np.empty((0, self.shape[1]), self.dtype)]
        for number, (first, end) in enumerate(zip(self._borders, self._borders[1:], strict=False)):
            a, b = max(start, first), min(stop, end)
            if a < b:
                piece = self._batch(number).slice(a - first, b - a)
                parts.append(self._columns.matrix(piece, self.shape[1], a))
        return parts[1] if len(parts) == 2 else np.concatenate(parts)

    def _load_names(self) -> Sequence[str] | None:
        if self._columns.names is None:
            return None
        reader = _reader(self._path, [self._columns.names])
        return texts((reader.get_batch(i).column(0) for i in range(reader.num_record_batches)), self.where)

    def _batch(self, number: int) -> Any:
        """A record batch; the last one is kept, because neighbouring reads want the same."""
        with self._lock:
            if self._last[0] != number:
                self._last = (number, valid(self._reader.get_batch(number)))
            return self._last[1]


def write(path: Path, content: Content) -> None:
    """Columns ``names``, ``labels`` and ``features``; attachments beside it."""
    schema, batches = tables(content)
    write_beside(path, content)
    with replacing(path) as temporary, require("pyarrow.ipc", "formats").new_file(str(temporary), schema) as file:
        for batch in batches:
            file.write_batch(batch)


def open_features(path: Path, member: str | None) -> Features:
    """A Feather file."""
    return FeatherFeatures(path, member)


def _reader(path: Path, columns: Sequence[str] = ()) -> Any:
    """A reader of some columns, or of all."""
    arrow, ipc = require("pyarrow", "formats"), require("pyarrow.ipc", "formats")
    file = arrow.memory_map(str(path))
    schema = ipc.open_file(file).schema
    wanted = [schema.get_field_index(name) for name in columns]
    return ipc.open_file(file, options=ipc.IpcReadOptions(included_fields=wanted))
