"""Changing an index: each operation writes and syncs its segment first, then shows it by one catalog transaction."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch import progress
from isch.codes import Codes
from isch.errors import InputError, KeysExist
from isch.locks import locked
from isch.search import keys as key_rules
from isch.search.catalog import Catalog, Key, SegmentRow, is_dead
from isch.search.segments import CODES, FEATURES, Ids, Segment, SegmentWriter, codes_path, features_path

SMALL_ROWS = 4096  # segments up to this are one size class; each further class is 8 times larger
FAN = 8  # so many segments of a class are merged
LARGE_ROWS = 4_000_000  # only compaction touches segments above this
COPY_ROWS = 65_536

Part = tuple[Codes, NDArray[Any] | None]  # codes of some rows, and their features if these are kept


@dataclass(frozen=True)
class Rows:
    """What is to be added: how many rows, and their parts in order."""

    count: int
    parts: Iterator[Part]
    names: Sequence[str] | None = None


class Writer:
    """The holder of the lock, with a connection for changes."""

    def __init__(self, folder: Path, catalog: Catalog) -> None:
        self.folder, self.catalog = folder / "segments", catalog
        self.meta = catalog.meta()
        self.keep: str | None = self.meta["keep_features"]

    def add(self, rows: Rows, keys: Any, metadata: Any, replace: bool) -> None:
        """Add rows under new keys; with ``replace``, also under keys that exist, whose items they replace."""
        first = int(self.meta["next_id"])
        chosen = key_rules.for_rows(keys, rows.names, rows.count, self._free_key(keys, rows.names))
        texts = key_rules.metadata_rows(metadata, rows.count)
        with self._changing() as retired:
            replaced = self._replace(chosen) if replace else 0
            self._insert(first, chosen, texts)
            old = self._absorbed(rows.count)
            ids = np.arange(first, first + rows.count, dtype=np.int64)
            self._write_segment(old, ids, rows.parts)
            retired += old
            n_items = int(self.meta["n_items"]) + rows.count - replaced
            self.catalog.set(next_id=first + rows.count, n_items=n_items)

    def delete(self, keys: list[Key], missing_ok: bool) -> int:
        """Delete items; gives how many there were."""
        with self._changing():
            found = self.catalog.ids(keys)
            if len(found) < len(set(keys)) and not missing_ok:
                absent = next(key for key in keys if key not in found)
                raise InputError(f"the key {absent!r} is not in the index")
            self.catalog.remove_items(found.values())
            self.catalog.set(n_items=int(self.meta["n_items"]) - len(found))
        return len(found)

    def compact(self) -> None:
        """Merge all segments into one without the deleted rows."""
        segments = self._segments()
        if len(segments) <= 1 and not self.catalog.dead():
            return
        with self._changing() as retired:
            self._write_segment(segments, np.empty(0, np.int64), iter(()))
            retired += segments
        self.catalog.shrink()

    def clean(self) -> None:
        """Remove the files of writers that did not come to their end."""
        listed = {row.name for row in self.catalog.segments()}
        for path in self.folder.iterdir():
            if path.name.partition(".")[0] not in listed:
                path.unlink(missing_ok=True)

    @contextmanager
    def _changing(self) -> Iterator[list[Segment]]:
        """A transaction; the segments put on the list it gives are removed from disk after it."""
        retired: list[Segment] = []
        with self.catalog.transaction():
            yield retired
            self.catalog.set(generation=int(self.meta["generation"]) + 1)
            self.catalog.note_engine()
        for segment in retired:
            self._unlink(segment.name)

    def _replace(self, keys: Sequence[Key]) -> int:
        old = self.catalog.ids(keys)
        self.catalog.remove_items(old.values())
        return len(old)

    def _insert(self, first: int, keys: Sequence[Key], metadata: Iterator[str | None]) -> None:
        try:
            with progress.task("cataloguing", len(keys), "rows") as advance:
                self.catalog.insert_items(
                    _counted(zip(range(first, first + len(keys)), keys, metadata, strict=True), advance)
                )
        except sqlite3.IntegrityError:
            twice = key_rules.repeated(keys)
            raise (InputError(twice) if twice else self._taken(keys)) from None

    def _taken(self, keys: Sequence[Key]) -> KeysExist:
        self.catalog.connection.execute("ROLLBACK")
        existing = self.catalog.ids(keys)
        first = next(key for key in keys if key in existing)
        return KeysExist(f"{len(existing)} of the keys are already in the index, the first is {first!r}")

    def _free_key(self, keys: Any, names: Sequence[str] | None) -> int:
        if keys is not None or names is not None:
            return 0
        largest = self.catalog.largest_integer_key()
        return max(int(self.meta["next_id"]), 0 if largest is None else largest + 1)

    def _segments(self) -> list[Segment]:
        return [Segment(self.folder, row.name, bool(self.keep)) for row in self.catalog.segments()]

    def _absorbed(self, n_new: int) -> list[Segment]:
        """The last segments that a new one of this size takes in, so that many small additions make few segments."""
        rows = self.catalog.segments()
        count = absorbed([row.n_rows for row in rows], n_new)
        return [Segment(self.folder, row.name, bool(self.keep)) for row in rows[len(rows) - count :]]

    def _write_segment(self, old: list[Segment], ids: Ids, parts: Iterator[Part]) -> None:
        """Write the live rows of old segments, then new parts, as one segment that takes the place of the old ones."""
        dead = self.catalog.dead()
        live = [np.flatnonzero(~is_dead(dead, segment.ids())) for segment in old]
        everything = np.concatenate([*(s.ids(rows) for s, rows in zip(old, live, strict=True)), ids])
        if len(everything):
            stored = ((s, rows) for s, rows in zip(old, live, strict=True))
            self.catalog.insert_segment(self._write(everything, stored, parts))
        self.catalog.remove_segments(segment.name for segment in old)
        if old:
            self.catalog.clear_dead(old[0].first_id, old[-1].last_id)

    def _write(self, ids: Ids, stored: Iterator[tuple[Segment, Ids]], parts: Iterator[Part]) -> SegmentRow:
        name = token_hex(8)
        with SegmentWriter(codes_path(self.folder, name), CODES, int(self.meta["n_bits"])) as codes:
            if not self.keep:
                _copy(stored, parts, codes, None)
                return SegmentRow(name, int(ids[0]), len(ids), codes.finish(ids), None)
            dimensions = int(self.meta["n_features"])
            with SegmentWriter(features_path(self.folder, name), FEATURES, dimensions, self.keep) as kept:
                _copy(stored, parts, codes, kept)
                return SegmentRow(name, int(ids[0]), len(ids), codes.finish(ids), kept.finish(ids))

    def _unlink(self, name: str) -> None:
        """Readers that have the files mapped keep them; what cannot be removed now is left to the next writer."""
        with suppress(OSError):
            codes_path(self.folder, name).unlink(missing_ok=True)
            features_path(self.folder, name).unlink(missing_ok=True)


@contextmanager
def writing(folder: Path, wait: float) -> Iterator[Writer]:
    """Hold the index for writing."""
    with locked(folder / "lock", wait, "is writing to this index"):
        catalog = Catalog.writing(folder / "catalog.sqlite")
        try:
            writer = Writer(folder, catalog)
            writer.clean()
            try:
                yield writer
            except BaseException:
                if not catalog.committing:
                    writer.clean()
                raise
        finally:
            catalog.close()


def absorbed(sizes: list[int], n_new: int) -> int:
    """How many of the last segments to merge with ``n_new`` rows: once FAN segments of a size class or below follow
    each other they become one. Each row is so rewritten at most about once a class."""
    taken, total = 0, n_new
    while True:
        run = taken
        while run < len(sizes) and sizes[-1 - run] <= LARGE_ROWS and size_class(sizes[-1 - run]) <= size_class(total):
            run += 1
        if run == taken or run - taken + 1 < FAN:
            return taken
        total += sum(sizes[len(sizes) - run : len(sizes) - taken])
        taken = run


def size_class(n_rows: int) -> int:
    """0 up to SMALL_ROWS, and one more for each factor FAN."""
    size = 0
    while n_rows > SMALL_ROWS * FAN**size:
        size += 1
    return size


def _copy(
    stored: Iterator[tuple[Segment, Ids]], parts: Iterator[Part], codes: SegmentWriter, kept: SegmentWriter | None
) -> None:
    for segment, rows in stored:
        with progress.task("merging", len(rows), "rows") as advance:
            for start in range(0, len(rows), COPY_ROWS):
                some = rows[start : start + COPY_ROWS]
                codes.append_codes(segment.codes(some))
                if kept is not None and segment.features is not None:
                    kept.append_rows(segment.features[some])
                advance(len(some))
    for packed, features in parts:
        codes.append_codes(packed)
        if kept is not None and features is not None:
            kept.append_rows(features)


def _counted(
    items: Iterator[tuple[int, Key, str | None]], advance: progress.Advance
) -> Iterator[tuple[int, Key, str | None]]:
    for done, item in enumerate(items, 1):
        if done % 10_000 == 0:
            advance(10_000)
        yield item
