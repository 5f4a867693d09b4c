"""All pairs within a radius, and groups of them, against comparing every two codes: with our own kernel and with faiss.

    python benchmarks/pairs.py join | growth | radius | groups [--rows N]

Comparing every two codes would take minutes to hours, so some rows are searched among all, and the time is scaled to
all rows; ours is halved, since each pair is needed once. ``growth`` takes ten times the rows, each size in a process of
its own.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import report
import search
from numpy.typing import NDArray

from isch import compute
from isch.errors import InputError
from isch.join.groups import groups, near_groups
from isch.join.pairs import Pairs, near, pairs_within
from isch.scan.exact import CodeTable, within

Codes = NDArray[np.uint8]

BITS, RADIUS, ROWS = 256, 8, 1_000_000
OURS_AT_ONCE, FAISS_AT_ONCE, CHECKED = 2048, 256, 100_000


def taken(function: Callable[[], object]) -> float:
    """The less of two times, after a warm-up on whatever was compiled before."""
    times = []
    for _ in range(2):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def planted(n: int, bits: int = BITS) -> Codes:
    """Random codes, of which one in a hundred is another's copy with up to five bits changed."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (n, bits // 8), dtype=np.uint8)
    source, copy = rng.integers(0, n, (2, n // 100))
    codes[copy] = codes[source]
    for _ in range(5):
        codes[copy, rng.integers(0, bits // 8, len(copy))] ^= (1 << rng.integers(0, 8, len(copy))).astype(np.uint8)
    return codes


def digits(n: int) -> Codes:
    """ISCH codes of shifted digits."""
    return search.real_codes("mnist", BITS)[1][:n]


def every_two(codes: Codes, radius: int) -> tuple[float, float]:
    """Seconds to compare every two codes: with our radius search, and with faiss."""
    table, index = CodeTable(codes), search.faiss_index(codes)
    n_ours, n_faiss = (min(n, len(codes)) for n in (OURS_AT_ONCE, FAISS_AT_ONCE))
    within(codes[:8], table, radius)
    ours = taken(lambda: within(codes[:n_ours], table, radius)) * len(codes) / n_ours / 2
    theirs = taken(lambda: index.range_search(codes[:n_faiss], radius + 1)) * len(codes) / n_faiss
    return ours, theirs


def same(codes: Codes, radius: int) -> bool:
    """Whether a join finds among some codes what comparing every two finds."""
    some = codes[:CHECKED]
    found, hits = pairs_within(some, radius, method="join"), within(some, some, radius)
    queries = np.repeat(np.arange(len(some)), np.diff(hits.offsets))
    later = hits.rows > queries
    order = np.lexsort((hits.rows[later], queries[later]))
    expected = (queries[later][order], hits.rows[later][order], hits.distances[later][order])
    return all(np.array_equal(column, wanted) for column, wanted in zip(found, expected, strict=True))


def join(n: int) -> str:
    """A million codes of 256 bits."""
    rows: list[list[object]] = []
    for kind, codes in (("random", planted(n)), ("real (MNIST)", digits(n))):
        for radius in (RADIUS, 2 * RADIUS):
            equal, (scan, peer), found = same(codes, radius), every_two(codes, radius), near(codes, radius)
            ours, count = taken(partial(pairs_within, codes, radius)), len(found.pairs.first)
            rows.append([kind, n, radius, count, ours, scan, f"**{scan / ours:.0f}**", peer / ours, equal])
            print(*rows[-1], found.plan, sep="; ", flush=True)
    header = ["codes", "rows", "radius", "pairs", "isch, s", "every two, s", "every two / isch", "faiss / isch"]
    return report.table([*header, "equal"], rows)


def growth(n: int) -> str:
    """One size after the other, each in its own process, with the memory it takes beyond the codes."""
    rows: list[list[object]] = []
    for size in (n, 3 * n, 10 * n):
        command = [sys.executable, __file__, "one", "--rows", str(size)]
        done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE)
        one = json.loads(done.stdout)
        per_row = one["seconds"] / size * 1e6
        rows.append([size, one["pairs"], one["seconds"], per_row, one["peak"] / 1e9, one["codes"] / 1e9])
        print(*rows[-1], flush=True)
    header = ["rows", "pairs", "seconds", "µs per row", "peak memory of the process, GB", "of it the codes, GB"]
    ratio = float(str(rows[-1][3])) / float(str(rows[0][3]))
    return (
        f"{report.table(header, rows)}\n\nTen times the rows take {ratio:.2f} times as long per row (limit: linear, 1)."
    )


def one(n: int) -> None:
    """One size: seconds, pairs and memory, as JSON."""
    codes = planted(n)
    pairs_within(codes[:CHECKED], RADIUS, method="join")
    start = time.perf_counter()
    found = pairs_within(codes, RADIUS)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "pairs": len(found.first), "peak": peak, "codes": codes.nbytes}))


