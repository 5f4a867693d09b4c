import hashlib
import json
import sqlite3
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isch.errors import FormatError, IschError
from isch.search import items as files
from isch.search.database import APPLICATION_ID
from isch.search.filters import tests as parsed
from isch.search.items import sqlite
from isch.search.items.sqlite import SCHEMA, VERSION, Item
from isch.search.items.sqlite import SqliteItems as Items

KEYS = [1, "1", -(2**63), 2**63 - 1, "x\0y", "é", "", "../x", "'; DROP TABLE items; --"]


def write(path: Path, some: list[Item]) -> tuple[str, int]:
    """What version 2 wrote."""
    connection = sqlite3.connect(path)
    for statement in (f"PRAGMA application_id = {APPLICATION_ID}", f"PRAGMA user_version = {VERSION}", *SCHEMA):
        connection.execute(statement)
    with connection:
        connection.executemany("INSERT INTO items VALUES (?, ?, ?)", some)
    connection.close()
    return hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size


def opened(path: Path, some: list[Item], n_rows: int | None = None) -> Items:
    digest, n_bytes = write(path, some)
    return Items(path, len(some) if n_rows is None else n_rows, n_bytes, digest)


@pytest.fixture
def items(tmp_path: Path) -> Items:
    return opened(tmp_path / "x.items", [(i, key, json.dumps({"n": i})) for i, key in enumerate(KEYS)])


def test_what_is_written_is_read(items: Items) -> None:
    assert items.named([3, 0]) == {0: (1, {"n": 0}), 3: (2**63 - 1, {"n": 3})}
    assert items.find([*KEYS, "2", 2]) == {key: i for i, key in enumerate(KEYS)}
    assert items.find(["1", "2"]) == {"1": 1}
    assert [key for _, key, _ in items.all()] == KEYS
    assert items.matching(parsed({"n": {">": 6}})).tolist() == [7, 8]
    assert items.fields(None) == {"n"}
    assert items.largest_integer_key() == 2**63 - 1
    assert list(items.by_row()) == list(enumerate(KEYS))
    assert items.present().all()
    items.check()


def test_finding_is_the_same_by_lookup_and_by_reading_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items = opened(tmp_path / "x.items", [(i, f"k{i}" if i % 2 else i, None) for i in range(3000)])
    wanted = [f"k{i}" for i in range(1200)] + list(range(700, 1500))
    expected = {key: i for i in range(3000) for key in [f"k{i}" if i % 2 else i] if key in set(wanted)}
    for share in (0, 1):
        monkeypatch.setattr(sqlite, "SCAN_SHARE", share)
        assert items.find(wanted) == expected


def test_all_items_in_memory(tmp_path: Path) -> None:
    items = opened(tmp_path / "x.items", [(1, "b", '{"n": 1.0}'), (3, 7, None)], 5)
    digest, n_bytes = files.write(tmp_path / "y.items", [files.Kept(items.source(), np.arange(5))], 5)
    again = files.opened(tmp_path / "y.items", 5, n_bytes, digest)
    assert again.named([1, 3]) == items.named([1, 3]) == {1: ("b", {"n": 1.0}), 3: (7, None)}
    assert again.present().tolist() == items.present().tolist() == [False, True, False, True, False]


def test_a_segment_without_items_has_none_in_memory(tmp_path: Path) -> None:
    source = opened(tmp_path / "x.items", [], 5).source()
    assert list(source.texts()) == []
    assert source.shapes()[0].tolist() == [0] * 5


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": "\\ud800"}'])
def test_values_that_cannot_be_written_again_are_damage(tmp_path: Path, text: str) -> None:
    items = opened(tmp_path / "x.items", [(0, "a", text)])
    with pytest.raises(FormatError, match=f"^{items.path}: the items are damaged .the metadata of row 0"):
        items.source()


def test_reading_goes_on_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "AT_ONCE", 7)
    some: list[Item] = [(i, i, None) for i in range(0, 63, 3)]
    items = opened(tmp_path / "x.items", some, 63)
    assert list(items.all()) == some


def test_keys_in_order_are_integers_then_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "AT_ONCE", 4)
    keys = [*KEYS, "ß", "z", "Z", "\U0001f600", "\uffff", "a\0", "a", 0, -1]
    items = opened(tmp_path / "x.items", [(i, key, None) for i, key in enumerate(keys)])
    expected = sorted(keys, key=lambda key: (isinstance(key, str), key))
    assert [key for key, _ in items.sorted()] == expected
    assert [keys[row] for _, row in items.sorted()] == expected


