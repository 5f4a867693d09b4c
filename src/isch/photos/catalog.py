"""What a library knows of its pictures: one SQLite file.

Each thread has its own connection, so a page can be served while the collection is updated. A change is one
transaction: it is stored whole or not at all.
"""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple, TypeVar

from isch.errors import FileError, FormatError
from isch.files import printable
from isch.photos import words

VERSION = 3
APPLICATION_ID = 0x49534350  # "ISCP"
BUSY_SECONDS = 30.0
_AT_ONCE = 500  # numbers in one statement: SQLite limits them
T = TypeVar("T")

_LOOKS = """
CREATE TABLE IF NOT EXISTS looks (
    digest TEXT PRIMARY KEY, version INTEGER NOT NULL, share REAL NOT NULL, detail REAL NOT NULL, colour REAL NOT NULL,
    step INTEGER NOT NULL
) WITHOUT ROWID;
"""
_UPGRADES = {  # what makes a file of one version one of the next
    1: "CREATE INDEX IF NOT EXISTS items_by_path ON items (path, bytes, changed);",  # all that an update compares
    2: f"""
    ALTER TABLE items ADD COLUMN traits INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE items ADD COLUMN quality INTEGER NOT NULL DEFAULT 0;
    DELETE FROM meta WHERE name = 'fingerprints';
    {_LOOKS}
    """,  # without a version of the fingerprints, all pictures are looked at again
}
_SCHEMA = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE items (
    id INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, bytes INTEGER NOT NULL, changed INTEGER NOT NULL,
    digest TEXT NOT NULL, width INTEGER NOT NULL, height INTEGER NOT NULL, format TEXT NOT NULL,
    taken TEXT NOT NULL, camera TEXT NOT NULL, folder TEXT NOT NULL, fingerprint BLOB NOT NULL,
    traits INTEGER NOT NULL DEFAULT 0, quality INTEGER NOT NULL DEFAULT 0
);
{_UPGRADES[1]}
CREATE INDEX items_by_date ON items (taken DESC, id);
CREATE INDEX items_by_folder ON items (folder);
CREATE INDEX items_by_camera ON items (camera);
CREATE TABLE labels (
    item INTEGER NOT NULL REFERENCES items ON DELETE CASCADE, kind INTEGER NOT NULL, share REAL NOT NULL,
    PRIMARY KEY (kind, item)
) WITHOUT ROWID;
CREATE INDEX labels_by_item ON labels (item);
CREATE TABLE failures (
    path BLOB PRIMARY KEY, bytes INTEGER NOT NULL, changed INTEGER NOT NULL, reason TEXT NOT NULL
) WITHOUT ROWID;
{_LOOKS}
"""


class State(NamedTuple):
    """How to notice that a file changed."""

    bytes: int
    changed: int  # nanoseconds since 1970


class Item(NamedTuple):
    """A picture of the library."""

    id: int
    path: str
    bytes: int
    changed: int
    digest: str  # SHA-256 of the file
    width: int
    height: int
    format: str
    taken: str  # ISO 8601; of the camera, else of the file
    camera: str
    folder: str  # below the top folder
    traits: int = 0  # ``Trait``: what tells an original from its copies
    quality: int = 0  # of a JPEG, 1 to 100; 0: unknown

    @property
    def name(self) -> str:
        """The file's name, safe to show."""
        return printable(os.path.basename(self.path))


_COLUMNS = ", ".join(Item._fields)


class Look(NamedTuple):
    """What the pixels of a picture tell of it as a copy."""

    share: float  # of the picture that lies inside its borders
    detail: float  # the finest detail, as a share of what so many pixels can show
    colour: float  # how colourful it is, 0 for grey
    step: int  # quantisation steps of an earlier JPEG that are still seen; 0: none


@dataclass(frozen=True)
class Filter:
    """Which pictures are wanted. All conditions must hold; empty ones are ignored."""

    word: str = ""
    folder: str = ""  # with its subfolders
    camera: str = ""
    since: str = ""  # dates as ISO 8601 texts, which sort as the dates do
    until: str = ""

    def __bool__(self) -> bool:
        return self != Filter()

    def condition(self) -> tuple[str, list[Any]]:
        """SQL with question marks, and what they stand for."""
        parts: list[tuple[str, list[Any]]] = []
        if self.word:
            numbers = words.numbers(self.word)
            marks = ", ".join("?" * len(numbers))
            parts.append((f"id IN (SELECT item FROM labels WHERE kind IN ({marks}))", list(numbers)))
        if self.folder:
            parts.append(("(folder = ? OR substr(folder, 1, ?) = ?)", _below(self.folder)))
        if self.camera:
            parts.append(("camera = ?", [self.camera]))
        if self.since:
            parts.append(("taken >= ?", [self.since]))
        if self.until:
            parts.append(("substr(taken, 1, ?) <= ?", [len(self.until), self.until]))
        return " AND ".join(sql for sql, _ in parts) or "1", [value for _, values in parts for value in values]


def _below(folder: str) -> list[Any]:
    prefix = folder.rstrip("/") + "/"
    return [folder, len(prefix), prefix]


