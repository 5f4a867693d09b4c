"""The catalog of an index: one SQLite file that says which segments and items there are. docs/formats.md describes it.

What a reader sees is one read transaction, held as long as its snapshot; what a writer does is one write transaction.
The tables hold what is live; ``dead`` has a bitmap, in chunks, of the ids that segments still hold but nobody may find.
"""

import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.errors import FileError, FormatError
from isch.search.filters import Condition

VERSION = 1
APPLICATION_ID = 0x49534348  # "ISCH"
CHUNK_IDS = 65_536  # ids a chunk of the dead bitmap covers
BUSY_SECONDS = 60.0
_NOT_COMMITTED = ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_BUSY")  # the last page of the commit was never written

Key = str | int
Ids = NDArray[np.int64]

_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE segments (
    name TEXT PRIMARY KEY, first_id INTEGER NOT NULL, n_rows INTEGER NOT NULL,
    digest BLOB NOT NULL, features_digest BLOB
) WITHOUT ROWID;
CREATE TABLE items (id INTEGER PRIMARY KEY, key NOT NULL UNIQUE, metadata TEXT, crc INTEGER NOT NULL);
CREATE TABLE dead (chunk INTEGER PRIMARY KEY, bits BLOB NOT NULL);
"""


@dataclass(frozen=True)
class SegmentRow:
    """What the catalog knows of a segment."""

    name: str
    first_id: int
    n_rows: int
    digest: bytes  # of the header of its codes file
    features_digest: bytes | None


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """SQLite's errors as ours."""
    try:
        yield
    except sqlite3.Error as error:
        if isinstance(error, sqlite3.OperationalError | sqlite3.InternalError):
            raise FileError(f"{path}: {error}") from error
        raise FormatError(f"{path}: the catalog is damaged or not a catalog ({error})") from error


