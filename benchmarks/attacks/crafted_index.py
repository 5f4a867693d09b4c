"""Indexes made to do harm, all their checksums being right. Each must be refused, at the latest by verify."""

import dataclasses
import hashlib
import json
import os
import shutil
import sqlite3
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from isch.search import catalog

HEADER_BYTES = 4096
HUGE = 2**62
SECTIONS = 11  # of an items file
Craft = Callable[[Path], object]


def change_catalog(change: Callable[[dict[str, Any]], object], folder: Path) -> None:
    """Change the catalog and seal it again."""
    path = folder / "catalog.json"
    content = json.loads(path.read_bytes())
    content.pop("checksum")
    change(content)
    text = (json.dumps(content) + "\n").encode()
    path.write_bytes((json.dumps({**content, "checksum": hashlib.sha256(text).hexdigest()}) + "\n").encode())


def change_first(changes: dict[str, Any], folder: Path) -> None:
    """Change what the catalog says of the first segment."""
    change_catalog(lambda catalog: catalog["segments"][0].update(changes), folder)


def file_of(folder: Path, kind: str) -> Path:
    """A file of the first segment."""
    row = json.loads((folder / "catalog.json").read_bytes())["segments"][0]
    return folder / "segments" / f"{row['dead']['name'] if kind == 'dead' else row['name']}.{kind}"


def list_digest(folder: Path, kind: str, digest: str) -> None:
    """Let the catalog expect a file of the first segment as it is."""
    if kind == "dead":
        change_catalog(lambda catalog: catalog["segments"][0]["dead"].update(digest=digest), folder)
    else:
        change_first({kind: digest}, folder)


def change_section(folder: Path, number: int, change: Callable[[Any], Any]) -> None:
    """Change the integers of a section of the items of the first segment."""
    import numpy as np

    def changed(body: bytes) -> bytes:
        start, count, width = np.frombuffer(body[-24 * SECTIONS :], "<u8").reshape(-1, 3)[number].tolist()
        values = change(np.frombuffer(body[start : start + count * width], f"<u{width}").copy())
        return body[:start] + values.astype(f"<u{width}").tobytes() + body[start + count * width :]

    change_body(folder, "items", changed)


def change_entry(folder: Path, number: int, entry: tuple[int, int, int]) -> None:
    """Change where a section of the items of the first segment lies."""
    first = -24 * (SECTIONS - number)
    new = struct.pack("<3Q", *entry)
    change_body(folder, "items", lambda body: body[:first] + new + body[len(body) + first + 24 :])


def change_items(folder: Path, *statements: str) -> None:
    """Change the items of the first segment, which are SQLite."""
    path = file_of(folder, "items")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        for statement in statements:
            connection.execute(statement)
    list_items(folder, path)


def list_items(folder: Path, path: Path) -> None:
    """Let the catalog expect the items as they are."""
    content = path.read_bytes()
    change_first({"items": hashlib.sha256(content).hexdigest(), "items_bytes": len(content)}, folder)


