"""A SQLite file that can be made again from the pictures.

Each thread has its own connection, so a page can be served while the collection is updated. A change is one
transaction: it is stored whole or not at all. A file that somebody removes or replaces is opened anew.
"""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from isch.errors import FileError, FormatError, InputError
from isch.files import plain, printable
from isch.photos import homes

BUSY_SECONDS = 30.0
_AT_ONCE = 500  # numbers in one statement: SQLite limits them
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}
T = TypeVar("T")


class Damaged(FormatError):
    """What a library keeps of its pictures is damaged or from another version; it is made again from the pictures.

    ``index`` names the index if it is that, and not the catalog.
    """

    def __init__(self, fact: str, index: str | None = None) -> None:
        super().__init__(f"{fact}; isch photos index makes it again from the pictures")
        self.fact = fact
        self.index = index


class Database:
    """A SQLite file, which is made when there is none. A kind of file states its name, marks and tables."""

    what: ClassVar[str]
    application: ClassVar[int]
    version: ClassVar[int]
    schema: ClassVar[str]
    upgrades: ClassVar[Mapping[int, str]]  # what makes a file of one version one of the next

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._local = threading.local()
        with self._translated():
            self._connection()

    def at_once(self, read: Callable[[], T]) -> T:
        """What a function reads, all of the same moment."""
        with self._translated():
            self._connection().execute("BEGIN")
            try:
                return read()
            finally:
                self._connection().execute("COMMIT")

    def close(self) -> None:
        """Close the connection of this thread."""
        if connection := getattr(self._local, "connection", None):
            connection.close()
            del self._local.connection

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """A transaction."""
        with self._translated():
            connection = self._connection()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def damaged(self, what: object) -> Damaged:
        """The error that says so; the next update will make the file again."""
        homes.suspect(self.path.parent, self.path.name)
        return Damaged(f"{printable(self.path)}: {self.what} is damaged ({what})")

    def _all(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._translated():
            return self._connection().execute(sql, values).fetchall()

    def _each(self, sql: str, numbers: Sequence[int] | Sequence[str]) -> Iterator[Any]:
        """The rows of a query that ends with IN for all of many numbers."""
        for start in range(0, len(numbers), _AT_ONCE):
            some = numbers[start : start + _AT_ONCE]
            yield from self._all(f"{sql} ({', '.join('?' * len(some))})", some)

    def _connection(self) -> sqlite3.Connection:
        """The connection of this thread, to the file that is there now."""
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is not None and (found.in_transaction or self._local.file == self._identity()):
            return found
        self.close()
        self._local.connection = self._opened()
        self._local.file = self._identity()
        opened: sqlite3.Connection = self._local.connection
        return opened

    def _identity(self) -> tuple[int, int] | None:
        """Which file is there; None for no file."""
        try:
            info = os.stat(self.path)
        except FileNotFoundError:
            return None
        return info.st_dev, info.st_ino

    def _opened(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        for file in homes.files(self.path):
            with suppress(FileNotFoundError):
                plain(file)  # SQLite would wait for the other end of a pipe
        connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            connection.text_factory = _text
            connection.executescript("PRAGMA trusted_schema = OFF; PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL")
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Make the tables in a new file; bring an older one up to date; refuse another."""
        application, version = _marks(connection)
        if (application, version) == (0, 0) and not _tables(connection):
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            if not _tables(connection):  # nobody made it in between
                _run(connection, self.schema, self.application, self.version)
            connection.execute("COMMIT")
        elif application != self.application and not _expected(self.schema).keys() & _tables(connection).keys():
            raise InputError(f"{printable(self.path)}: not {self.what}; choose another folder for the index")
        elif application != self.application or not 1 <= version <= self.version:
            raise Damaged(
                f"{printable(self.path)}: {self.what} has format version {version}; this ISCH reads versions 1 to "
                f"{self.version}"
            )
        elif version < self.version:
            connection.execute("BEGIN IMMEDIATE")
            _, version = _marks(connection)  # nobody did so in between
            steps = "".join(self.upgrades[old] for old in range(version, self.version))
            _run(connection, steps, self.application, self.version)
            connection.execute("COMMIT")
        if _tables(connection) != _expected(self.schema):
            raise self.damaged("its tables are not those that this version makes")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """SQLite's errors in our words."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in _CORRUPT or isinstance(error, sqlite3.IntegrityError):
                raise self.damaged(error) from error
            raise FileError(f"{printable(self.path)}: {error}") from error
        except OverflowError as error:
            raise self.damaged(error) from error


def _marks(connection: sqlite3.Connection) -> tuple[int, int]:
    """(application, version) as a file says."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return application, version


def _tables(connection: sqlite3.Connection) -> dict[str, str]:
    """How each table, index, view and trigger was made, without spaces."""
    rows = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
    return {str(name): "".join(str(sql).split()) for name, sql in rows}


@lru_cache
def _expected(schema: str) -> dict[str, str]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(schema)
        return _tables(connection)


def _run(connection: sqlite3.Connection, script: str, application: int, version: int) -> None:
    """Run statements in the present transaction, which ``executescript`` would end."""
    marks = f"PRAGMA application_id = {application}; PRAGMA user_version = {version};"
    for statement in f"{script} {marks}".split(";"):
        connection.execute(statement)


def _text(raw: bytes) -> str:
    """Text that a stranger may have written."""
    return raw.decode("utf-8", "replace")