class Catalog:
    """A connection to the catalog."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self.connection = path, connection
        self.committing = False  # or a commit failed in a way that may have left it on disk

    @classmethod
    def create(cls, path: Path, meta: dict[str, Any]) -> None:
        """Make a new catalog."""
        with translated(path):
            connection = sqlite3.connect(path, isolation_level=None)
            try:
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
                marks = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};"
                connection.executescript(f"BEGIN; {marks} {_SCHEMA} COMMIT")
                catalog = cls(path, connection)
                with catalog.transaction():
                    catalog.set(next_id=0, n_items=0, generation=0, **meta)
                    catalog.note_engine()
            finally:
                connection.close()

    @classmethod
    def reading(cls, path: Path) -> "Catalog":
        """A connection with a read transaction begun: it goes on seeing this moment."""
        catalog = cls(path, _connect(path, read_only=True))
        try:
            with translated(path):
                catalog.connection.execute("BEGIN")
                catalog._check()
        except BaseException:
            catalog.connection.close()
            raise
        return catalog

    @classmethod
    def writing(cls, path: Path) -> "Catalog":
        """A connection for changes, each synced to disk when it is committed."""
        catalog = cls(path, _connect(path, read_only=False))
        try:
            with translated(path):
                for pragma in ("synchronous = FULL", "journal_size_limit = 16777216", "cache_size = -65536"):
                    catalog.connection.execute(f"PRAGMA {pragma}")
                catalog._check()
        except BaseException:
            catalog.connection.close()
            raise
        return catalog

    def _check(self) -> None:
        """Refuse other databases and newer versions."""
        (application,) = self.connection.execute("PRAGMA application_id").fetchone()
        (version,) = self.connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            raise FormatError(f"{self.path}: a SQLite file, but not the catalog of an ISCH index")
        if version > VERSION:
            raise FormatError(f"{self.path}: the index has format version {version}; this ISCH reads up to {VERSION}")
        if version < VERSION:
            raise FormatError(f"{self.path}: the catalog is damaged (format version {version})")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All changes inside, or none."""
        with translated(self.path):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._commit()
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    def _commit(self) -> None:
        self.committing = True
        try:
            self.connection.execute("COMMIT")
            self.committing = False
        except sqlite3.Error as error:
            self.committing = error.sqlite_errorname not in _NOT_COMMITTED
            raise

    def meta(self) -> dict[str, Any]:
        """Every entry of the table of settings and counters."""
        return dict(self.connection.execute("SELECT name, value FROM meta"))

    def set(self, **values: Any) -> None:
        """Change settings or counters."""
        self.connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())

    def note_engine(self) -> None:
        """Record what SQLite writes into its own header, so that damage to that can be told."""
        (cookie,) = self.connection.execute("PRAGMA schema_version").fetchone()
        self.set(sqlite=sqlite3.sqlite_version, schema_cookie=cookie)

    def segments(self) -> list[SegmentRow]:
        """All segments in the order of their ids."""
        names = ", ".join(SegmentRow.__dataclass_fields__)
        rows = self.connection.execute(f"SELECT {names} FROM segments ORDER BY first_id")
        return [SegmentRow(*row) for row in rows]

    def insert_segment(self, row: SegmentRow) -> None:
        """Make a segment visible."""
        values = (row.name, row.first_id, row.n_rows, row.digest, row.features_digest)
        self.connection.execute("INSERT INTO segments VALUES (?, ?, ?, ?, ?)", values)

    def remove_segments(self, names: Iterable[str]) -> None:
        """Make segments invisible."""
        self.connection.executemany("DELETE FROM segments WHERE name = ?", ((name,) for name in names))

    def insert_items(self, rows: Iterable[tuple[int, Key, str | None]]) -> None:
        """Add items (id, key, metadata)."""
        checked = ((i, key, metadata, checksum(i, key, metadata)) for i, key, metadata in rows)
        self.connection.executemany("INSERT INTO items VALUES (?, ?, ?, ?)", checked)

    def remove_items(self, ids: Iterable[int]) -> None:
        """Remove items and mark their ids dead."""
        ids = sorted(ids)
        self.connection.executemany("DELETE FROM items WHERE id = ?", ((i,) for i in ids))
        self._mark(np.array(ids, np.int64))

    def dead(self) -> dict[int, NDArray[np.uint8]]:
        """The bitmap of dead ids: chunk → packed bits."""
        return {c: np.frombuffer(bits, np.uint8) for c, bits in self.connection.execute("SELECT chunk, bits FROM dead")}

    def clear_dead(self, first: int, last: int) -> None:
        """Forget the dead ids from first to last, which no segment holds any more."""
        for chunk, bits in self.dead().items():
            start = chunk * CHUNK_IDS
            if start > last or start + CHUNK_IDS <= first:
                continue
            kept = np.unpackbits(bits)
            kept[max(first - start, 0) : last - start + 1] = 0
            self._store(chunk, np.packbits(kept))

    def ids(self, keys: Sequence[Key]) -> dict[Key, int]:
        """The ids of those of some keys that exist."""
        found: dict[Key, int] = {}
        for start in range(0, len(keys), 500):
            some = keys[start : start + 500]
            marks = ",".join("?" * len(some))
            found.update(self.connection.execute(f"SELECT key, id FROM items WHERE key IN ({marks})", list(some)))
        return found

    def items(self, ids: Iterable[int]) -> dict[int, tuple[Key, str | None]]:
        """(key, metadata as JSON) of ids."""
        sql = "SELECT id, key, metadata FROM items WHERE id IN (SELECT value FROM json_each(?))"
        wanted = json.dumps(list(ids))
        return {i: (key, metadata) for i, key, metadata in self.connection.execute(sql, (wanted,))}

    def keys(self, after: int, limit: int) -> list[tuple[int, Key]]:
        """(id, key) of the next items after an id."""
        sql = "SELECT id, key FROM items WHERE id > ? ORDER BY id LIMIT ?"
        return self.connection.execute(sql, (after, limit)).fetchall()

    def matching(self, condition: Condition) -> Ids:
        """The ids, rising, of the items whose metadata meet a condition."""
        sql, parameters = condition
        rows = self.connection.execute(f"SELECT id FROM items WHERE {sql} ORDER BY id", parameters)
        return np.fromiter((i for (i,) in rows), np.int64)

    def fields(self) -> list[str]:
        """The names of all fields of the metadata, in the order of the alphabet."""
        sql = "SELECT DISTINCT field.key FROM items, json_each(items.metadata) AS field ORDER BY 1"
        return [str(name) for (name,) in self.connection.execute(sql)]

    def largest_integer_key(self) -> int | None:
        """The largest integer among the keys; SQLite orders every integer before every text."""
        row = self.connection.execute("SELECT key FROM items WHERE key < '' ORDER BY key DESC LIMIT 1").fetchone()
        return None if row is None else int(row[0])

    def shrink(self) -> None:
        """Give the room of removed items back, as far as readers allow."""
        with translated(self.path):
            self.connection.executescript("PRAGMA incremental_vacuum")  # execute would free one page only
            self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """End the connection, and with it its snapshot."""
        self.connection.close()

    def _mark(self, ids: Ids) -> None:
        for chunk in np.unique(ids // CHUNK_IDS).tolist():
            row = self.connection.execute("SELECT bits FROM dead WHERE chunk = ?", (chunk,)).fetchone()
            bits = np.unpackbits(np.frombuffer(row[0], np.uint8)) if row else np.zeros(CHUNK_IDS, np.uint8)
            bits[ids[ids // CHUNK_IDS == chunk] - chunk * CHUNK_IDS] = 1
            self._store(chunk, np.packbits(bits))

    def _store(self, chunk: int, bits: NDArray[np.uint8]) -> None:
        if bits.any():
            self.connection.execute("INSERT OR REPLACE INTO dead VALUES (?, ?)", (chunk, bits.tobytes()))
        else:
            self.connection.execute("DELETE FROM dead WHERE chunk = ?", (chunk,))


def checksum(item: int, key: Key, metadata: str | None) -> int:
    """CRC-32 of an item; SQLite itself would not notice a changed letter."""
    return zlib.crc32(f"{item}\n{'i' if isinstance(key, int) else 's'}{key}\n{metadata or ''}".encode())


def is_dead(bitmap: dict[int, NDArray[np.uint8]], ids: Ids) -> NDArray[np.bool_]:
    """Which of some rising ids are dead."""
    out = np.zeros(len(ids), np.bool_)
    for chunk, bits in bitmap.items():
        start, stop = np.searchsorted(ids, (chunk * CHUNK_IDS, (chunk + 1) * CHUNK_IDS))
        if start < stop:
            out[start:stop] = np.unpackbits(bits).view(np.bool_)[ids[start:stop] - chunk * CHUNK_IDS]
    return out


def _connect(path: Path, read_only: bool) -> sqlite3.Connection:
    """A connection to an existing catalog; where the folder cannot be written, one that asks for no locks."""
    if not path.is_file():
        raise FileError(f"{path}: no such file")
    mode = "rw" if os.access(path.parent, os.W_OK) else "ro"
    if mode == "ro" and not read_only:
        raise FileError(f"{path.parent}: the index cannot be written (no permission, or a read-only file system)")
    journal = path.with_name(path.name + "-wal")
    quiet = mode == "ro" and not (journal.exists() and journal.stat().st_size)
    uri = f"{path.absolute().as_uri()}?mode={mode}{'&immutable=1' if quiet else ''}"
    try:
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise FileError(f"{path}: {error}") from error
    if read_only:
        connection.execute("PRAGMA query_only = 1")
    return connection
