"""What a library knows of its pictures: one SQLite file that can be made again from them."""

import os
import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from secrets import token_hex
from typing import Any, NamedTuple

from isch.describe.decoding.reader import Trait
from isch.files import printable
from isch.photos import words
from isch.photos.database import Database

VERSION = 3
APPLICATION_ID = 0x49534350  # "ISCP"
MOST = 2**53  # numbers are smaller

_LOOKS = """
CREATE TABLE IF NOT EXISTS looks (
    digest TEXT PRIMARY KEY, version INTEGER NOT NULL, share REAL NOT NULL, detail REAL NOT NULL, colour REAL NOT NULL,
    quality INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS enlargements (
    small TEXT NOT NULL, large TEXT NOT NULL, version INTEGER NOT NULL, enlarged INTEGER NOT NULL,
    PRIMARY KEY (small, large)
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
_TYPES = tuple(Item.__annotations__.values())
_DIGEST = re.compile("[0-9a-f]{64}")


class Look(NamedTuple):
    """What the pixels of a picture tell of it as a copy."""

    share: float  # of the picture that lies inside its borders
    detail: float  # the finest detail, as a share of what so many pixels can show
    colour: float  # how colourful it is, 0 for grey
    quality: int  # of the JPEG it is or once was, 1 to 100, by what is still seen of it; 0: nothing


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


class Catalog(Database):
    """The pictures of a library, in the file ``path``, which is made when there is none.

    A catalog may come from a stranger, so each value is checked when it is read.
    """

    what = "the catalog of a photo library"
    application = APPLICATION_ID
    version = VERSION
    schema = _SCHEMA
    upgrades = _UPGRADES

    def __init__(self, path: str | os.PathLike[str], top: str = "") -> None:
        self._top = top  # the folder of pictures, with a separator behind it
        super().__init__(path)

    def states(self) -> dict[bytes, tuple[int, int, int]]:
        """(id, bytes, changed) of each path; plain tuples, since there may be a million."""
        rows = self._all("SELECT path, id, bytes, changed FROM items INDEXED BY items_by_path")
        found = {path: (number, size, changed) for path, number, size, changed in rows}
        if not set(map(type, found)) <= {bytes}:
            raise self.damaged("a path is not such")
        return found

    def ids(self) -> set[int]:
        """The id of each picture."""
        return {number for (number,) in self._all("SELECT id FROM items")}

    def failures(self) -> dict[bytes, tuple[State, str]]:
        """(state, reason) of each file that could not be used."""
        rows = self._all("SELECT path, bytes, changed, reason FROM failures")
        if any(type(path) is not bytes or type(reason) is not str for path, _, _, reason in rows):
            raise self.damaged("a failure is not such")
        return {path: (State(size, changed), reason) for path, size, changed, reason in rows}

    def item(self, number: int) -> Item | None:
        """One picture."""
        rows = self._all(f"SELECT {_COLUMNS} FROM items WHERE id = ?", [number])
        return self._item(rows[0]) if rows else None

    def items(self, numbers: Sequence[int]) -> dict[int, Item]:
        """Those of some pictures that exist."""
        rows = self._each(f"SELECT {_COLUMNS} FROM items WHERE id IN", numbers)
        return {row[0]: self._item(row) for row in rows}

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
        return [self._item(row) for row in self._all(sql, [*values, limit, offset])]

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
            found[item].append((self._kind(kind), share if isinstance(share, float) else 0.0))
        return {item: sorted(labels, key=lambda label: -label[1]) for item, labels in found.items()}

    def kinds(self) -> dict[int, int]:
        """How many pictures show each kind of thing."""
        return {self._kind(kind): n for kind, n in self._all("SELECT kind, count(*) FROM labels GROUP BY kind")}

    def values(self, column: str) -> list[tuple[str, int]]:
        """The folders, cameras or years there are, and how many pictures each has."""
        what = {"folder": "folder", "camera": "camera", "year": "substr(taken, 1, 4)"}[column]
        rows = self._all(f"SELECT {what}, count(*) FROM items GROUP BY 1 HAVING 1 IS NOT NULL ORDER BY 1")
        return [(str(value), n) for value, n in rows]

    def digests(self) -> list[tuple[int, str]]:
        """(id, digest) of all pictures, by id."""
        return self._all("SELECT id, digest FROM items ORDER BY id")

    def fingerprints(self) -> list[tuple[int, bytes]]:
        """(id, fingerprint) of all pictures."""
        return self._all("SELECT id, fingerprint FROM items")

    def having(self, trait: Trait) -> set[int]:
        """The pictures with a trait."""
        return {number for (number,) in self._all("SELECT id FROM items WHERE traits & ?", [int(trait)])}

    def looks(self, digests: Sequence[str], version: int) -> dict[str, Look]:
        """What was kept of the pixels of some contents, as this version measures them."""
        sql = f"SELECT digest, share, detail, colour, quality FROM looks WHERE version = {version} AND digest IN"
        found = {digest: Look(*values) for digest, *values in self._each(sql, digests)}
        if not all(type(value) in (int, float) for seen in found.values() for value in seen):
            raise self.damaged("what was seen of a picture is no number")
        return found

    def keep_looks(self, looks: Mapping[str, Look], version: int) -> None:
        """Store what the pixels of some contents tell."""
        with self.changing() as connection:
            rows = [(digest, version, *look) for digest, look in looks.items()]
            connection.executemany("INSERT OR REPLACE INTO looks VALUES (?, ?, ?, ?, ?, ?)", rows)

    def enlarged(self, small: str, large: str, version: int) -> bool | None:
        """Whether one content is an enlargement of another; None if that was not looked at."""
        sql = "SELECT enlarged FROM enlargements WHERE small = ? AND large = ? AND version = ?"
        found = self._all(sql, [small, large, version])
        return bool(found[0][0]) if found else None

    def keep_enlarged(self, small: str, large: str, version: int, enlarged: bool) -> None:
        """Store whether one content is an enlargement of another."""
        with self.changing() as connection:
            row = [small, large, version, int(enlarged)]
            connection.execute("INSERT OR REPLACE INTO enlargements VALUES (?, ?, ?, ?)", row)

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

    def meta(self, name: str) -> Any:
        """A setting, or None."""
        rows = self._all("SELECT value FROM meta WHERE name = ?", [name])
        return rows[0][0] if rows else None

    def number(self, name: str) -> int:
        """A setting that is a count; 0 where there is none."""
        value = self.meta(name) or 0
        if not isinstance(value, int) or not 0 <= value < MOST:
            raise self.damaged(f"{name} is {value!r:.40}")
        return value

    def set_meta(self, name: str, value: Any) -> None:
        """Keep a setting."""
        with self.changing() as connection:
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", [name, value])

    def next_id(self) -> int:
        """The first id that was never used."""
        used = self._all("SELECT max(id) FROM items")[0][0] or 0
        highest = max(used, self.number("last_id"))
        if highest >= MOST:
            raise self.damaged("a number is too large")
        return int(highest) + 1

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

    def outdate(self, numbers: Iterable[int]) -> None:
        """Have pictures described again by the next update; until then they have no fingerprint."""
        with self.changing() as connection:
            sql = "UPDATE items SET changed = -1, fingerprint = x'' WHERE id = ?"
            connection.executemany(sql, [(number,) for number in numbers])
            _revise(connection)

    def forget_index(self) -> None:
        """There are no codes any more: all pictures are described again."""
        with self.changing() as connection:
            connection.execute("DELETE FROM meta WHERE name IN ('index', 'learned_from')")
        self.outdate(self.ids())

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

    def _item(self, row: Sequence[Any]) -> Item:
        """A row as a picture, if it is one below our folder."""
        try:
            item = Item(row[0], os.fsdecode(row[1]), *row[2:])
            sound = item.path.startswith(self._top) and os.path.normpath(item.path) == item.path
            sound = sound and item.id < MOST and _DIGEST.fullmatch(item.digest) is not None
            sound = sound and all(type(value) is kind for value, kind in zip(item, _TYPES, strict=True))
            datetime.fromisoformat(item.taken)
        except (TypeError, ValueError):
            sound = False
        if not sound:
            raise self.damaged(f"picture {row[0]} is not one below the folder")
        return item

    def _kind(self, kind: Any) -> int:
        if type(kind) is not int or not 0 <= kind < len(words.kinds()):
            raise self.damaged(f"no word has the number {kind!r:.20}")
        return kind


def _revise(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('revision', ?)", [token_hex(8)])