def endless_items(folder: Path) -> None:
    """A tree of which each page points 100 times at the next."""
    path = file_of(folder, "items")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE items SET metadata = printf('{\"x\": \"%.*c\"}', 900, 'x')")
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'items'").fetchone()
    data = bytearray(path.read_bytes())
    (leaf,) = struct.unpack_from(">I", data, (root - 1) * 4096 + 8)
    first = len(data) // 4096 + 1
    chain = [root, *range(first, first + 16), leaf]
    for here, below in pairwise(chain):
        cells = b"".join(struct.pack(">IB", below, i) for i in range(100))
        start = 4096 - len(cells)
        page = struct.pack(">BHHHBI100H", 5, 0, 100, start, 0, below, *range(start, 4096, 5))
        data[(here - 1) * 4096 : here * 4096] = page.ljust(start, b"\0") + cells
    data[28:32] = struct.pack(">I", len(data) // 4096)
    path.write_bytes(data)
    list_items(folder, path)


def read_header(path: Path) -> Any:
    """The header of a file as it is."""
    from isch.search import sealed

    return sealed.read_header(path)[0]


def change_header(folder: Path, part: str, changes: dict[str, Any]) -> None:
    """Change the header of a file."""
    path = file_of(folder, part)
    header = read_header(path)
    page = dataclasses.replace(header, **changes).encode()
    path.write_bytes(page + path.read_bytes()[HEADER_BYTES:])
    list_digest(folder, part, page[-32:].hex())


def change_body(folder: Path, kind: str, change: Callable[[bytes], bytes]) -> None:
    """Change the content of a file."""
    path = file_of(folder, kind)
    header = read_header(path)
    body = change(path.read_bytes()[HEADER_BYTES:])
    page = dataclasses.replace(header, body_bytes=len(body), body_digest=hashlib.sha256(body).digest()).encode()
    path.write_bytes(page + body)
    list_digest(folder, kind, page[-32:].hex())


def replace_by(folder: Path, name: str, kind: str) -> None:
    """A link, folder or pipe in the place of a file."""
    path = folder / name if (folder / name).exists() or "." in name else file_of(folder, name)
    aside = folder.parent / f"{folder.name}.aside"
    if path.exists():
        path.rename(aside)
    if kind == "link":
        path.symlink_to(aside)
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)


def second_key(folder: Path) -> None:
    """The key of an item in another segment."""
    change_items(folder, "UPDATE items SET key = 50 WHERE row = 5")


CATALOGS: dict[str, Callable[[dict[str, Any]], object]] = {
    "no-bits": lambda c: c.update(n_bits=0),
    "other-bits": lambda c: c.update(n_bits=22),
    "endless-bits": lambda c: c.update(n_bits=2**31),
    "real-bits": lambda c: c.update(n_bits=21.0),
    "other-features": lambda c: c.update(n_features=5),
    "endless-features": lambda c: c.update(n_features=2**31),
    "other-precision": lambda c: c.update(keep_features="float32"),
    "objects": lambda c: c.update(keep_features="O"),
    "no-features": lambda c: c.update(keep_features=None),
    "no-model": lambda c: c.update(model=None),
    "other-model": lambda c: c.update(model="0" * 64),
    "negative": lambda c: c.update(generation=-1),
    "enormous": lambda c: c.update(added=10**300),
    "list-of-nothing": lambda c: c.update(segments=[None]),
    "segment-twice": lambda c: c["segments"].append(c["segments"][0]),
    "segment-outside": lambda c: c["segments"][0].update(name="../../x.isch/segments/0000000000000000"),
    "segment-absolute": lambda c: c["segments"][0].update(name="/etc/passwd"),
    "segment-missing": lambda c: c["segments"][0].update(name="0" * 16),
    "dead-outside": lambda c: c["segments"][0]["dead"].update(name="../" + "0" * 16),
    "dead-forgotten": lambda c: c["segments"][0]["dead"].update(count=1),
    "all-dead": lambda c: c["segments"][0]["dead"].update(count=40),
    "dead-of-another": lambda c: c["segments"][0].update(dead=c["segments"][1]["dead"]),
    "fewer-rows": lambda c: c["segments"][0].update(n_rows=39),
    "more-rows": lambda c: c["segments"][0].update(n_rows=41),
    "endless-rows": lambda c: c["segments"][0].update(n_rows=2**48),
    "codes-of-another": lambda c: c["segments"][0].update(codes=c["segments"][1]["codes"]),
    "items-shorter": lambda c: c["segments"][0].update(items_bytes=4096),
    "newer": lambda c: c.update(version=catalog.READABLE[-1] + 1),
    "older": lambda c: c.update(version=1),
    "further": lambda c: c.update(hook="os.system"),
}

