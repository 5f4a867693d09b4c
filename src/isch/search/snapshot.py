"""What a reader sees: one state of an index, whatever writers do meanwhile.

A row of the snapshot is numbered among the rows of all segments in the order they were added, so no result depends on
how rows are divided into segments. All files are opened at the beginning, so files that a writer removes later stay
readable here.
"""

import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isch.codes import Codes, width
from isch.distances import Distance, Hamming
from isch.errors import FileError, FormatError, InputError
from isch.forks import Lock
from isch.scan.exact import CodeTable, Hits, Ranked, nearest
from isch.search import catalog as catalogs
from isch.search import first_use, version1
from isch.search.catalog import Catalog, Key
from isch.search.filters import Test, Where, tests
from isch.search.items import Metadata
from isch.search.sealed import CODES, FEATURES, ITEMS, SegmentFile
from isch.search.segments import Segment, read_dead

if TYPE_CHECKING:
    from isch.quality.rank_model import Ranks

FILTERS = 16  # filters whose rows are remembered
ATTEMPTS = 100  # at opening, each of which loses against a compaction

Rows = NDArray[np.int64]
Allowed = list[Rows]  # for each segment, the rows that may be found


class Snapshot:
    """A moment of an index.

    Parameters
    ----------
    folder : Path
        The index.
    catalog : Catalog
        The state to open.
    items_folder : Path
        Where the items and the marks of deleted rows are.
    known : iterable of Segment
        Segments that are open already.
    verify : {"first use", "before", "never"}
        When segments are compared with their checksums.
    """

    def __init__(
        self,
        folder: Path,
        catalog: Catalog,
        items_folder: Path,
        known: Iterable[Segment] = (),
        verify: str = first_use.NEVER,
    ) -> None:
        self.folder, self.catalog = folder, catalog
        self.verify = first_use.checked(verify)
        self.n_bits, self.n_bytes = catalog.n_bits, width(catalog.n_bits)
        opened = {segment.row.content: segment for segment in known}
        self.segments: list[Segment] = []
        self.live: list[NDArray[np.bool_] | None] = []  # for each segment, which rows are not deleted; None: all
        for row in catalog.segments:
            self.segments.append(opened.get(row.content) or Segment(folder / "segments", row, catalog, items_folder))
            self.live.append(read_dead(items_folder, row))
        self.offsets = np.cumsum([0, *map(len, self.segments)])
        self._begun = set[int]()  # kinds of files that were compared with their checksums, or are being compared
        self._lock = Lock()
        self._filters: OrderedDict[str, Allowed] = OrderedDict()
        self.ranks: dict[int, Ranks] = {}  # by the number of results, what calibration.py measured

    def __len__(self) -> int:
        return self.catalog.n_items

    @property
    def n_file_bytes(self) -> int:
        """Bytes of catalog, model and segments."""
        model = (self.folder / "model.safetensors").stat().st_size if self.catalog.model else 0
        return len(catalogs.encoded(self.catalog)) + model + sum(segment.n_file_bytes for segment in self.segments)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Search inside this block; what was found damaged meanwhile is refused instead of a result."""
        start = time.perf_counter()
        self.begin(CODES)
        self.begin(ITEMS)
        yield
        waiting = [body for body in self._bodies() if body.header.kind in self._begun and not body.proved]
        first_use.wait(waiting, first_use.PATIENCE * (time.perf_counter() - start))

    def begin(self, kind: int) -> None:
        """Before files of a kind are read: refuse those that are cut or damaged, and have them compared."""
        bodies = self._bodies()
        for body in bodies:
            body.check_size()
        if self.verify != first_use.NEVER and kind not in self._begun:
            first_use.compare([body for body in bodies if body.header.kind == kind], self.verify)
            self._begun.add(kind)
        first_use.refuse_damaged(bodies)

    def _bodies(self) -> list[SegmentFile]:
        return [body for segment in self.segments for body in segment.bodies.values()]

    def live_rows(self, at_once: int) -> Iterator[Rows]:
        """The numbers of all rows that are not deleted, in order, at most ``at_once`` at a time."""
        for segment, offset, live in zip(self.segments, self.offsets, self.live, strict=False):
            rows = np.arange(len(segment)) if live is None else np.flatnonzero(live)
            for start in range(0, len(rows), at_once):
                yield rows[start : start + at_once] + offset

    def allowed(self, where: Where | None, among: list[Key] | None) -> Allowed | None:
        """The rows of each segment that a filter and a list of keys allow; None: all."""
        return self._allowed(None if where is None else self.conditions(where), among)

    def conditions(self, where: Where) -> list[Test]:
        """The conditions of a filter, each on a field that some item has."""
        wanted = tests(where)
        missing = {test.field for test in wanted} if len(self) else set[str]()
        self.begin(ITEMS)
        for segment in self.segments if missing else ():
            missing -= segment.items.fields(None)
        if missing:
            there = self.fields()
            known = f"the fields are {', '.join(there)}" if there else "no item has any metadata"
            raise InputError(f"where: no item has the field {min(missing)!r}; {known}")
        return wanted

    def _allowed(self, wanted: list[Test] | None, among: list[Key] | None) -> Allowed | None:
        listed = None if among is None else self.split(self.find(among).values())
        if wanted is None:
            return listed
        fitting = self._fitting(wanted)
        return fitting if listed is None else [np.intersect1d(*both) for both in zip(fitting, listed, strict=True)]

    def split(self, rows: Iterable[int]) -> Allowed:
        """Rows of the snapshot as rows of each segment."""
        every = np.sort(np.fromiter(rows, np.int64))
        starts = np.searchsorted(every, self.offsets)
        return [every[a:b] - offset for a, b, offset in zip(starts, starts[1:], self.offsets, strict=False)]

    def _fitting(self, wanted: list[Test]) -> Allowed:
        name = repr(wanted)
        with self._lock:
            if name not in self._filters:
                self._filters[name] = [
                    rows if live is None else rows[live[rows]]
                    for segment, live in zip(self.segments, self.live, strict=True)
                    for rows in [segment.items.matching(wanted)]
                ]
                while len(self._filters) > FILTERS:
                    self._filters.popitem(last=False)
            self._filters.move_to_end(name)
            return self._filters[name]

    def nearest(self, queries: Codes, k: int, distance: Distance, allowed: Allowed | None) -> Ranked:
        """(distances, rows) of the k nearest of the rows allowed, sorted by (distance, row)."""
        self.begin(CODES)
        found = []
        for i, mask in enumerate(self.live if allowed is None else allowed):
            if isinstance(distance, Hamming):
                distances, rows = self.segments[i].lookup.nearest(queries, k, mask)
            else:
                distances, rows = nearest(queries, self.table(i), k, distance, mask)
            found.append((distances, rows + self.offsets[i]))
        return merged(found, len(queries), k)

    def within(self, queries: Codes, radius: int, allowed: Allowed | None) -> Hits:
        """Every one of the rows allowed that is at most ``radius`` bits from each query, sorted by (distance, row)."""
        self.begin(CODES)
        masks = self.live if allowed is None else allowed
        found = [self.segments[i].lookup.within(queries, radius, mask) for i, mask in enumerate(masks)]
        return merged_hits(found, self.offsets.tolist(), len(queries))

    def table(self, i: int) -> CodeTable:
        """The codes of a segment, as they lie on disk."""
        return self.segments[i].lookup.table

    def codes(self, rows: Rows) -> Codes:
        """The codes of rows."""
        self.begin(CODES)
        return self._collect(rows, np.empty((*rows.shape, self.n_bytes), np.uint8), Segment.codes)

    def features(self, rows: Rows) -> NDArray[np.float32]:
        """The original features of rows, or their factors, whichever the index keeps."""
        self.begin(FEATURES)
        out = np.empty((*rows.shape, self.catalog.kept_columns[0]), np.float32)
        return self._collect(rows, out, lambda segment, local: segment.features[local])

    def _collect(self, rows: Rows, out: NDArray[Any], read: Any) -> NDArray[Any]:
        """``read(segment, its rows)`` for the rows of each segment."""
        for segment, here, local in self._owners(rows):
            out[here] = read(segment, local)
        return out

    def _owners(self, rows: Rows) -> Iterator[tuple[Segment, NDArray[np.bool_], Rows]]:
        """(segment, which of the rows are its own, their places in it)."""
        owners = np.searchsorted(self.offsets, rows, side="right") - 1
        for i in sorted(set(owners.tolist())):
            here = owners == i
            yield self.segments[i], here, rows[here] - self.offsets[i]

    def items(self, rows: Rows) -> dict[int, tuple[Key, Metadata]]:
        """(key, metadata) of rows."""
        self.begin(ITEMS)
        found: dict[int, tuple[Key, Metadata]] = {}
        wanted = np.array(sorted(set(rows.ravel().tolist())), np.int64)
        for segment, here, local in self._owners(wanted):
            named = segment.items.named(local.tolist())
            found.update((row, named[place]) for row, place in zip(wanted[here].tolist(), local.tolist(), strict=True))
        return found

    def find(self, keys: Iterable[Key]) -> dict[Key, int]:
        """The rows of those of some keys that exist."""
        self.begin(ITEMS)
        wanted, found = set(keys), dict[Key, int]()
        for segment, offset, live in zip(self.segments, self.offsets.tolist(), self.live, strict=False):
            here = segment.items.find(wanted)
            found.update((key, row + offset) for key, row in here.items() if live is None or live[row])
        return found

    def fields(self) -> list[str]:
        """The names of all fields of the metadata, in the order of the alphabet."""
        self.begin(ITEMS)
        parts = zip(self.segments, self.live, strict=True)
        return sorted(set[str]().union(*(segment.items.fields(live) for segment, live in parts)))

    def keys(self) -> Iterator[Key]:
        """All keys in the order they were added."""
        self.begin(ITEMS)
        for segment, live in zip(self.segments, self.live, strict=True):
            yield from (key for row, key in segment.items.by_row() if live is None or live[row])


def merged(found: list[Ranked], n_queries: int, k: int) -> Ranked:
    """The k nearest of those found in parts whose rows follow each other, sorted by (distance, row)."""
    if not found:
        return np.empty((n_queries, 0), np.int32), np.empty((n_queries, 0), np.int64)
    if len(found) == 1:
        return found[0]
    distances, rows = (np.concatenate([part[j] for part in found], axis=1) for j in (0, 1))
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(rows, order, axis=1)


def merged_hits(found: list[Hits], starts: list[int], n_queries: int) -> Hits:
    """All hits in parts that begin at these rows, sorted by (distance, row)."""
    owner = [np.repeat(np.arange(n_queries), np.diff(part.offsets)) for part in found]
    rows = [part.rows + start for part, start in zip(found, starts, strict=False)]
    query, row = (np.concatenate([np.empty(0, np.int64), *parts]) for parts in (owner, rows))
    distance = np.concatenate([np.empty(0, np.int32), *(part.distances for part in found)])
    order = np.lexsort((row, distance, query))
    return Hits(np.searchsorted(query[order], np.arange(n_queries + 1)), row[order], distance[order])


def take(folder: Path, known: Iterable[Segment] = (), verify: str = first_use.NEVER) -> Snapshot:
    """The latest moment of an index.

    A file that a compaction removed meanwhile is not an error: the next attempt sees the newer state.
    """
    known, state, before = list(known), object(), object()
    for _ in range(ATTEMPTS):
        try:
            if state := version1.found(folder):
                return _converted(folder, verify)
            state = catalog = catalogs.read(folder)
            return Snapshot(folder, catalog, folder / "segments", known, verify)
        except FileNotFoundError as error:
            if error.filename is None:
                raise worded(error, folder) from error
            if state == before:
                raise FormatError(f"{error.filename}: a file of the index is missing") from error
            before = state
        except OSError as error:
            raise worded(error, folder) from error
    raise FormatError(f"{folder}: its segments vanish faster than they can be opened")


def worded(error: OSError, folder: Path) -> FileError:
    """An error of the system as one of ours."""
    if isinstance(error, FileError):
        return error
    return FileError(f"{error.filename or folder}: {error.strerror or error}")


def _converted(folder: Path, verify: str) -> Snapshot:
    """An index of version 1, as if it were of this one."""
    with TemporaryDirectory(prefix="isch-", ignore_cleanup_errors=True) as place:
        return Snapshot(folder, version1.convert(folder, Path(place)), Path(place), verify=verify)