@pytest.mark.parametrize("text", ['"; DROP TABLE items; --', "' OR '1'='1", "../../etc/passwd", "%s ? :x"])
def test_texts_are_data(tmp_path: Path, text: str) -> None:
    items = opened(tmp_path / "x.items", [(0, text, json.dumps({"f": text})), (1, "other", '{"f": 1}')])
    assert items.find([text]) == {text: 0}
    assert items.matching(parsed({"f": text})).tolist() == [0]
    assert items.matching(parsed({"f": [text, "?"]})).tolist() == [0]
    assert items.matching(parsed({text.replace('"', ""): text})).tolist() == []


def test_threads_read_together(items: Items) -> None:
    failures: list[str] = []

    def look() -> None:
        for i in range(200):
            if items.find([KEYS[i % 9]]) != {KEYS[i % 9]: i % 9} or items.named([i % 9])[i % 9][0] != KEYS[i % 9]:
                failures.append(f"wrong answer {i}")

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def craft(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        for statement in statements:
            connection.execute(statement)
    connection.close()


CRAFTED = {
    "view": [
        "DROP INDEX keys",
        "DROP TABLE items",
        "CREATE VIEW items AS SELECT 1 AS row, 'a' AS key, NULL AS metadata",
    ],
    "trigger": ["CREATE TRIGGER t AFTER INSERT ON items BEGIN SELECT 1; END"],
    "further table": ["CREATE TABLE t (x)"],
    "virtual table": ["CREATE VIRTUAL TABLE t USING fts5(x)"],
    "generated column": [
        "DROP TABLE items",
        "CREATE TABLE items (row INTEGER PRIMARY KEY, key NOT NULL AS (1), metadata TEXT)",
    ],
    "check": [
        "DROP TABLE items",
        "CREATE TABLE items (row INTEGER PRIMARY KEY, key NOT NULL, metadata TEXT CHECK (1))",
    ],
    "no index": ["DROP INDEX keys"],
    "expression index": ["DROP INDEX keys", "CREATE INDEX keys ON items (length(key))"],
    "no table": ["DROP TABLE items"],
    "other version": ["PRAGMA user_version = 1"],
    "other application": ["PRAGMA application_id = 1"],
    "nonsense in the schema": ["UPDATE sqlite_master SET sql = 'CREATE TABLE items (((' WHERE name = 'items'"],
    "attached": ["UPDATE sqlite_master SET sql = 'ATTACH ''/tmp/x'' AS y' WHERE name = 'keys'"],
}


@pytest.mark.parametrize("case", CRAFTED)
def test_other_tables_than_ours_are_refused(items: Items, case: str) -> None:
    craft(items.path, *CRAFTED[case])
    with pytest.raises(FormatError, match=f"^{items.path}: "):
        Items(items.path, 9, items.path.stat().st_size, "")


@pytest.mark.parametrize(
    ("statement", "call"),
    [
        ("UPDATE items SET metadata = '{' WHERE row = 2", lambda items: items.named([2])),
        ("UPDATE items SET metadata = '{' WHERE row = 2", lambda items: items.matching(parsed({"n": 1}))),
        ("UPDATE items SET metadata = '[1]' WHERE row = 2", lambda items: items.named([2])),
        ("UPDATE items SET metadata = printf('%.*c', 100000, '[') WHERE row = 2", lambda items: items.named([2])),
        ("UPDATE items SET metadata = x'ff' WHERE row = 2", lambda items: items.named([2])),
        ("UPDATE items SET metadata = CAST(x'ff' AS TEXT) WHERE row = 2", lambda items: items.named([2])),
        ("UPDATE items SET metadata = 1.5 WHERE row = 2", lambda items: items.named([2])),
        ("UPDATE items SET key = x'ff' WHERE row = 2", lambda items: list(items.all())),
        ("UPDATE items SET key = 1.5 WHERE row = 2", lambda items: items.named([2])),
        ("UPDATE items SET key = CAST(x'ff' AS TEXT) WHERE row = 2", lambda items: list(items.all())),
        ("DELETE FROM items WHERE row = 2", lambda items: items.named([1, 2])),
        ("UPDATE items SET row = 99 WHERE row = 2", lambda items: list(items.all())),
        ("UPDATE items SET row = 99 WHERE row = 2", lambda items: items.matching(parsed({}))),
        ("UPDATE items SET row = -5 WHERE row = 2", lambda items: items.find(["1", -(2**63)])),
    ],
)
def test_wrong_values_are_refused_when_they_are_met(
    items: Items, statement: str, call: Callable[[Items], object]
) -> None:
    craft(items.path, statement)
    with pytest.raises(FormatError, match=f"^{items.path}: .*"):
        call(Items(items.path, 9, items.path.stat().st_size, ""))


@contextmanager
def ours_or_none(path: Path) -> Iterator[None]:
    """No error, or one of ours that names the file in one line."""
    try:
        yield
    except IschError as error:
        if not str(error).startswith(f"{path}: ") or "\n" in str(error):
            raise AssertionError(str(error)) from error


def inner_page(children: list[int], size: int = 4096) -> bytes:
    """An inner page of a SQLite table."""
    cells = [struct.pack(">IB", child, i) for i, child in enumerate(children)]
    start = size - 5 * len(cells)
    header = struct.pack(">BHHHBI", 5, 0, len(cells), start, 0, children[-1])
    offsets = struct.pack(f">{len(cells)}H", *range(start, size, 5))
    return (header + offsets).ljust(start, b"\0") + b"".join(cells)


@pytest.mark.timeout(60)
def test_an_endless_tree_comes_to_an_end(tmp_path: Path) -> None:
    """Each page of this tree points 100 times at the next: a few pages that hold 100¹⁸ times some rows."""
    path = tmp_path / "x.items"
    digest, _ = write(path, [(i, f"key {i}", '{"n": 1}') for i in range(300)])
    data = bytearray(path.read_bytes())
    with sqlite3.connect(path) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'items'").fetchone()
    connection.close()
    (leaf,) = struct.unpack_from(">I", data, (root - 1) * 4096 + 8)
    first = len(data) // 4096 + 1
    for here, below in pairwise([root, *range(first, first + 17), leaf]):
        data[(here - 1) * 4096 : here * 4096] = inner_page(100 * [below])
    data[28:32] = struct.pack(">I", len(data) // 4096)
    path.write_bytes(data)
    with sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True) as connection:
        assert len(connection.execute("SELECT metadata FROM items").fetchmany(1_000_000)) == 1_000_000
    connection.close()
    items = Items(path, 300, len(data), digest)
    for call in (
        lambda: list(items.all()),
        lambda: items.matching(parsed({"n": 2})),
        lambda: items.matching(parsed({"n": 1})),
        lambda: items.find([f"key {i}" for i in range(300)]),
        lambda: items.named(range(300)),
        items.largest_integer_key,
        lambda: items.fields(None),
        lambda: list(items.sorted()),
        lambda: Items(path, 300, len(data), hashlib.sha256(data).hexdigest()).check(),
    ):
        with ours_or_none(path):
            call()


@pytest.mark.parametrize("suffix", ["-wal", "-journal", "-shm"])
def test_files_that_sqlite_would_look_at_are_not(items: Items, suffix: str) -> None:
    beside = items.path.with_name(items.path.name + suffix)
    beside.write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(5000))
    again = Items(items.path, 9, items.n_bytes, "")
    assert [key for _, key, _ in again.all()] == KEYS
    assert beside.stat().st_size == 5008


