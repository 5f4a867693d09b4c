"""SQLite as this package uses it: small files that never change, read without locks, from strangers.

No thread of ours is inside SQLite when the process forks, and nothing that SQLite says leaves this package as it is.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from isch.errors import FileError, FormatError
from isch.forks import Gate

APPLICATION_ID = 0x49534348  # "ISCH"

_gate = Gate()
_TROUBLE = {  # of the machine, not of the file
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_NOMEM,
}


@contextmanager
def using(path: Path) -> Iterator[None]:
    """All calls of SQLite go through this; its errors become ours, named by the file."""
    with _gate.entered():
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
            said = " ".join(str(error).split())  # of a stranger's file it may repeat anything
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _TROUBLE:
                raise FileError(f"{path}: {said}") from error
            raise FormatError(f"{path}: damaged, or not a file of an ISCH index ({said})") from error


def open_immutable(path: Path, version: int, schema: tuple[str, ...]) -> sqlite3.Connection:
    """A connection to a file that nobody changes: no locks, no journal, and exactly the tables expected."""
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    return _opened(uri, path, version, schema)


def open_copy(copy: Path, path: Path, version: int, schema: tuple[str, ...]) -> sqlite3.Connection:
    """A connection to a copy, of the file at ``path`` and its journal, that is ours alone."""
    return _opened(f"{copy.absolute().as_uri()}?mode=rw", path, version, schema)


def close(connection: sqlite3.Connection) -> None:
    """End a connection."""
    with _gate.entered():
        connection.close()


def _opened(uri: str, path: Path, version: int, schema: tuple[str, ...]) -> sqlite3.Connection:
    with using(path):
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
        try:
            for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON", "mmap_size = 0"):
                connection.execute(f"PRAGMA {pragma}").close()
            connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
            _check(connection, path, version, schema)
        except BaseException:
            connection.close()
            raise
    return connection


def _check(connection: sqlite3.Connection, path: Path, version: int, schema: tuple[str, ...]) -> None:
    """Refuse other databases, newer versions, and tables, views or triggers that are not ours."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise FormatError(f"{path}: a SQLite file, but not of an ISCH index")
    if found != version:
        raise FormatError(f"{path}: expected format version {version}; got {found}")
    entries = connection.execute("SELECT sql FROM sqlite_master LIMIT 100").fetchall()
    if {sql for (sql,) in entries if sql is not None} != set(schema):
        raise FormatError(f"{path}: damaged, or not a file of an ISCH index (it has other tables than ours)")
