"""Reading all of an index and comparing it with what it should be."""

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from isch import progress
from isch.errors import IschError
from isch.search.catalog import APPLICATION_ID, VERSION, checksum, is_dead, translated
from isch.search.folder import checked, digest
from isch.search.segments import check_body, codes_path, features_path
from isch.search.snapshot import Snapshot, take

MAGIC = b"SQLite format 3\0"


def problems(path: Path) -> list[str]:
    """A sentence for each problem of the index at ``path``."""
    try:
        snapshot = take(checked(path))
    except IschError as error:
        return [str(error)]
    found = [problem for check in (_model, _catalog, _header) for problem in _guarded(check, snapshot)]
    damaged = _guarded(_segments, snapshot)
    return found + (damaged or _guarded(_items, snapshot))


def _guarded(check: Callable[[Snapshot], Iterator[str]], snapshot: Snapshot) -> list[str]:
    """The problems a check tells, or dies of."""
    found: list[str] = []
    try:
        with translated(snapshot.catalog.path):
            for problem in check(snapshot):
                found.append(problem)
    except (IschError, OSError) as error:
        found.append(str(error))
    return found


def _model(snapshot: Snapshot) -> Iterator[str]:
    expected, path = snapshot.meta["model_digest"], snapshot.folder / "model.safetensors"
    if expected is not None and not path.is_file():
        yield f"{path}: the model is missing"
    elif expected is not None and digest(path) != expected:
        yield f"{path}: the model is damaged (it does not match its checksum)"


def _catalog(snapshot: Snapshot) -> Iterator[str]:
    for (line,) in snapshot.catalog.connection.execute("PRAGMA integrity_check"):
        if line != "ok":
            yield f"{snapshot.catalog.path}: the catalog is damaged ({line})"


def _header(snapshot: Snapshot) -> Iterator[str]:
    """SQLite trusts the 100 bytes at the start of its file; most have one right value, the rest must agree."""
    path = snapshot.catalog.path
    page = _first_bytes(path, 100)
    journal = path.with_name(path.name + "-wal")
    settled = not journal.exists() or journal.stat().st_size == 0
    for what, expected, found in _header_fields(page, snapshot, path.stat().st_size if settled else None):
        if found != expected:
            yield f"{path}: the header of the catalog is damaged ({what}: expected {expected!r}, got {found!r})"


_handles: dict[tuple[int, int], int] = {}


def _first_bytes(path: Path, count: int) -> bytes:
    """Read past SQLite. The handle stays open: closing it would drop every lock this process has on the file."""
    status = path.stat()
    inode = (status.st_dev, status.st_ino)
    if inode not in _handles:
        _handles[inode] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    return os.pread(_handles[inode], count, 0)


def _header_fields(page: bytes, snapshot: Snapshot, size: int | None) -> Iterator[tuple[str, object, object]]:
    page_bytes, fractions = struct.unpack_from(">H", page, 16)[0], page[18:24]
    words = struct.unpack_from(">19I", page, 24)
    major, minor, patch = map(int, str(snapshot.meta["sqlite"]).split("."))
    (actual_page_bytes,) = snapshot.catalog.connection.execute("PRAGMA page_size").fetchone()
    (largest_root,) = snapshot.catalog.connection.execute("SELECT max(rootpage) FROM sqlite_master").fetchone()
    yield "magic", MAGIC, page[:16]
    yield "page size", actual_page_bytes, 65_536 if page_bytes == 1 else page_bytes
    yield "versions and fractions", bytes([2, 2, 0, 64, 32, 32]), fractions
    yield "change counter", words[17], words[0]
    if size is not None:
        yield "pages", size // actual_page_bytes, words[1]
    yield "schema cookie", snapshot.meta["schema_cookie"], words[4]
    yield "schema format", 4, words[5]
    yield "cache size", 0, words[6]
    yield "largest root page", largest_root, words[7]
    yield "text encoding", 1, words[8]
    yield "format version", VERSION, words[9]
    yield "incremental vacuum", 1, words[10]
    yield "application id", APPLICATION_ID, words[11]
    yield "reserved space", bytes(20), page[72:92]
    if size is not None:
        yield "SQLite version", major * 1_000_000 + minor * 1000 + patch, words[18]


def _segments(snapshot: Snapshot) -> Iterator[str]:
    folder = snapshot.folder / "segments"
    with progress.task("verifying segments", len(snapshot.listed), "segments") as advance:
        for row in snapshot.listed:
            paths = [codes_path(folder, row.name)]
            if row.features_digest is not None:
                paths.append(features_path(folder, row.name))
            for path in paths:
                try:
                    check_body(path)
                except (IschError, OSError) as error:
                    yield str(error)
            advance(1)


def _items(snapshot: Snapshot) -> Iterator[str]:
    """Each live row of a segment is one item of the catalog, and no item is without a row."""
    ids = np.concatenate([np.empty(0, np.int64), *(segment.ids() for segment in snapshot.segments)])
    if (np.diff(ids) <= 0).any():
        yield f"{snapshot.folder}: the segments overlap"
        return
    live = ids[~is_dead(snapshot.dead, ids)]
    found = np.empty(len(live) + 1, np.int64)
    count = 0
    sql = "SELECT id, key, metadata, crc FROM items ORDER BY id"
    with progress.task("verifying items", len(live), "items") as advance:
        for count, (item, key, metadata, crc) in enumerate(snapshot.catalog.connection.execute(sql), 1):
            if checksum(item, key, metadata) != crc:
                yield f"{snapshot.catalog.path}: item {item} is damaged (it does not match its checksum)"
            found[min(count - 1, len(live))] = item
            if count % 10_000 == 0:
                advance(10_000)
    if count != len(live) or not np.array_equal(found[:count], live):
        yield f"{snapshot.folder}: the catalog has {count} items; its segments hold {len(live)}, or others"
    if count != len(snapshot) or (count and int(found[count - 1]) >= int(snapshot.meta["next_id"])):
        yield f"{snapshot.catalog.path}: the counters of the catalog do not match its {count} items"