ITEMS: dict[str, tuple[str, ...]] = {
    "view": ("DROP TABLE items", "CREATE VIEW items AS SELECT 1 AS row, 'a' AS key, NULL AS metadata"),
    "trigger": ("CREATE TRIGGER t AFTER INSERT ON items BEGIN SELECT 1; END",),
    "further-table": ("CREATE TABLE t (x)",),
    "virtual-table": ("CREATE VIRTUAL TABLE t USING fts5(x)",),
    "generated-column": ("DROP TABLE items", "CREATE TABLE items (row INTEGER PRIMARY KEY, key AS (1), metadata TEXT)"),
    "no-index": ("DROP INDEX keys",),
    "index-by-expression": ("DROP INDEX keys", "CREATE INDEX keys ON items (length(key))"),
    "attached": ("UPDATE sqlite_master SET sql = 'ATTACH ''/tmp/x'' AS y' WHERE name = 'keys'",),
    "schema-of-nonsense": ("UPDATE sqlite_master SET sql = 'CREATE TABLE items (((' WHERE name = 'items'",),
    "other-version": ("PRAGMA user_version = 7",),
    "other-application": ("PRAGMA application_id = 7",),
    "no-items": ("DELETE FROM items",),
    "item-missing": ("DELETE FROM items WHERE row = 5",),
    "row-beyond": ("UPDATE items SET row = 99 WHERE row = 5",),
    "row-negative": ("UPDATE items SET row = -1 WHERE row = 5",),
    "key-of-bytes": ("UPDATE items SET key = x'ff' WHERE row = 5",),
    "key-real": ("UPDATE items SET key = 1.5 WHERE row = 5",),
    "key-not-text": ("UPDATE items SET key = CAST(x'ff' AS TEXT) WHERE row = 5",),
    "metadata-not-json": ("UPDATE items SET metadata = '{' WHERE row = 5",),
    "metadata-list": ("UPDATE items SET metadata = '[]' WHERE row = 5",),
    "metadata-bytes": ("UPDATE items SET metadata = x'ff' WHERE row = 5",),
    "metadata-deep": ("UPDATE items SET metadata = printf('%.*c', 50000, '[') WHERE row = 5",),
    "index-of-others": ("UPDATE sqlite_master SET rootpage = 2 WHERE name = 'keys'",),
    "table-nowhere": ("UPDATE sqlite_master SET rootpage = 999999 WHERE name = 'items'",),
}

HEADERS: dict[str, dict[str, Any]] = {
    "no-rows": {"n_rows": 0},
    "endless-rows": {"n_rows": HUGE},
    "no-columns": {"n_columns": 0},
    "endless-columns": {"n_columns": 2**32 - 1},
    "endless-body": {"body_bytes": HUGE},
    "endless-ids": {"ids_bytes": HUGE},
    "wrapping-body": {"body_bytes": 2**64 - 8, "ids_bytes": 4096},
    "other-values": {"item_bytes": 3},
    "unknown-kind": {"kind": 99},
}

VALUES: dict[str, tuple[int, Callable[[Any], Any]]] = {  # the number of a section, and what becomes of its integers
    "keys-empty": (2, lambda values: values * 0),
    "keys-outside": (2, lambda values: values | 255),
    "keys-falling": (2, lambda values: values[::-1]),
    "rows-beyond": (3, lambda values: values + 60),
    "rows-twice": (3, lambda values: values * 0),
    "places-none": (4, lambda values: values * 0 + 40),
    "places-beyond": (4, lambda values: values | 255),
    "places-others": (4, lambda values: values[::-1]),
    "no-metadata": (5, lambda values: values * 0),
    "unknown-shapes": (5, lambda values: values | 255),
    "shapes-falling": (6, lambda values: values[::-1]),
    "unknown-fields": (7, lambda values: values | 255),
    "fields-twice": (7, lambda values: values * 0),
    "names-empty": (9, lambda values: values * 0),
    "columns-nowhere": (10, lambda values: values * 0),
    "columns-outside": (10, lambda values: values + HUGE),
    "columns-others": (10, lambda values: values[::-1]),
}

ENTRIES = {"outside": (HUGE, 1, 1), "endless": (0, HUGE, 8), "odd": (0, 1, 3), "askew": (1, 8, 1)}

PLACES = ("catalog.json", "model.safetensors", "segments", "codes", "items", "features", "dead")


