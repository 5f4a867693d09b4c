"""Items files of indexes of version 2: SQLite, read as they are. They are never written any more."""

import hashlib
import json
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from isch.errors import FileError, FormatError, InputError
from isch.files import plain
from isch.forks import Lock
from isch.search.catalog import Key
from isch.search.database import close, open_immutable, using
from isch.search.filters import Test, condition
from isch.search.items.contents import Marks, Metadata, Rows
from isch.search.items.table import Table

VERSION = 2
SCHEMA = (
    "CREATE TABLE items (row INTEGER PRIMARY KEY, key NOT NULL, metadata TEXT)",
    "CREATE UNIQUE INDEX keys ON items (key)",
)
AT_ONCE = 10_000  # rows fetched in one go
KEYS_AT_ONCE = 500
SCAN_SHARE = 1 / 4  # of all keys, when more are wanted than this it is faster to read all

Item = tuple[int, Key, str | None]  # row, key, metadata as JSON


class SqliteItems:
    """The items of one segment, open for reading by any number of threads.

    Parameters
    ----------
    path : Path
        Its file.
    n_rows : int
        Rows of the segment.
    n_bytes : int
        Bytes of the file.
    digest : str
        SHA-256 of the file, in hexadecimal.
    """

    def __init__(self, path: Path, n_rows: int, n_bytes: int, digest: str) -> None:
        self.path, self.n_rows, self.n_bytes, self._digest = path, n_rows, n_bytes, digest
        size = plain(path).stat().st_size
        if size != n_bytes:
            raise FormatError(f"{path}: the items are damaged (expected {n_bytes} bytes; got {size})")
        self._file = path.open("rb")  # stays readable when a compaction removes the name
        weakref.finalize(self, self._file.close)
        try:
            self._connection = open_immutable(path, VERSION, SCHEMA)
        except FileError:
            plain(path)  # a compaction may just have removed it, which SQLite does not tell from other troubles
            raise
        weakref.finalize(self, close, self._connection)
        self._lock = Lock()

    def __len__(self) -> int:
        return self.n_rows

    def named(self, rows: Sequence[int]) -> dict[int, tuple[Key, Metadata]]:
        """(key, metadata) of rows, each of which must be there."""
        sql = "SELECT row, key, metadata FROM items WHERE row IN (SELECT value FROM json_each(?))"
        listed = self._fetch(sql, [json.dumps(list(rows))], len(rows))
        found = {row: (key, metadata_from(text, self.path, row)) for row, key, text in listed}
        if len(found) < len(set(rows)):
            raise self._damaged(f"row {next(row for row in rows if row not in found)} has no item")
        return found

    def find(self, keys: Iterable[Key]) -> dict[Key, int]:
        """The rows of those of some keys that are here."""
        wanted = set(keys)
        if len(wanted) > SCAN_SHARE * self.n_rows:
            return {key: row for row, key, _ in self.all() if key in wanted}
        found: dict[Key, int] = {}
        listed = list(wanted)
        for start in range(0, len(listed), KEYS_AT_ONCE):
            some = listed[start : start + KEYS_AT_ONCE]
            sql = f"SELECT row, key, NULL FROM items WHERE key IN ({','.join('?' * len(some))})"
            found.update((key, row) for row, key, _ in self._fetch(sql, some, len(some)))
        return found

    def sorted(self) -> Iterator[tuple[Key, int]]:
        """(key, row) of every item in the order of keys: integers, then texts by their Unicode code points."""
        last: Key | None = None
        while True:
            after = "" if last is None else "WHERE key > ?"
            sql = f"SELECT row, key, NULL FROM items {after} ORDER BY key LIMIT {AT_ONCE}"
            found = self._fetch(sql, [] if last is None else [last], AT_ONCE)
            yield from ((key, row) for row, key, _ in found)
            if len(found) < AT_ONCE:
                return
            last = found[-1][1]

    def all(self) -> Iterator[Item]:
        """Every item in the order of rows."""
        last = -1
        while True:
            sql = "SELECT row, key, metadata FROM items WHERE row > ? ORDER BY row LIMIT ?"
            found = self._fetch(sql, [last, AT_ONCE], AT_ONCE)
            for item in found:
                if item[0] <= last:
                    raise self._damaged("its rows are out of order")
                last = item[0]
                yield item
            if len(found) < AT_ONCE:
                return

    def matching(self, tests: Sequence[Test]) -> Rows:
        """The rows, rising, whose metadata pass all tests; no more are looked at than there may be."""
        sql, parameters = condition(tests)
        some = f"SELECT row, metadata FROM items ORDER BY row LIMIT {self.n_rows}"
        with self._lock, using(self.path):
            found = self._connection.execute(f"SELECT row FROM ({some}) WHERE {sql}", parameters)
            rows = np.fromiter((row for (row,) in found), np.int64)
        if len(rows) and (rows[0] < 0 or rows[-1] >= self.n_rows or (np.diff(rows) <= 0).any()):
            raise self._damaged("its rows are out of order")
        return rows

    def fields(self, live: Marks | None) -> set[str]:
        """The names of all fields of the metadata of rows that are not deleted."""
        dead = [] if live is None else np.flatnonzero(~live).tolist()
        some = f"SELECT metadata FROM items WHERE row NOT IN (SELECT value FROM json_each(?)) LIMIT {self.n_rows}"
        sql = f"SELECT DISTINCT field.key FROM ({some}) AS live, json_each(live.metadata) AS field"
        with self._lock, using(self.path):
            return {str(name) for (name,) in self._connection.execute(sql, [json.dumps(dead)])}

    def largest_integer_key(self) -> int | None:
        """The largest integer among the keys; SQLite orders every integer before every text."""
        sql = "SELECT row, key, NULL FROM items WHERE key < '' ORDER BY key DESC LIMIT 1"
        found = self._fetch(sql, [], 1)
        return int(found[0][1]) if found else None

    def check(self) -> None:
        """Read the whole file and compare it with its checksum."""
        self._file.seek(0)
        if hashlib.file_digest(self._file, "sha256").hexdigest() != self._digest:
            raise FormatError(f"{self.path}: the items are damaged (they do not match their checksum)")
        with self._lock, using(self.path):
            (line,) = self._connection.execute("PRAGMA integrity_check(1)").fetchone()
        if line != "ok":
            raise self._damaged(" ".join(line.split()))

    def by_row(self) -> Iterator[tuple[int, Key]]:
        """(row, key) of every item in the order of rows."""
        return ((row, key) for row, key, _ in self.all())

    def present(self) -> Marks:
        """Which rows have an item; all metadata are looked at."""
        found = np.zeros(self.n_rows, np.bool_)
        for row, _, text in self.all():
            metadata_from(text, self.path, row)
            found[row] = True
        return found

    def source(self) -> Table:
        """All items, in memory."""
        found = list(self.all())
        rows, keys = np.array([row for row, _, _ in found], np.int64), [key for _, key, _ in found]
        metadata = [metadata_from(text, self.path, row) for row, _, text in found]
        try:
            return Table(rows, keys, metadata, self.n_rows)
        except InputError as error:
            raise self._damaged(str(error)) from error

    def _fetch(self, sql: str, parameters: Sequence[Any], at_most: int) -> list[Item]:
        with self._lock, using(self.path):
            found = self._connection.execute(sql, parameters).fetchmany(at_most + 1)
        if len(found) > at_most:
            raise self._damaged("an item is there twice")
        for row, key, metadata in found:
            if not (type(row) is int and 0 <= row < self.n_rows):
                raise self._damaged(f"it has an item for row {row!r}")
            if type(key) not in (int, str) or not (metadata is None or type(metadata) is str):
                raise self._damaged(f"the item of row {row} is not a key with metadata")
        return found

    def _damaged(self, what: str) -> FormatError:
        return FormatError(f"{self.path}: the items are damaged ({what})")


def metadata_from(text: str | None, path: Path, row: int) -> Metadata:
    """Metadata from the JSON that a file of items has for a row."""
    try:
        found = None if text is None else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: the metadata of row {row} are damaged ({error})") from error
    if not (found is None or isinstance(found, dict)):
        raise FormatError(f"{path}: the metadata of row {row} are damaged (expected a JSON object)")
    return found