def radius(n: int) -> str:
    """Where the join stops being quicker than the scan, and whether the planner knows."""
    n = n // 5
    rows: list[list[object]] = []
    for kind, codes in (("random", planted(n)), ("real (MNIST)", digits(n))):
        for r in (2, 4, 8, 16, 24, 32, 48):
            try:
                plan = near(codes, r).plan
            except InputError as error:
                print(kind, r, error, flush=True)
                continue
            seconds = taken(partial(near, codes, r))
            scan, _ = every_two(codes, r)
            parts = "–" if plan.division is None else len(plan.division.masks)
            rows.append([kind, n, r, plan.method, parts, seconds, scan, f"**{scan / seconds:.1f}**"])
            print(*rows[-1], flush=True)
    header = ["codes", "rows", "radius", "planner takes", "parts", "isch, s", "every two, s", "every two / isch"]
    return report.table(header, rows)


def grouping(n: int) -> str:
    """Groups of a million items, and of codes that are all equal, against finding their pairs."""
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, n, (2, n // 2))
    kept = first < second
    pairs = Pairs(first[kept], second[kept], rng.integers(0, RADIUS, int(kept.sum())).astype(np.int32))
    codes = planted(n)
    cases: dict[str, tuple[Callable[[], list[object]], Callable[[], object]]] = {
        "random pairs": (lambda: list(groups(pairs, n, RADIUS)), lambda: np.lexsort((pairs.second, pairs.first))),
        "codes, one in a hundred a copy": (lambda: list(near_groups(codes, RADIUS)), lambda: near(codes, RADIUS)),
        "equal codes": (lambda: list(near_groups(codes * 0, RADIUS)), lambda: np.sort(codes[:, 0])),
    }
    rows: list[list[object]] = []
    for name, (function, limit) in cases.items():
        found = function()
        ours, least = taken(function), taken(limit)
        rows.append([name, n, len(found), ours, least, least / ours])
        print(*rows[-1], flush=True)
    header = ["what", "items", "groups", "isch, s", "limit, s", "limit / isch"]
    note = "The limits: sorting the pairs; finding the pairs; sorting one byte per code."
    return f"{report.table(header, rows)}\n\n{note}"


PARTS: dict[str, tuple[str, Callable[[int], str]]] = {
    "join": ("All pairs within a radius, 256 bits", join),
    "growth": ("All pairs within radius 8, 256 bits: growth and memory", growth),
    "radius": ("All pairs: the planner by radius, 256 bits", radius),
    "groups": ("Groups bounded in diameter", grouping),
}


def main() -> None:
    """Print the parts asked for and record them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--rows", type=int, default=ROWS)
    asked = parser.parse_args()
    if asked.parts == ["one"]:
        one(asked.rows)
        return
    for part in asked.parts:
        title, measure = PARTS[part]
        text = measure(asked.rows)
        machine = report.machine("faiss-cpu")
        report.section(f"pairs-{part}", f"## {title}\n\n{text}\n\nAll on {compute.n_threads()} threads. {machine}")
        print(text)


if __name__ == "__main__":
    main()