def test_no_flipped_byte_is_a_foreign_error(items: Items) -> None:
    whole, rng = items.path.read_bytes(), np.random.default_rng(0)
    places = sorted({*range(100), *rng.integers(0, len(whole), 150).tolist()})
    for place in places:
        items.path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])
        with ours_or_none(items.path):
            again = Items(items.path, 9, len(whole), "")
            list(again.all())
            again.find(KEYS[:2])
            again.named(range(9))
            again.matching(parsed({"n": {"<": 5}}))
            again.largest_integer_key()


def test_a_file_removed_while_it_is_opened_is_missing(items: Items, monkeypatch: pytest.MonkeyPatch) -> None:
    real = sqlite.open_immutable

    def removed(path: Path, *arguments: Any) -> Any:
        path.unlink()
        return real(path, *arguments)

    monkeypatch.setattr(sqlite, "open_immutable", removed)
    with pytest.raises(FileNotFoundError):
        Items(items.path, 9, items.n_bytes, "")


@pytest.mark.parametrize("size", [0, 1, 100, 4095, 4096, 8192])
def test_a_cut_file_is_refused_at_opening(items: Items, size: int) -> None:
    whole = items.path.read_bytes()
    items.path.write_bytes(whole[:size])
    with pytest.raises(FormatError, match=f"expected {len(whole)} bytes; got {size}"):
        Items(items.path, 9, len(whole), "")


def test_deep_metadata_is_refused(tmp_path: Path) -> None:
    depth = sys.getrecursionlimit() * 20
    items = opened(tmp_path / "x.items", [(0, "a", '{"a": ' * depth + "1" + "}" * depth)])
    with pytest.raises(FormatError, match="the metadata of row 0 are damaged"):
        items.named([0])
