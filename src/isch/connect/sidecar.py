"""Everything about the items of a file engine but its own file: keys, codes, metadata, the model tag. One SQLite file.

It is the truth, the engine's file follows from it: a file that is missing, damaged or older is built again.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isch.codes import Codes
from isch.connect.source import ModelTag
from isch.errors import FileError, FormatError
from isch.files import sync
from isch.search.catalog import Key

_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE items (id INTEGER PRIMARY KEY, key NOT NULL UNIQUE, code BLOB NOT NULL, metadata TEXT)
"""
_AT_ONCE = 30_000  # parameters of one statement

Ids = NDArray[np.int64]


class Row(NamedTuple):
    """One item."""

    key: Key
    code: bytes
    metadata: str | None


class Sidecar:
    """The items of an engine's file, in the file of the same name with ``.items`` behind it."""

    def __init__(self, path: Path) -> None:
        self._open(path)

    def _open(self, path: Path) -> None:
        self.path = path
        with self._translated():
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            try:
                self._connection.execute("PRAGMA trusted_schema = OFF")
                self._connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.Error:
                self._connection.close()
                raise

    @classmethod
    def tag_of(cls, path: Path) -> ModelTag:
        """Which model made the codes of a file."""
        with closing(cls(path)) as opened:
            return ModelTag.parse(opened.fact("mark"), os.fspath(path))

    def create(self, tag: ModelTag) -> None:
        """Make the tables of a new file."""
        with self.changing():
            for statement in _SCHEMA.split(";"):
                self._connection.execute(statement)
            self.note("mark", str(tag))

    def fact(self, name: str) -> str | None:
        """A fact that was noted."""
        with self._translated():
            row = self._connection.execute("SELECT value FROM facts WHERE name = ?", [name]).fetchone()
        return None if row is None else str(row[0])

    def note(self, name: str, value: str) -> None:
        """Keep a fact."""
        with self._translated():
            self._connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", [name, value])

    def count(self) -> int:
        """How many items there are."""
        with self._translated():
            return int(self._connection.execute("SELECT count(*) FROM items").fetchone()[0])

    def ids(self, keys: Sequence[Key]) -> dict[Key, int]:
        """The numbers of those of some keys that exist."""
        return {key: number for number, key in self._chosen("SELECT id, key FROM items WHERE key IN", keys)}

    def rows(self, ids: Sequence[int]) -> dict[int, Row]:
        """The items of those of some numbers that exist."""
        found = self._chosen("SELECT id, key, code, metadata FROM items WHERE id IN", ids)
        return {number: Row(*row) for number, *row in found}

    def items(self, rows: int) -> Iterator[list[Row]]:
        """All items by their numbers, some at a time."""
        last = -1
        while found := self._after(last, rows):
            yield [Row(*row) for _, *row in found]
            last = found[-1][0]

    def batches(self, n_bytes: int, rows: int = 65_536) -> Iterator[tuple[Ids, Codes]]:
        """(numbers, codes) of all items, some at a time."""
        last = -1
        while found := self._after(last, rows):
            codes = np.frombuffer(b"".join(code for _, _, code, _ in found), np.uint8)
            if codes.size != len(found) * n_bytes:
                raise FormatError(f"{self.path}: damaged (a code has another length than {n_bytes} bytes)")
            yield np.array([number for number, *_ in found], np.int64), codes.reshape(-1, n_bytes)
            last = found[-1][0]

    def upsert(self, keys: Sequence[Key], codes: Codes, metadata: Sequence[str | None]) -> tuple[Ids, bool]:
        """(numbers of the rows, whether a code was replaced by another)."""
        known = self.rows(list((before := self.ids(keys)).values()))
        with self.changing():
            (last,) = self._connection.execute("SELECT coalesce(max(id), -1) FROM items").fetchone()
            fresh = iter(range(last + 1, last + 1 + len(keys)))
            ids = [before[key] if key in before else next(fresh) for key in keys]
            blobs = [code.tobytes() for code in codes]
            rows = zip(ids, keys, blobs, metadata, strict=True)
            self._connection.executemany("INSERT OR REPLACE INTO items VALUES (?, ?, ?, ?)", rows)
        changed = any(number in known and known[number].code != blob for number, blob in zip(ids, blobs, strict=True))
        return np.array(ids, np.int64), changed

    def delete(self, keys: Sequence[Key]) -> None:
        """Forget items."""
        with self.changing():
            self._connection.executemany("DELETE FROM items WHERE key = ?", [(key,) for key in keys])

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def move(self, target: Path) -> None:
        """Take the place of another sidecar, in one step."""
        if target == self.path:
            return
        with self._translated():
            self._connection.close()  # the last to close a file puts everything into it
            if target.exists():
                _settle(target)
            os.replace(self.path, target)
            sync(target.parent)
            self._open(target)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """A transaction."""
        with self._translated():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise

    def _after(self, last: int, rows: int) -> list[Any]:
        """The items with numbers above one, in their order."""
        with self._translated():
            sql = "SELECT id, key, code, metadata FROM items WHERE id > ? ORDER BY id LIMIT ?"
            return self._connection.execute(sql, [last, rows]).fetchall()

    def _chosen(self, sql: str, values: Sequence[Key]) -> Iterator[Any]:
        with self._translated():
            for start in range(0, len(values), _AT_ONCE):
                some = list(values[start : start + _AT_ONCE])
                yield from self._connection.execute(f"{sql} ({', '.join('?' * len(some))})", some)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                raise FileError(f"{self.path}: {error}") from error
            raise FormatError(f"{self.path}: damaged, or not the items of an exported index ({error})") from error


def remove(path: Path) -> None:
    """Remove a sidecar."""
    for file in (path, *_journals(path)):
        file.unlink(missing_ok=True)


def _settle(path: Path) -> None:
    """Put what an interrupted process left beside a sidecar into it, so that it cannot fall to the next file there."""
    with suppress(FileError):
        Sidecar(path).close()
    for file in _journals(path):
        file.unlink(missing_ok=True)


def _journals(path: Path) -> list[Path]:
    return [path.with_name(path.name + end) for end in ("-wal", "-shm")]
