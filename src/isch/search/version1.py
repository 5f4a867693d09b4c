"""Indexes of format version 1, which had one SQLite file for everything. docs/formats.md describes both.

They are read as they are, and turned into the present version by the first change. Everything in the old catalog is
checked on the way: each item against its checksum, each live row of a segment against the items.
"""

import hashlib
import re
import shutil
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.errors import FormatError, InputError
from isch.files import plain, sync
from isch.search import catalog as catalogs
from isch.search import items as item_files
from isch.search.catalog import Catalog, Key, SegmentRow
from isch.search.database import close, open_copy, using
from isch.search.items.sqlite import AT_ONCE, Item, metadata_from
from isch.search.sealed import CODES, SegmentFile
from isch.search.segments import write_dead

FILE = "catalog.sqlite"
FILES = (FILE, FILE + "-wal", FILE + "-shm")
NEW = re.compile(r"[0-9a-f]{16}\.(items|dead)")  # files that version 1 does not have
CHUNK_IDS = 65_536  # ids that a chunk of the bitmap of dead ids covers
SCHEMA = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    """CREATE TABLE segments (
    name TEXT PRIMARY KEY, first_id INTEGER NOT NULL, n_rows INTEGER NOT NULL,
    digest BLOB NOT NULL, features_digest BLOB
) WITHOUT ROWID""",
    "CREATE TABLE items (id INTEGER PRIMARY KEY, key NOT NULL UNIQUE, metadata TEXT, crc INTEGER NOT NULL)",
    "CREATE TABLE dead (chunk INTEGER PRIMARY KEY, bits BLOB NOT NULL)",
)

Ids = NDArray[np.int64]


def found(folder: Path) -> bool:
    """Whether a folder is an index of version 1."""
    return (folder / FILE).exists() and not (folder / catalogs.FILE).exists()


def convert(folder: Path, into: Path) -> Catalog:
    """Write the items and the marks of deleted rows as files of the present version; gives their catalog.

    Nothing of the old index is changed. SQLite works on a copy, so that neither a folder that cannot be written nor a
    journal that was left there matters.
    """
    with TemporaryDirectory(prefix="isch-") as place:
        copy = Path(place) / FILE
        for name in FILES[:2]:
            if name == FILE or (folder / name).exists():
                shutil.copyfile(plain(folder / name), copy.with_name(name))
        identity = hashlib.sha256(b"".join(p.read_bytes() for p in sorted(Path(place).iterdir()))).hexdigest()[:32]
        connection = open_copy(copy, folder / FILE, 1, SCHEMA)
        try:
            return _Old(folder, connection).converted(into, identity)
        finally:
            close(connection)


def upgrade(folder: Path) -> None:
    """Turn an index of version 1 into one of the present version, whose writer then removes the old catalog."""
    segments = folder / "segments"
    _remove_new(segments)  # what an upgrade left that was stopped
    try:
        catalog = convert(folder, segments)
        sync(segments)
        catalogs.write(folder, catalog)
    except BaseException:
        if found(folder):
            _remove_new(segments)
        raise


def _remove_new(segments: Path) -> None:
    for path in segments.iterdir():
        if NEW.fullmatch(path.name):
            path.unlink()


