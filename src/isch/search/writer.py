"""Changing an index: new files are written and synced, then a catalog that lists them takes the old one's place.

A change that did not come that far never happened; the next writer removes what it left.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch import progress
from isch.codes import Codes
from isch.errors import FormatError, InputError, KeysExist
from isch.files import sync
from isch.locks import locked
from isch.search import catalog as catalogs
from isch.search import items as item_files
from isch.search import keys as key_rules
from isch.search import version1
from isch.search.catalog import Catalog, Key, SegmentRow
from isch.search.first_use import NEVER
from isch.search.folder import SEGMENT_FILE, TEMPORARY, checked
from isch.search.items import Kept, StoredItems, Table
from isch.search.sealed import CODES, FEATURES, SegmentWriter
from isch.search.segments import Segment, write_dead
from isch.search.snapshot import Allowed, Snapshot, take, worded

SMALL_ROWS = 4096  # segments up to this are one size class; each further class is 8 times larger
FAN = 8  # so many segments of a class are merged
LARGE_ROWS = 4_000_000  # only compaction touches segments above this
COPY_ROWS = 65_536

Part = tuple[Codes, NDArray[Any] | None]  # codes of some rows, and their features if these are kept
Live = tuple[Segment, NDArray[np.int64]]  # a segment, and those of its rows that are not deleted


@dataclass(frozen=True)
class Rows:
    """What is to be added: how many rows, and their parts in order."""

    count: int
    parts: Iterator[Part]
    names: Sequence[str] | None = None


class Writer:
    """The holder of the lock, and the state that it changes."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot, self.catalog = snapshot, snapshot.catalog
        self.folder = snapshot.folder / "segments"

    def add(self, rows: Rows, keys: Any, metadata: Any, replace: bool) -> None:
        """Add rows under new keys; with ``replace``, also under keys that exist, whose items they replace."""
        numbered = keys is None and rows.names is None
        chosen = key_rules.for_rows(keys, rows.names, rows.count, self._free_key() if numbered else 0)
        entries = key_rules.metadata_entries(metadata, rows.count)
        gone = self.snapshot.split([] if numbered else self._existing(chosen, replace))
        sizes = [len(segment) for segment in self.snapshot.segments]
        kept = len(sizes) - absorbed(sizes, rows.count)
        table = Table(np.arange(rows.count), chosen, entries, rows.count)
        new = self._merged(self._live(gone, kept), rows, table)
        self._publish(self._marked(gone[:kept]) + new, rows.count)

    def delete(self, keys: list[Key], missing_ok: bool) -> int:
        """Delete items; gives how many there were."""
        found = self.snapshot.find(keys)
        if len(found) < len(set(keys)) and not missing_ok:
            absent = next(key for key in keys if key not in found)
            raise InputError(f"the key {absent!r} is not in the index")
        self._publish(self._marked(self.snapshot.split(found.values())), 0)
        return len(found)

    def compact(self) -> None:
        """Merge all segments into one without the deleted rows, its items in the present format."""
        present = all(isinstance(segment.items, StoredItems) for segment in self.snapshot.segments)
        if present and len(self.catalog.segments) <= 1 and all(row.dead is None for row in self.catalog.segments):
            return
        self._publish(self._merged(self._live(self.snapshot.split([]), 0), Rows(0, iter(())), None), 0)

    def clean(self, catalog: Catalog) -> None:
        """Remove our files that the catalog on disk does not list: those of writers that did not come to their end."""
        with suppress(OSError):
            listed = catalog.files
            forgotten = [p for p in self.folder.iterdir() if SEGMENT_FILE.fullmatch(p.name) and p.name not in listed]
            forgotten += [p for p in self.snapshot.folder.iterdir() if TEMPORARY.fullmatch(p.name)]
            forgotten += [p for name in version1.FILES if (p := self.snapshot.folder / name).exists()]
            if forgotten:
                sync(self.snapshot.folder)  # the catalog must be the one that comes back after a power cut
            for path in forgotten:
                with suppress(OSError):  # Windows does not remove what a reader has open; the next writer will
                    path.unlink()

    def _existing(self, keys: Sequence[Key], replace: bool) -> list[int]:
        if repeated := key_rules.repeated(keys):
            raise InputError(repeated)
        existing = self.snapshot.find(keys)
        if existing and not replace:
            first = next(key for key in keys if key in existing)
            raise KeysExist(f"{len(existing)} of the keys are already in the index, the first is {first!r}")
        return list(existing.values())

    def _free_key(self) -> int:
        largest = [segment.items.largest_integer_key() for segment in self.snapshot.segments]
        return max([self.catalog.added, *(key + 1 for key in largest if key is not None)])

    def _alive(self, i: int, gone: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which rows of a segment are not deleted when these are gone too."""
        live = self.snapshot.live[i]
        alive = np.ones(len(self.snapshot.segments[i]), np.bool_) if live is None else live.copy()
        alive[gone] = False
        return alive

    def _live(self, gone: Allowed, first: int) -> list[Live]:
        """The segments from a first one on, with their rows that are not deleted."""
        numbers = range(first, len(self.snapshot.segments))
        return [(self.snapshot.segments[i], np.flatnonzero(self._alive(i, gone[i]))) for i in numbers]

    def _marked(self, gone: Allowed) -> list[SegmentRow]:
        """The first segments as they are, except that some of their rows are gone."""
        rows = list(self.catalog.segments[: len(gone)])
        for i, some in enumerate(gone):
            if len(some):
                rows[i] = changed(rows[i], dead=write_dead(self.folder, token_hex(8), ~self._alive(i, some)))
        return rows

    def _merged(self, old: list[Live], new: Rows, table: Table | None) -> list[SegmentRow]:
        """Write the live rows of old segments, then new ones, as one segment; none if there are no rows."""
        n_rows = sum(len(rows) for _, rows in old) + new.count
        if n_rows == 0:
            return []
        for check in (check for segment, _ in old for check in segment.checks()):
            check()  # else damage would be given a right checksum
        name = token_hex(8)
        digest, n_bytes = item_files.write(self.folder / f"{name}.items", _kept(old, table, n_rows), n_rows)
        with ExitStack() as files:
            codes = files.enter_context(SegmentWriter(self.folder / f"{name}.codes", CODES, self.catalog.n_bits))
            kept = None
            if self.catalog.keep_features is not None:
                path, columns = self.folder / f"{name}.features", self.catalog.kept_columns
                kept = files.enter_context(SegmentWriter(path, FEATURES, *columns))
            _copy(old, new.parts, codes, kept)
            if codes.n_rows != n_rows:
                raise InputError(f"expected {new.count} rows to add; got {codes.n_rows - n_rows + new.count}")
            return [SegmentRow(name, n_rows, codes.finish(), None if kept is None else kept.finish(), digest, n_bytes)]

    def _publish(self, segments: list[SegmentRow], n_added: int) -> None:
        """Make these the segments of the index."""
        generation, added = self.catalog.generation + 1, self.catalog.added + n_added
        catalog = changed(self.catalog, segments=tuple(segments), generation=generation, added=added)
        sync(self.folder)
        catalogs.write(self.snapshot.folder, catalog)
        self.clean(catalog)


@contextmanager
def writing(folder: Path, wait: float, known: Iterable[Segment] = (), verify: str = NEVER) -> Iterator[Writer]:
    """Hold the index for writing.

    Parameters
    ----------
    folder : Path
        The index.
    wait : float
        Seconds to wait for another writer.
    known : iterable of Segment
        Segments that are open already.
    verify : {"first use", "before", "never"}
        When segments are compared with their checksums.
    """
    with locked(checked(folder) / "lock", wait, "is writing to this index"):
        try:
            if version1.found(folder):
                version1.upgrade(folder)
            writer = Writer(take(folder, known, verify))
            writer.clean(writer.catalog)
            try:
                yield writer
            except BaseException:
                with suppress(OSError):  # the catalog may be the new one, if what failed came after it
                    writer.clean(catalogs.read(folder))
                raise
        except OSError as error:
            raise worded(error, folder) from error


def absorbed(sizes: list[int], n_new: int) -> int:
    """How many of the last segments to merge with ``n_new`` rows: once FAN segments of a size class or below follow
    each other they become one. So each row is rewritten at most about once per class."""
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


def _kept(old: list[Live], new: Table | None, n_rows: int) -> list[Kept]:
    """The items of the live rows of old segments, then new ones, numbered anew."""
    kept, first = list[Kept](), 0
    for segment, rows in old:
        if not segment.items.present()[rows].all():
            raise FormatError(f"{segment.items.path}: the items are damaged (rows have no item)")
        numbers = np.full(len(segment), -1)
        numbers[rows] = np.arange(first, first + len(rows))
        kept.append(Kept(segment.items.source(), numbers))
        first += len(rows)
    return kept if new is None else [*kept, Kept(new, np.arange(first, n_rows))]


def _copy(old: list[Live], parts: Iterator[Part], codes: SegmentWriter, kept: SegmentWriter | None) -> None:
    for segment, rows in old:
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
