"""Keys and metadata of an index: adding, filters and compaction, beside SQLite with the same rows.

python benchmarks/items.py              about three minutes, 1 GB of disk

The peer is a table (row, key, metadata as JSON) with a unique index on the key, written without a journal and synced,
as indexes of version 2 had it. It has no codes, so what the index does beside is counted against the index.
"""

import argparse
import gc
import json
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from report import machine, section, table

from isch import Index
from isch.search.snapshot import take

ROWS = 1_000_000  # a run with fewer is a trial: it prints and leaves the document alone
N_BITS, REPEATS = 256, 3
FILTERS: dict[str, tuple[Any, str, list[Any]]] = {
    "1 %": ({"album": "7"}, "json_extract(metadata, '$.album') = ?", ["7"]),
    "half": ({"year": {"<": 2008}}, "json_extract(metadata, '$.year') < ?", [2008]),
}
Metadata = list[dict[str, Any]]


def few_values(n: int) -> Metadata:
    """As albums and years of photographs."""
    return [{"album": str(i % 100), "year": 1990 + i % 35} for i in range(n)]


def own_values(n: int) -> Metadata:
    """A text and two numbers that no other row has."""
    order = np.random.default_rng(0).permutation(n).tolist()
    return [{"caption": f"picture {i} of many", "time": 1_600_000_000 + i, "score": i / n} for i in order]


def timed(function: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def in_turn(*functions: Callable[[], object]) -> list[float]:
    """The median time of each of functions that are called in turn."""
    return np.median([[timed(function) for function in functions] for _ in range(REPEATS)], axis=0).tolist()


def into_index(folder: Path, codes: np.ndarray, keys: list[str], metadata: Metadata) -> None:
    path = folder / f"{time.monotonic_ns()}.isch"
    with Index.create(path, n_bits=N_BITS) as index:
        index.add(codes, keys, metadata)


def into_sqlite(folder: Path, keys: list[str], metadata: Metadata) -> None:
    path = folder / f"{time.monotonic_ns()}.sqlite"
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE", "cache_size = -65536"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("BEGIN")
    connection.execute("CREATE TABLE items (row INTEGER PRIMARY KEY, key NOT NULL, metadata TEXT)")
    texts = (json.dumps(entry, ensure_ascii=False, allow_nan=False) for entry in metadata)
    connection.executemany("INSERT INTO items VALUES (?, ?, ?)", zip(range(len(keys)), keys, texts, strict=True))
    connection.execute("CREATE UNIQUE INDEX keys ON items (key)")
    connection.execute("COMMIT")
    connection.close()
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def adding(folder: Path, n: int) -> list[list[object]]:
    codes = np.random.default_rng(0).integers(0, 256, (n, N_BITS // 8), dtype=np.uint8)
    keys = [f"photos/{i % 1000:03d}/IMG_{i:08d}.jpg" for i in range(n)]
    lines: list[list[object]] = []
    into_index(folder, codes[:100], keys[:100], few_values(100))  # loads the kernels
    newest(folder, "*.isch", 0).rename(folder / "warm")
    for name, make in (("few values per field", few_values), ("each value once", own_values)):
        metadata = make(n)
        ours, theirs = in_turn(
            partial(into_index, folder, codes, keys, metadata), partial(into_sqlite, folder, keys, metadata)
        )
        lines.append([f"add, {name}", f"{n / ours:,.0f} rows/s", f"{theirs / ours:.1f} × SQLite"])
    return lines


def newest(folder: Path, pattern: str, number: int) -> Path:
    """One of the files of ``adding``, by the order of their making."""
    return sorted(folder.glob(pattern))[number]


def filtering(folder: Path) -> list[list[object]]:
    """The rows that a filter leaves: of an index just opened, again, and by reading the JSON of each row."""
    index, database = newest(folder, "*.isch", 0), newest(folder, "*.sqlite", 0)
    lines: list[list[object]] = []
    for name, (where, sql, parameters) in FILTERS.items():
        connection = sqlite3.connect(database)
        opened, known = [take(index) for _ in range(REPEATS)], take(index)
        known.allowed(where, None)
        first, again, scan = in_turn(
            lambda opened=opened, where=where: opened.pop().allowed(where, None),
            lambda where=where, known=known: known.allowed(where, None),
            lambda connection=connection, sql=sql, parameters=parameters: connection.execute(
                f"SELECT row FROM items WHERE {sql}", parameters
            ).fetchall(),
        )
        connection.close()
        text = f"again {again * 1e3:.2f} ms; {scan / first:,.0f} × SQLite"
        lines.append([f"`where` that leaves {name}, the first time", f"{first * 1e3:.1f} ms", text])
    return lines


def compacting(folder: Path, n: int) -> list[object]:
    """Without a seventh of the rows, beside VACUUM of the table."""
    gone = [f"photos/{i % 1000:03d}/IMG_{i:08d}.jpg" for i in range(0, n, 7)]
    ours, theirs = list[float](), list[float]()
    for number in range(REPEATS):
        with Index.open(newest(folder, "*.isch", number)) as index:
            index.delete(gone)
            ours.append(timed(index.compact))
        connection = sqlite3.connect(newest(folder, "*.sqlite", number), isolation_level=None)
        connection.execute("BEGIN")
        connection.executemany("DELETE FROM items WHERE key = ?", ([key] for key in gone))
        connection.execute("COMMIT")
        theirs.append(timed(lambda connection=connection: connection.execute("VACUUM")))
        connection.close()
    took = float(np.median(ours))
    return ["compact after deleting 1 of 7", f"{took:.2f} s", f"{np.median(theirs) / took:.1f} × SQLite"]


def sizes(folder: Path) -> list[object]:
    ours = next(iter((newest(folder, "*.isch", -1) / "segments").glob("*.items"))).stat().st_size
    theirs = newest(folder, "*.sqlite", -1).stat().st_size
    return ["size of the items, each value once", f"{ours / 2**20:.0f} MiB", f"{ours / theirs:.2f} of SQLite"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = [*adding(folder, rows), *filtering(folder), sizes(folder), compacting(folder, rows)]
    text = f"""## Keys and metadata

{rows:,} rows with keys like file names, and {N_BITS} bits each, which SQLite does not have. Medians of {REPEATS} rounds
in turn; "× SQLite" means so many times faster than a table of keys and JSON.

{table(["what", "", ""], lines)}

{machine()} SQLite {sqlite3.sqlite_version}."""
    print(text)
    if rows >= ROWS:
        section("items", text)


if __name__ == "__main__":
    main()