class _Old:
    """An old catalog that is being read."""

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self.folder, self.path, self._connection = folder, folder / FILE, connection
        for (line,) in self._fetch("PRAGMA integrity_check(1)"):
            if line != "ok":
                raise self._damaged(" ".join(line.split()))
        self._dead = dict(self._fetch("SELECT chunk, bits FROM dead"))
        for chunk, bits in self._dead.items():
            if not 0 <= chunk < 2**40 or type(bits) is not bytes or len(bits) != CHUNK_IDS // 8:
                raise self._damaged("the marks of its deleted items are not such marks")

    def converted(self, into: Path, identity: str) -> Catalog:
        """Write the new files; gives the new catalog."""
        catalog = catalogs.checked(self._values(identity), self.path)
        rows, count, last = list[SegmentRow](), 0, -1
        for row in catalog.segments:
            path = self.folder / "segments" / f"{row.name}.codes"
            ids = SegmentFile(path, CODES, (row.n_rows, catalog.n_bits), row.codes).ids()
            if ids[0] <= last or (np.diff(ids) <= 0).any():
                raise FormatError(f"{path}: the segment is damaged (its ids do not rise)")
            last = int(ids[-1])
            rows.append(self._segment(row, ids, into))
            count += rows[-1].n_live
        if self._fetch("SELECT count(*) FROM items") != [(count,)]:
            raise self._damaged(f"its segments hold {count} items, and it lists others")
        return replace(catalog, segments=tuple(rows))

    def _values(self, identity: str) -> dict[str, Any]:
        """What the new catalog has, with nothing yet in place of what is new."""
        meta = dict(self._fetch("SELECT name, value FROM meta"))
        rows = self._fetch("SELECT name, n_rows, digest, features_digest FROM segments ORDER BY first_id")
        return {
            "id": identity,
            **{name: meta.get(name) for name in ("n_bits", "n_features", "keep_features", "generation")},
            "model": _hexadecimal(meta.get("model_digest")),
            "added": meta.get("next_id"),
            "segments": [
                {
                    "name": name,
                    "n_rows": n_rows,
                    "codes": _hexadecimal(digest),
                    "features": _hexadecimal(features),
                    "items": "0" * 64,
                    "items_bytes": 1,
                    "dead": None,
                }
                for name, n_rows, digest, features in rows
            ],
        }

    def _segment(self, row: SegmentRow, ids: Ids, into: Path) -> SegmentRow:
        marks = self._marks(ids)
        table = self._table(ids, np.flatnonzero(~marks))
        kept = item_files.Kept(table, np.arange(row.n_rows))
        items, n_bytes = item_files.write(into / f"{row.name}.items", [kept], row.n_rows)
        dead = write_dead(into, token_hex(8), marks) if marks.any() else None
        return replace(row, items=items, items_bytes=n_bytes, dead=dead)

    def _marks(self, ids: Ids) -> NDArray[np.bool_]:
        """Which of some rising ids are dead."""
        marks = np.zeros(len(ids), np.bool_)
        for chunk, bits in self._dead.items():
            start, stop = np.searchsorted(ids, (chunk * CHUNK_IDS, (chunk + 1) * CHUNK_IDS))
            unpacked = np.unpackbits(np.frombuffer(bits, np.uint8)).view(np.bool_)
            marks[start:stop] = unpacked[ids[start:stop] - chunk * CHUNK_IDS]
        return marks

    def _table(self, ids: Ids, live: Ids) -> item_files.Table:
        """The items of a segment with these ids, of which some rows are alive."""
        found = list(self._items(ids, live))
        metadata = [metadata_from(text, self.path, row) for row, _, text in found]
        try:
            return item_files.Table(live, [key for _, key, _ in found], metadata, len(ids))
        except InputError as error:
            raise self._damaged(str(error)) from error

    def _items(self, ids: Ids, live: Ids) -> Iterator[Item]:
        """The items of a segment with these ids, of which some rows are alive."""
        sql = "SELECT id, key, metadata, crc FROM items WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?"
        for start in range(0, len(live), AT_ONCE):
            expected = live[start : start + AT_ONCE]
            wanted = ids[expected]
            found = self._fetch(sql, (int(wanted[0]), int(wanted[-1]), len(wanted) + 1))
            if [item for item, *_ in found] != wanted.tolist():
                raise self._damaged("its items are not those that its segments hold")
            for row, (item, key, metadata, crc) in zip(expected.tolist(), found, strict=True):
                if crc != checksum(item, key, metadata):
                    raise self._damaged(f"item {item} does not match its checksum")
                yield row, key, metadata

    def _fetch(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with using(self.path):
            return self._connection.execute(sql, parameters).fetchall()

    def _damaged(self, what: str) -> FormatError:
        return FormatError(f"{self.path}: the catalog is damaged ({what})")


def checksum(item: int, key: Key, metadata: str | None) -> int:
    """CRC-32 of an item."""
    return zlib.crc32(f"{item}\n{'i' if isinstance(key, int) else 's'}{key}\n{metadata or ''}".encode())


def _hexadecimal(digest: Any) -> Any:
    return digest.hex() if isinstance(digest, bytes) else digest
