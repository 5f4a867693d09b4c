"""What a reader sees: one moment of an index, whatever writers do meanwhile.

A row of the snapshot is its place among the rows of all segments in the order of their ids, so sorting by row is
sorting by id, and no answer depends on how the rows are cut into segments.
"""

import os
import sqlite3
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.codes import Codes, width
from isch.distances import Distance
from isch.errors import FormatError
from isch.search.catalog import Catalog, Key, is_dead, translated
from isch.search.exact import CodeTable, nearest
from isch.search.filters import Where, condition
from isch.search.segments import Segment

FILTERS = 16  # filters whose rows are remembered
ATTEMPTS = 100  # at opening, each of which loses against a compaction

Rows = NDArray[np.int64]
Allowed = list[Rows]  # for each segment, the rows that may be found


class Snapshot:
    """A moment of an index."""

    def __init__(self, folder: Path, known: Iterable[Segment] = ()) -> None:
        self.folder, self.pid = folder, os.getpid()
        self.catalog = Catalog.reading(folder / "catalog.sqlite")
        self.lock = threading.Lock()
        self._finalizer = weakref.finalize(self, _close, self.catalog.connection, self.pid)
        with translated(self.catalog.path):
            self.meta: dict[str, Any] = self.catalog.meta()
            self.dead = self.catalog.dead()
            self.listed = self.catalog.segments()
        self.n_bits, self.n_bytes = int(self.meta["n_bits"]), width(int(self.meta["n_bits"]))
        opened = {segment.name: segment for segment in known}
        self.segments = [opened.get(row.name) or self._open(row.name) for row in self.listed]
        for row, segment in zip(self.listed, self.segments, strict=True):
            if (row.digest, row.features_digest) != (segment.digest, segment.features_digest):
                raise FormatError(f"{segment.path}: not the segment that the catalog lists under this name")
        self.offsets = np.cumsum([0, *map(len, self.segments)])
        self._filters: OrderedDict[str, Allowed] = OrderedDict()

    def _open(self, name: str) -> Segment:
        segment = Segment(self.folder / "segments", name, bool(self.meta["keep_features"]))
        if segment.n_bits != self.n_bits:
            raise FormatError(f"{segment.path}: expected codes of {self.n_bits} bits; got {segment.n_bits}")
        return segment

    def __len__(self) -> int:
        return int(self.meta["n_items"])

    @property
    def generation(self) -> int:
        """How many changes came before this moment."""
        return int(self.meta["generation"])

    @property
    def n_file_bytes(self) -> int:
        """Bytes of catalog, model and segments."""
        others = [self.folder / name for name in ("catalog.sqlite", "catalog.sqlite-wal", "model.safetensors")]
        return sum(s.n_file_bytes for s in self.segments) + sum(p.stat().st_size for p in others if p.exists())

    @cached_property
    def live(self) -> list[NDArray[np.bool_] | None]:
        """For each segment, which rows are not deleted; None: all."""
        return [self._live(segment) for segment in self.segments]

    def _live(self, segment: Segment) -> NDArray[np.bool_] | None:
        if not self.dead:
            return None
        dead = is_dead(self.dead, segment.ids())
        return ~dead if dead.any() else None

    def live_rows(self, at_once: int) -> Iterator[Rows]:
        """The numbers of all rows that are not deleted, in order, at most ``at_once`` at a time."""
        for segment, offset, live in zip(self.segments, self.offsets, self.live, strict=False):
            rows = np.arange(len(segment)) if live is None else np.flatnonzero(live)
            for start in range(0, len(rows), at_once):
                yield rows[start : start + at_once] + offset

    def allowed(self, where: Where | None, among: list[Key] | None) -> Allowed | None:
        """The rows of each segment that a filter and a list of keys allow; None: all."""
        listed = None if among is None else self._listed(among)
        if where is None:
            return listed
        fitting = self._fitting(where)
        return fitting if listed is None else [np.intersect1d(*both) for both in zip(fitting, listed, strict=True)]

    def _listed(self, keys: list[Key]) -> Allowed:
        ids = np.unique(np.fromiter(self.find(keys).values(), np.int64))
        return [segment.rows(ids) for segment in self.segments]

    def _fitting(self, where: Where) -> Allowed:
        wanted = condition(where)
        name = repr(wanted)
        with self.lock:
            if name not in self._filters:
                with translated(self.catalog.path):
                    ids = self.catalog.matching(wanted)
                self._filters[name] = [segment.rows(ids) for segment in self.segments]
                while len(self._filters) > FILTERS:
                    self._filters.popitem(last=False)
            self._filters.move_to_end(name)
            return self._filters[name]

    def nearest(
        self, queries: Codes, k: int, distance: Distance, allowed: Allowed | None
    ) -> tuple[NDArray[np.int32] | NDArray[np.float32], Rows]:
        """(distances, rows) of the k nearest of the rows allowed, sorted by (distance, row)."""
        masks = self.live if allowed is None else allowed
        found = [
            (distances, rows + self.offsets[i])
            for i, mask in enumerate(masks)
            for distances, rows in [nearest(queries, self.table(i), k, distance, mask)]
        ]
        if not found:
            return np.empty((len(queries), 0), np.int32), np.empty((len(queries), 0), np.int64)
        if len(found) == 1:
            return found[0]
        distances, rows = (np.concatenate([part[j] for part in found], axis=1) for j in (0, 1))
        order = np.argsort(distances, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(distances, order, axis=1), np.take_along_axis(rows, order, axis=1)

    def table(self, i: int) -> CodeTable:
        """The codes of a segment, as they lie on disk."""
        return CodeTable.from_tiles(self.segments[i].tiles, len(self.segments[i]), self.n_bytes)

    def ids(self, rows: Rows) -> Rows:
        """The ids of rows."""
        return self._collect(rows, np.empty(rows.shape, np.int64), Segment.ids)

    def codes(self, rows: Rows) -> Codes:
        """The codes of rows."""
        return self._collect(rows, np.empty((*rows.shape, self.n_bytes), np.uint8), Segment.codes)

    def features(self, rows: Rows) -> NDArray[np.float32]:
        """The original features of rows, where the index keeps them."""
        out = np.empty((*rows.shape, int(self.meta["n_features"])), np.float32)
        return self._collect(rows, out, lambda segment, local: segment.features[local])

    def _collect(self, rows: Rows, out: NDArray[Any], read: Any) -> NDArray[Any]:
        """``read(segment, its rows)`` for the rows of each segment."""
        owners = np.searchsorted(self.offsets, rows, side="right") - 1
        for i in np.unique(owners):
            here = owners == i
            out[here] = read(self.segments[i], rows[here] - self.offsets[i])
        return out

    def items(self, ids: Iterable[int]) -> dict[int, tuple[Key, str | None]]:
        """(key, metadata as JSON) of ids."""
        with self.lock, translated(self.catalog.path):
            return self.catalog.items(ids)

    def find(self, keys: list[Key]) -> dict[Key, int]:
        """The ids of those of some keys that exist."""
        with self.lock, translated(self.catalog.path):
            return self.catalog.ids(keys)

    def fields(self) -> list[str]:
        """The names of all fields of the metadata."""
        with self.lock, translated(self.catalog.path):
            return self.catalog.fields()

    def row(self, item: int) -> int:
        """The row of an id that exists."""
        wanted = np.array([item])
        for segment, offset in zip(self.segments, self.offsets, strict=False):
            if len(rows := segment.rows(wanted)):
                return int(rows[0] + offset)
        raise FormatError(f"{self.folder}: item {item} is in no segment; isch index verify tells more")

    def keys(self) -> Iterator[Key]:
        """All keys in the order they were added."""
        last = -1
        while True:
            with self.lock, translated(self.catalog.path):
                found = self.catalog.keys(last, 10_000)
            if not found:
                return
            yield from (key for _, key in found)
            last = found[-1][0]

    def abandon(self) -> None:
        """Keep the connection open for ever: it came here through a fork, and closing it could upset the parent."""
        _inherited.append(self.catalog.connection)


_inherited: list[sqlite3.Connection] = []


def take(folder: Path, known: Iterable[Segment] = ()) -> Snapshot:
    """The latest moment. A file that a compaction removed while we opened is no error: the next attempt is later."""
    known, before = list(known), None
    for _ in range(ATTEMPTS):
        try:
            return Snapshot(folder, known)
        except FileNotFoundError as error:
            now = _generation(folder)
            if now == before:
                raise FormatError(f"{error.filename}: a segment of the index is missing") from error
            before = now
    raise FormatError(f"{folder}: its segments vanish faster than they can be opened")


def _generation(folder: Path) -> int:
    catalog = Catalog.reading(folder / "catalog.sqlite")
    try:
        return int(catalog.meta()["generation"])
    finally:
        catalog.close()


def _close(connection: sqlite3.Connection, pid: int) -> None:
    if os.getpid() == pid:
        connection.close()