def crafts() -> Iterator[tuple[str, Craft]]:
    """(name, what makes a good copy bad)."""
    for name, change in CATALOGS.items():
        yield f"catalog-{name}", partial(change_catalog, change)
    for name, (number, values) in VALUES.items():
        yield f"items-{name}", partial(change_section, number=number, change=values)
    for name, entry in ENTRIES.items():
        for number in range(SECTIONS):
            yield f"items-section-{number}-{name}", partial(change_entry, number=number, entry=entry)
    for kind in ("codes", "features", "dead", "items"):
        for name, changes in HEADERS.items():
            yield f"{kind}-{name}", partial(change_header, part=kind, changes=changes)
    for place in PLACES:
        for kind in ("link", "folder", "pipe"):
            if (place, kind) != ("segments", "folder"):
                yield f"{kind}-for-{place}", partial(replace_by, name=place, kind=kind)
    yield "items-none", partial(change_body, kind="items", change=lambda body: bytes(len(body)))
    yield "items-not-unicode", partial(change_body, kind="items", change=lambda body: body.replace(b"\xc3", b"\xff"))
    yield "items-not-numbers", partial(change_body, kind="items", change=lambda body: body.replace(b"0123", b"0x23"))
    yield "codes-behind-the-last-bit", partial(change_body, kind="codes", change=lambda body: bytes([255]) * len(body))
    yield "codes-none", partial(change_body, kind="codes", change=lambda body: b"")
    yield "codes-longer", partial(change_body, kind="codes", change=lambda body: body * 2)
    yield "features-shorter", partial(change_body, kind="features", change=lambda body: body[:-2])
    yield "dead-all", partial(change_body, kind="dead", change=lambda body: b"\xff" * len(body))
    yield "dead-none", partial(change_body, kind="dead", change=lambda body: bytes(len(body)))
    yield "dead-others", partial(change_body, kind="dead", change=lambda body: body[1:] + body[:1] + b"x")
    yield "lock-link", lambda folder: (folder / "lock").unlink() or (folder / "lock").symlink_to(folder.parent / "made")
    yield "deep-catalog", lambda folder: (folder / "catalog.json").write_bytes(b"[" * 200_000)
    yield "empty-catalog", lambda folder: (folder / "catalog.json").write_bytes(b"")


def second_version() -> Iterator[tuple[str, Craft]]:
    """The same for an index of version 2, whose items are SQLite."""
    for name, statements in ITEMS.items():
        yield f"items-{name}", lambda folder, statements=statements: change_items(folder, *statements)
    yield "items-endless", endless_items
    yield "items-key-twice", second_key


FACTORS: dict[str, Callable[[dict[str, Any]], object]] = {
    "float16-instead": lambda c: c.update(keep_features="float16", version=3),
    "of-version-3": lambda c: c.update(version=3),
    "forgotten": lambda c: c.update(keep_features=None, version=3),
    "without-model": lambda c: c.update(model=None),
}


def factors() -> Iterator[tuple[str, Craft]]:
    """The same for an index with factors, where it differs from others."""
    for name, change in FACTORS.items():
        yield f"factors-{name}", partial(change_catalog, change)
    for name, changes in HEADERS.items():
        yield f"factors-{name}", partial(change_header, part="features", changes=changes)
    yield "factors-three", partial(change_header, part="features", changes={"n_columns": 3})
    yield "factors-shorter", partial(change_body, kind="features", change=lambda body: body[:-2])
    yield "factors-longer", partial(change_body, kind="features", change=lambda body: body * 2)


def crafted(folder: Path) -> Iterator[Path]:
    """Write each crafted index in its turn."""
    from attacks.index import make

    return copies(folder, make(folder), crafts())


def crafted_second(folder: Path) -> Iterator[Path]:
    """Write each crafted index of version 2 in its turn."""
    from attacks.index import make_second_version

    return copies(folder, make_second_version(folder), second_version())


def crafted_factors(folder: Path) -> Iterator[Path]:
    """Write each crafted index with factors in its turn."""
    from attacks.index import make_factors

    return copies(folder, make_factors(folder), factors())


def copies(folder: Path, good: Path, harm: Iterable[tuple[str, Craft]]) -> Iterator[Path]:
    """Good copies of an index, each made bad."""
    for name, craft in harm:
        bad = folder / f"{name}.isch"
        shutil.copytree(good, bad)
        craft(bad)
        yield bad