class Catalog:
    """The pictures of a library, in the file ``path``, which is made when there is none."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._local = threading.local()
        with self._translated():
            self._prepare()

    def states(self) -> dict[bytes, tuple[int, int, int]]:
        """(id, bytes, changed) of each path; plain tuples, since there may be a million."""
        rows = self._all("SELECT path, id, bytes, changed FROM items INDEXED BY items_by_path")
        return {path: (number, size, changed) for path, number, size, changed in rows}

    def ids(self) -> set[int]:
        """The id of each picture."""
        return {number for (number,) in self._all("SELECT id FROM items")}

    def failures(self) -> dict[bytes, tuple[State, str]]:
        """(state, reason) of each file that could not be used."""
        rows = self._all("SELECT path, bytes, changed, reason FROM failures")
        return {path: (State(size, changed), reason) for path, size, changed, reason in rows}

    def item(self, number: int) -> Item | None:
        """One picture."""
        rows = self._all(f"SELECT {_COLUMNS} FROM items WHERE id = ?", [number])
        return _item(rows[0]) if rows else None

    def items(self, numbers: Sequence[int]) -> dict[int, Item]:
        """Those of some pictures that exist."""
        rows = self._each(f"SELECT {_COLUMNS} FROM items WHERE id IN", numbers)
        return {row[0]: _item(row) for row in rows}

    def page(self, wanted: Filter, offset: int, limit: int) -> list[Item]:
        """Some of the pictures a filter allows: the likeliest first for a word, else the latest."""
        condition, values = wanted.condition()
        if wanted.word:
            numbers = words.numbers(wanted.word)
            kinds = f"kind IN ({', '.join('?' * len(numbers))})"
            total = f"(SELECT sum(share) FROM labels WHERE item = id AND {kinds})"
            order, values = f"{total} DESC, id", [*values, *numbers]
        else:
            order = "taken DESC, id"
        sql = f"SELECT {_COLUMNS} FROM items WHERE {condition} ORDER BY {order} LIMIT ? OFFSET ?"
        return [_item(row) for row in self._all(sql, [*values, limit, offset])]

    def numbers(self, wanted: Filter) -> list[int]:
        """The ids of the pictures a filter allows."""
        condition, values = wanted.condition()
        return [number for (number,) in self._all(f"SELECT id FROM items WHERE {condition}", values)]

    def count(self, wanted: Filter | None = None) -> int:
        """How many pictures a filter allows."""
        condition, values = (wanted or Filter()).condition()
        return int(self._all(f"SELECT count(*) FROM items WHERE {condition}", values)[0][0])

    def labels(self, numbers: Sequence[int]) -> dict[int, list[tuple[int, float]]]:
        """The kinds of things some pictures show, the likeliest first."""
        found: dict[int, list[tuple[int, float]]] = {number: [] for number in numbers}
        for item, kind, share in self._each("SELECT item, kind, share FROM labels WHERE item IN", numbers):
            found[item].append((kind, share))
        return {item: sorted(labels, key=lambda label: -label[1]) for item, labels in found.items()}

    def kinds(self) -> dict[int, int]:
        """How many pictures show each kind of thing."""
        return dict(self._all("SELECT kind, count(*) FROM labels GROUP BY kind"))

    def values(self, column: str) -> list[tuple[str, int]]:
        """The folders, cameras or years there are, and how many pictures each has."""
        what = {"folder": "folder", "camera": "camera", "year": "substr(taken, 1, 4)"}[column]
        return self._all(f"SELECT {what}, count(*) FROM items GROUP BY 1 HAVING 1 IS NOT NULL ORDER BY 1")

    def digests(self) -> list[tuple[int, str]]:
        """(id, digest) of all pictures, by id."""
        return self._all("SELECT id, digest FROM items ORDER BY id")

    def fingerprints(self) -> list[tuple[int, bytes]]:
        """(id, fingerprint) of all pictures."""
        return self._all("SELECT id, fingerprint FROM items")

    def looks(self, digests: Sequence[str], version: int) -> dict[str, Look]:
        """What was kept of the pixels of some contents, as this version measures them."""
        sql = f"SELECT digest, share, detail, colour, step FROM looks WHERE version = {version} AND digest IN"
        return {digest: Look(*values) for digest, *values in self._each(sql, digests)}

    def keep_looks(self, looks: Mapping[str, Look], version: int) -> None:
        """Store what the pixels of some contents tell."""
        with self.changing() as connection:
            rows = [(digest, version, *look) for digest, look in looks.items()]
            connection.executemany("INSERT OR REPLACE INTO looks VALUES (?, ?, ?, ?, ?, ?)", rows)

    def revision(self) -> str:
        """A text that changes whenever pictures are added, changed or removed."""
        return str(self.meta("revision"))

    def kept(self, name: str, key: str) -> bytes | None:
        """What was kept under a name, if it was kept with this key."""
        found = self.meta(name)
        return bytes(found) if isinstance(found, bytes) and self.meta(f"{name} key") == key else None

    def keep(self, name: str, key: str, content: bytes) -> None:
        """Store something that can be computed again, with the key it belongs to."""
        with self.changing() as connection:
            connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", [(name, content), (f"{name} key", key)])

    def at_once(self, read: Callable[[], T]) -> T:
        """What a function reads, all of the same moment."""
        with self._translated():
            self._connection().execute("BEGIN")
            try:
                return read()
            finally:
                self._connection().execute("COMMIT")

    def meta(self, name: str) -> Any:
        """A setting, or None."""
        rows = self._all("SELECT value FROM meta WHERE name = ?", [name])
        return rows[0][0] if rows else None

    def set_meta(self, name: str, value: Any) -> None:
        """Keep a setting."""
        with self.changing() as connection:
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", [name, value])

    def next_id(self) -> int:
        """The first id that was never used."""
        used = self._all("SELECT max(id) FROM items")[0][0] or 0
        return max(int(used), int(self.meta("last_id") or 0)) + 1

    def add(self, rows: Sequence[tuple[Item, bytes, list[tuple[int, float]]]]) -> None:
        """Keep pictures, each path once, with their fingerprints and labels; those with the same id or path go."""
        known = [(item.id, os.fsencode(item.path), *item[2:], fingerprint) for item, fingerprint, _ in rows]
        labelled = [(item.id, *label) for item, _, labels in rows for label in labels]
        with self.changing() as connection:
            last = max([self.next_id() - 1, *(row[0] for row in known)])
            connection.executemany("DELETE FROM items WHERE id = ? OR path = ?", [row[:2] for row in known])
            connection.executemany("DELETE FROM failures WHERE path = ?", [row[1:2] for row in known])
            marks = ", ".join("?" * len(known[0])) if known else ""
            connection.executemany(f"INSERT INTO items ({_COLUMNS}, fingerprint) VALUES ({marks})", known)
            connection.executemany("INSERT INTO labels VALUES (?, ?, ?)", labelled)
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('last_id', ?)", [last])
            _revise(connection)

    def move(self, number: int, path: bytes, folder: str, state: State) -> None:
        """A picture has another path."""
        with self.changing() as connection:
            connection.execute("DELETE FROM items WHERE path = ? AND id <> ?", [path, number])
            connection.execute(
                "UPDATE items SET path = ?, folder = ?, bytes = ?, changed = ? WHERE id = ?",
                [path, folder, *state, number],
            )

    def remove(self, numbers: Iterable[int]) -> None:
        """Forget pictures."""
        with self.changing() as connection:
            connection.executemany("DELETE FROM items WHERE id = ?", [(number,) for number in numbers])
            _revise(connection)

    def fail(self, failed: Iterable[tuple[bytes, State, str]]) -> None:
        """Remember files that cannot be used, so that they are tried again only when they change."""
        with self.changing() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?)",
                [(path, *state, reason) for path, state, reason in failed],
            )

    def forget_failures(self, paths: Iterable[bytes]) -> None:
        """These files are gone."""
        with self.changing() as connection:
            connection.executemany("DELETE FROM failures WHERE path = ?", [(path,) for path in paths])

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
                connection.execute("ROLLBACK")
                raise

    def _all(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._translated():
            return self._connection().execute(sql, values).fetchall()

    def _each(self, sql: str, numbers: Sequence[int] | Sequence[str]) -> Iterator[Any]:
        """The rows of a query that ends with IN for all of many numbers."""
        for start in range(0, len(numbers), _AT_ONCE):
            some = numbers[start : start + _AT_ONCE]
            yield from self._all(f"{sql} ({', '.join('?' * len(some))})", some)

    def _connection(self) -> sqlite3.Connection:
        if not hasattr(self._local, "connection"):
            connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)
            connection.executescript("PRAGMA trusted_schema = OFF; PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL")
            self._local.connection = connection
        found: sqlite3.Connection = self._local.connection
        return found

    def _prepare(self) -> None:
        connection = self._connection()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if (application, version) == (0, 0) and not connection.execute("SELECT 1 FROM sqlite_schema").fetchone():
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(
                f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA application_id = {APPLICATION_ID}; "
                f"PRAGMA user_version = {VERSION}; COMMIT"
            )
        elif application != APPLICATION_ID:
            raise FormatError(f"{self.path}: not the catalog of a photo library")
        elif not 1 <= version <= VERSION:
            raise FormatError(f"{self.path}: format version {version}; this ISCH reads versions 1 to {VERSION}")
        elif version < VERSION:
            steps = " ".join(_UPGRADES[old] for old in range(version, VERSION))
            connection.executescript(f"BEGIN IMMEDIATE; {steps} PRAGMA user_version = {VERSION}; COMMIT")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """SQLite's errors in our words."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise FileError(f"{self.path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise FormatError(
                f"{self.path}: the catalog is damaged ({error}); delete its folder to have it made anew"
            ) from error


def _revise(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('revision', ?)", [token_hex(8)])


def _item(row: Sequence[Any]) -> Item:
    return Item(row[0], os.fsdecode(row[1]), *row[2:])
