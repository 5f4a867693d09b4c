"""Multi-index hashing against a scan of all codes: where lookups begin to pay, by rows and radius.

    python benchmarks/multi_index.py crossing | real | index [--rows N ...]

Each cell is the time of a scan over that of lookups, for batches of 256 queries and for one query. 100 million and a
billion codes are planned by the formula of the planner, scaled by what was measured at the largest size.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import report
import search
from numpy.typing import NDArray

from isch import Index, compute
from isch.lookup import shapes
from isch.lookup.multi_index import MOST_MEMORY, MultiIndex
from isch.scan.costs import pair_cost
from isch.scan.exact import CodeTable, within

Codes = NDArray[np.uint8]

BITS, BATCH = 256, 256
RADII = (4, 8, 16, 24, 32)
ROWS = (100_000, 1_000_000, 10_000_000, 30_000_000)
PLANNED = (100_000_000, 1_000_000_000)


def random_codes(n: int) -> Codes:
    """Uniformly random codes."""
    return np.random.default_rng(0).integers(0, 256, (n, BITS // 8), dtype=np.uint8)


def near_queries(codes: Codes, n: int = BATCH) -> Codes:
    """Some of the codes, with a few bits changed."""
    rng = np.random.default_rng(1)
    queries = codes[rng.integers(0, len(codes), n)].copy()
    queries[:, :2] ^= rng.integers(0, 4, (n, 2), dtype=np.uint8)
    return queries


def compare(codes: Codes, radius: int) -> list[object]:
    """Build for a radius, then lookups against a scan: batch and single."""
    laid_out = CodeTable(codes)
    start = time.perf_counter()
    index = MultiIndex(laid_out, radius)
    built, table, queries = time.perf_counter() - start, index.table, near_queries(codes)
    found, expected = index.within(queries, radius), within(queries, table, radius)
    same = all(np.array_equal(column, wanted) for column, wanted in zip(found, expected, strict=True))
    cells: list[object] = []
    for batch in (queries, queries[:1]):
        lookups = search.seconds(partial(index.within, batch, radius), 3)
        scan = search.seconds(partial(within, batch, table, radius), 3)
        taken = "lookups" if index.takes_tables(radius, len(batch)) else "scan"
        cells += [1e6 * lookups / len(batch), 1e6 * scan / len(batch), f"**{scan / lookups:.2g}**", taken]
    shape, size = index.shape, index.shape.n_bytes / codes.nbytes
    return [len(codes), radius, f"{shape.n_parts} × {shape.width}", size, built, *cells, same]


def measured(codes_of: Callable[[int], Codes], sizes: tuple[int, ...]) -> tuple[str, list[list[object]]]:
    """A table, and its rows."""
    rows: list[list[object]] = []
    for n in sizes:
        codes = codes_of(n)
        for radius in RADII:
            rows.append(compare(codes, radius))
            print(*rows[-1], flush=True)
    one = ["lookups, µs", "scan, µs", "scan / lookups", "planner takes"]
    header = ["rows", "radius", "parts × bits", "tables / codes", "built, s", *[f"{c} ({BATCH} queries)" for c in one]]
    return report.table([*header, *[f"{c} (one query)" for c in one], "equal"], rows), rows


def crossing(sizes: tuple[int, ...]) -> str:
    """Random codes, and larger collections by formula."""
    text, rows = measured(random_codes, sizes)
    largest = {int(str(row[1])): row for row in rows if row[0] == sizes[-1]}
    planned: list[list[object]] = []
    for n in PLANNED:
        for radius in RADII:
            small, large = (shapes.best(size, BITS, radius, MOST_MEMORY * size * BITS // 8) for size in (sizes[-1], n))
            factor = float(str(largest[radius][5])) / (small.cost(radius) / 1e3)
            lookups, scan = factor * large.cost(radius) / 1e3, float(str(largest[radius][6])) * n / sizes[-1]
            planned.append([n, radius, f"{large.n_parts} × {large.width}", lookups, scan, f"**{scan / lookups:.2g}**"])
    header = ["rows", "radius", "parts × bits", "lookups, µs", "scan, µs", "scan / lookups"]
    note = f"Planned from the figures at {sizes[-1]:,} rows, batches of {BATCH}:"
    return f"{text}\n\n{note}\n\n{report.table(header, planned)}"


def real(sizes: tuple[int, ...]) -> str:
    """ISCH codes of shifted digits, at most a million."""
    return measured(lambda n: search.real_codes("mnist", BITS)[1][:n], tuple(n for n in sizes if n <= 1_000_000))[0]


def index(sizes: tuple[int, ...]) -> str:
    """One query after the other within a radius of an index, before and after tables are built."""
    rows: list[list[object]] = []
    for n in sizes:
        codes = random_codes(n)
        with tempfile.TemporaryDirectory() as folder, Index.create(f"{folder}/x.isch", n_bits=BITS) as made:
            made.add(codes)
            queries = near_queries(codes)
            for radius in RADII:
                with Index.open(made.path) as opened:
                    rows.append([n, radius, *before_and_after(opened, queries, radius)])
                    print(*rows[-1], flush=True)
    header = ["rows", "radius", "scan, ms", "building tables, s", "lookups, ms"]
    return report.table([*header, "scan / lookups", "equal"], rows)


def before_and_after(opened: Index, queries: Codes, radius: int) -> list[object]:
    """Times of single searches before and after the tables are built, and of building them."""
    found = list[object]()
    again = list[object]()
    scan = search.in_turn([lambda: found.append(opened.within(queries[len(found) % len(queries)], radius))], BATCH)[0]
    start = time.perf_counter()
    opened.accelerate(radius)
    building = time.perf_counter() - start
    lookups = search.in_turn([lambda: again.append(opened.within(queries[len(again) % len(queries)], radius))], BATCH)[
        0
    ]
    same = all(one == other for one, other in zip(found, again, strict=False))
    return [1e3 * scan, building, 1e3 * lookups, f"**{scan / lookups:.2g}**", same]


PARTS: dict[str, tuple[str, Callable[[tuple[int, ...]], str]]] = {
    "crossing": ("Multi-index hashing against a scan: random codes of 256 bits", crossing),
    "index": ("Multi-index hashing in an index: one query after the other, random codes of 256 bits", index),
    "real": ("Multi-index hashing against a scan: real codes (MNIST) of 256 bits", real),
}


def main() -> None:
    """Print the parts asked for and record them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    asked = parser.parse_args()
    for part in asked.parts:
        title, measure = PARTS[part]
        text = measure(tuple(asked.rows))
        cost = f"The planner reckons with {pair_cost(BITS // 64):.2g} ns per code and query of a batch for a scan."
        machine = f"All on {compute.n_threads()} threads. {report.machine()}"
        report.section(f"multi-index-{part}", f"## {title}\n\n{text}\n\n{cost} {machine}")
        print(text)


if __name__ == "__main__":
    main()
