"""What the user decided about pairs of pictures, kept in one SQLite file.

Pictures are known by the hash of their content, so a decision survives renaming, moving, restarts and re-indexing.
Files with the same content are one picture to it; a decision between them is one on a hash and itself.
Each decision is one transaction, synced to disk: it is stored whole or not at all, whatever ends the process. Each row
has a checksum, so a damaged file is refused.
"""

import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from itertools import combinations, combinations_with_replacement
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from isch.errors import FileError, FormatError, InputError

VERSION = 1
APPLICATION_ID = 0x49534344  # "ISCD"
BUSY_SECONDS = 30.0
HASH_LENGTH = 64
_AT_ONCE = 400  # hashes in one statement: twice as many stay below SQLite's limit of parameters

_SCHEMA = """
CREATE TABLE decisions (
    first TEXT NOT NULL, second TEXT NOT NULL, verdict TEXT NOT NULL, at INTEGER NOT NULL, crc INTEGER NOT NULL,
    PRIMARY KEY (first, second)
) WITHOUT ROWID
"""


class Verdict(StrEnum):
    """What a pair of pictures is to the user; FIRST and SECOND say which of the two is kept."""

    DIFFERENT = "not duplicates"
    BOTH = "keep both"
    FIRST = "keep first"
    SECOND = "keep second"


class Decision(NamedTuple):
    """A verdict on two pictures, first < second; ``at`` is when, in seconds since 1970."""

    first: str
    second: str
    verdict: Verdict
    at: int


class Decisions:
    """The decisions in a file, which is made when there is none; may be used by several threads and processes."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        if not self.path.parent.is_dir():
            raise FileError(f"{self.path}: the folder {self.path.parent} does not exist")
        with self._translated():
            self._connection = sqlite3.connect(
                self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        try:
            with self._translated():
                self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def not_duplicates(self, hashes: Sequence[str]) -> None:
        """Every two of these pictures are different pictures."""
        self._write(_pairs(hashes, Verdict.DIFFERENT))

    def keep_all(self, hashes: Sequence[str]) -> None:
        """These are copies of each other, and all of them stay."""
        self._write(_pairs(hashes, Verdict.BOTH))

    def keep_one(self, kept: str, others: Sequence[str]) -> None:
        """These are copies of each other, and only ``kept`` is to stay."""
        chosen = {tuple(sorted((kept, other))) for other in _checked([kept, *others])[1:]}
        self._write((a, b, Verdict.FIRST if a == kept else Verdict.SECOND) for a, b in sorted(chosen))

    def forget(self, hashes: Sequence[str]) -> None:
        """Remove all decisions between any two of these pictures."""
        pairs = list(combinations_with_replacement(sorted(set(_checked(hashes))), 2))
        with self._transaction():
            self._connection.executemany("DELETE FROM decisions WHERE first = ? AND second = ?", pairs)

    def verdict(self, one: str, other: str) -> Verdict | None:
        """What was decided on two pictures: FIRST and SECOND mean ``one`` and ``other`` as given here."""
        found = self.among([one, other])
        if not found:
            return None
        swap = {Verdict.FIRST: Verdict.SECOND, Verdict.SECOND: Verdict.FIRST}
        return found[0].verdict if one <= other else swap.get(found[0].verdict, found[0].verdict)

    def among(self, hashes: Iterable[str]) -> list[Decision]:
        """All decisions between any two of these pictures, sorted."""
        wanted = sorted(set(_checked(hashes)))
        inside, found = set(wanted), []
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            sql = f"SELECT * FROM decisions WHERE first IN ({','.join('?' * len(some))}) ORDER BY first, second"
            found += [decision for decision in self._read(sql, some) if decision.second in inside]
        return found

    def all(self) -> list[Decision]:
        """Every decision, sorted."""
        return self._read("SELECT * FROM decisions ORDER BY first, second")

    def apart(self) -> set[tuple[str, str]]:
        """The pairs, each sorted, that are not to be shown as duplicates any more."""
        settled = (Verdict.DIFFERENT, Verdict.BOTH)
        return {(decision.first, decision.second) for decision in self.all() if decision.verdict in settled}

    def close(self) -> None:
        """End the connection."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _prepare(self) -> None:
        """Make the table in a new file; check an old one through."""
        self._connection.execute("PRAGMA synchronous = FULL")
        if self._is_new():
            with self._transaction():
                if self._is_new():  # nobody made it in between
                    self._connection.execute(_SCHEMA)
                    self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                    self._connection.execute(f"PRAGMA user_version = {VERSION}")
        application, version = self._mark()
        if application != APPLICATION_ID:
            raise FormatError(f"{self.path}: a SQLite file, but not one of decisions about duplicates")
        if version > VERSION:
            raise FormatError(f"{self.path}: has format version {version}; this ISCH reads up to {VERSION}")
        (state,) = self._connection.execute("PRAGMA quick_check(1)").fetchone()
        if state != "ok" or version < VERSION:
            raise self._damaged(state)
        self.all()

    def _is_new(self) -> bool:
        (tables,) = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return tables == 0 and self._mark() == (0, 0)

    def _mark(self) -> tuple[int, int]:
        """(application, version) as the file says."""
        names = ("application_id", "user_version")
        application, version = (self._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
        return application, version

    def _write(self, rows: Iterable[tuple[str, str, Verdict]]) -> None:
        now = int(time.time())
        checked = [(a, b, str(verdict), now, checksum(a, b, verdict, now)) for a, b, verdict in rows]
        with self._transaction():
            self._connection.executemany("INSERT OR REPLACE INTO decisions VALUES (?, ?, ?, ?, ?)", checked)

    def _read(self, sql: str, parameters: Sequence[str] = ()) -> list[Decision]:
        with self._lock, self._translated():
            rows = self._connection.execute(sql, parameters).fetchall()
        return [self._decision(*row) for row in rows]

    def _decision(self, first: str, second: str, verdict: str, at: int, crc: int) -> Decision:
        if checksum(first, second, verdict, at) != crc or verdict not in list(Verdict):
            raise self._damaged(f"a row about {first!r:.20}")
        return Decision(first, second, Verdict(verdict), at)

    def _damaged(self, what: object) -> FormatError:
        detail = str(what).splitlines()[-1]
        return FormatError(f"{self.path}: the decisions are damaged ({detail}); move the file away to begin anew")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All changes inside, or none."""
        with self._lock, self._translated():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """SQLite's errors as ours."""
        try:
            yield
        except sqlite3.Error as error:
            if isinstance(error, sqlite3.OperationalError | sqlite3.InternalError | sqlite3.ProgrammingError):
                raise FileError(f"{self.path}: {error}") from error
            raise self._damaged(error) from error


def checksum(first: object, second: object, verdict: object, at: object) -> int:
    """CRC-32 of a decision; SQLite itself would not notice a changed letter."""
    return zlib.crc32(f"{first}\n{second}\n{verdict}\n{at}".encode(errors="backslashreplace"))


def _pairs(hashes: Sequence[str], verdict: Verdict) -> list[tuple[str, str, Verdict]]:
    return [(a, b, verdict) for a, b in sorted(set(combinations(sorted(_checked(hashes)), 2)))]


def _checked(hashes: Iterable[str]) -> list[str]:
    wanted = list(hashes)
    for value in wanted:
        if not isinstance(value, str) or len(value) != HASH_LENGTH or not set(value) <= set("0123456789abcdef"):
            raise InputError(f"expected a content hash of {HASH_LENGTH} hexadecimal digits; got {value!r:.80}")
    return wanted
