"""The index on disk: adding, opening 10 million codes, and what re-ranking adds to a scan.

python benchmarks/index.py              about two minutes, 2 GB of disk
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from report import machine, section, table

from isch import LSH, CodeTable, Index, nearest
from isch.search import rerank
from isch.search.intake import Queries
from isch.search.snapshot import take

ROWS = 10_000_000  # a run with fewer is a trial: it prints and leaves the document alone
N_BITS, BATCH, K = 256, 256, 10

OPENING = """
import time
import resource
from pathlib import Path
from isch import Index
import isch.search.index
def resident():
    return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmRSS")))
def read():
    return int(next(line.split()[1] for line in open("/proc/self/io") if line.startswith("read_bytes")))
before, disk, start = resident(), read(), time.perf_counter()
index = Index.open({path!r})
took = time.perf_counter() - start
print(took, len(index), resident() - before, read() - disk)
"""

FIRST = """
import sys
import time
import numpy as np
from isch import Index
index, queries = Index.open({path!r}, verify=sys.argv[1]), np.load({queries!r})
start = time.perf_counter()
index.search(queries, 10)
print(time.perf_counter() - start)
"""
FIRST_ROUNDS = 15
VERIFY = ("never", "first use", "before")


def side_by_side(*functions: Callable[[], object], repeats: int = 25) -> NDArray[np.float64]:
    """Times (repeats, functions) of functions called in turn: a slow moment of the machine falls on all of them."""
    return np.array([[_timed(function) for function in functions] for _ in range(repeats + 1)])[1:]


def _timed(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def adding(folder: Path, n: int) -> tuple[Path, list[list[object]]]:
    """Build the index that is then opened; also a smaller one with names."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (n, N_BITS // 8), dtype=np.uint8)
    lines: list[list[object]] = []
    few = n // 10
    cases = {
        f"{few:,} codes, keys like file names, metadata": (
            codes[:few],
            [f"photos/{i % 1000:03d}/IMG_{i:08d}.jpg" for i in range(few)],
            [{"album": str(i % 100), "year": 1990 + i % 35} for i in range(few)],
        ),
        f"{n:,} codes, numbered": (codes, None, None),
    }
    warm(folder / "warm.isch", codes)
    for number, (name, (rows, keys, metadata)) in enumerate(cases.items()):
        with Index.create(folder / f"{number}.isch", n_bits=N_BITS) as index:
            start = time.perf_counter()
            index.add(rows, keys, metadata)
            took = time.perf_counter() - start
            lines.append([f"add {name}", f"{took:.1f} s", f"{len(rows) / took:,.0f} rows/s"])
            if metadata is not None:
                lines += filtering(index, rows[:1])
    return folder / "1.isch", lines


def warm(path: Path, codes: np.ndarray) -> None:
    """Load the kernels, so that what is measured first does not pay for it."""
    with Index.create(path, n_bits=N_BITS) as index:
        index.add(codes[:10_000], metadata=[{"album": str(i % 100), "year": 1990 + i % 35} for i in range(10_000)])
        filtering(index, codes[:1])


def filtering(index: Index, query: np.ndarray) -> list[list[object]]:
    lines: list[list[object]] = []
    for name, where in (("1 %", {"album": "7"}), ("half", {"year": {"<": 2008}})):
        start = time.perf_counter()
        index.search(query, K, where=where)
        first = time.perf_counter() - start
        again = np.median(side_by_side(partial(index.search, query, K, where=where)))
        lines.append(
            [f"one query, `where` that leaves {name}", f"{first * 1e3:.1f} ms", f"again: {again * 1e3:.1f} ms"]
        )
    return lines


def opening(path: Path) -> list[object]:
    command = [sys.executable, "-c", OPENING.format(path=str(path))]
    outputs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(5)]
    runs = [tuple(map(float, output.split())) for output in outputs]
    took, items, memory, disk = sorted(runs)[2]
    note = f"+{memory / 1024:.1f} MiB resident, {disk / 1024:.0f} KiB read from disk"
    return [f"open {items:,.0f} × {N_BITS} bits (new process, median of 5)", f"{took * 1e3:.1f} ms", note]


def first_searches(path: Path, queries: Path) -> list[list[object]]:
    """The first search of a process, by when files are compared with their checksums; in turns."""
    lines: list[list[object]] = []
    count = len(np.load(queries))
    command = [sys.executable, "-c", FIRST.format(path=str(path), queries=str(queries))]
    runs = [
        [
            float(subprocess.run([*command, verify], capture_output=True, text=True, check=True).stdout)
            for verify in VERIFY
        ]
        for _ in range(FIRST_ROUNDS)
    ]
    times = np.array(runs)
    for i, verify in enumerate(VERIFY):
        ratio = np.median(times[:, i] / times[:, 0])
        name = f'first search of a process, {count} queries, `verify="{verify}"`'
        lines.append([name, f"{np.median(times[:, i]) * 1e3:.1f} ms", f"{ratio:.2f} × never"])
    return lines


def reranking(folder: Path, n: int) -> list[list[object]]:
    """The scan for k, beside the scan for the candidates and their re-ranking; of random and of clustered codes."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(1000, 128)).astype(np.float32)
    data = centres[rng.integers(0, 1000, n)] + rng.normal(size=(n, 128)).astype(np.float32)
    hasher = LSH(n_bits=N_BITS).fit(data[:1000])
    queries = data[rng.integers(0, n, BATCH)] + 0.3 * rng.normal(size=(BATCH, 128)).astype(np.float32)
    codes = {"clustered": hasher.transform(data), "random": rng.integers(0, 256, (n, N_BITS // 8), dtype=np.uint8)}
    lines: list[list[object]] = []
    for name, rows in codes.items():
        with Index.create(folder / f"{name}.isch", hasher) as index:
            index.add_codes(rows)
            lines += compare(name, index, queries)
    return lines


def compare(name: str, index: Index, queries: np.ndarray) -> list[list[object]]:
    snapshot, values = take(index.path), index.hasher.project(queries)
    codes, stage = np.packbits(values >= 0, axis=1), rerank.stage("asymmetric", None, index.distance, False)
    wanted, asked = stage.candidates(K, N_BITS), Queries(codes, values, queries)

    def refined() -> None:
        stage.order(snapshot, asked, snapshot.nearest(codes, wanted, index.distance, None), K)

    memory = CodeTable(snapshot.codes(np.arange(len(snapshot))))
    times = side_by_side(
        lambda: nearest(codes, memory, K),
        lambda: snapshot.nearest(codes, K, index.distance, None),
        refined,
        partial(index.search, queries, K, rerank=None),
        partial(index.search, queries, K, rerank="asymmetric"),
    )
    plain, scan, both, without, whole = np.median(times, axis=0) * 1e3
    to_memory, to_scan = np.median(times[:, 1] / times[:, 0]), np.median(times[:, 2] / times[:, 1])
    return [
        [f"{name} codes in memory: `nearest`, k = {K}", f"{plain:.1f} ms", ""],
        [f"{name} codes: the scan of the index, k = {K}", f"{scan:.1f} ms", f"{to_memory:.2f} × memory"],
        [f"{name} codes: with {wanted} candidates re-ranked", f"{both:.1f} ms", f"+{to_scan - 1:.0%}"],
        [f"{name} codes: `search` without, with re-ranking", f"{without:.1f} ms", f"{whole:.1f} ms"],
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="+", choices=["disk", "rerank"])
    parser.add_argument("--rows", type=int, default=ROWS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for part in arguments.parts:
            text = (disk if part == "disk" else scanned)(Path(name), arguments.rows)
            print(text)
            if arguments.rows >= ROWS:
                section(f"index-{part}", text)


def disk(folder: Path, rows: int) -> str:
    path, lines = adding(folder, rows)
    for count in (1, BATCH):
        queries = np.random.default_rng(count).integers(0, 256, (count, N_BITS // 8), dtype=np.uint8)
        np.save(folder / "queries.npy", queries)
        lines += first_searches(folder / "0.isch", folder / "queries.npy")
    return f"""## The index on disk

{table(["what", "time", ""], [*lines, opening(path)])}

{machine()}"""


def scanned(folder: Path, rows: int) -> str:
    return f"""## Re-ranking: what it costs

{rows // 10:,} × {N_BITS} bits, batch of {BATCH}, k = {K}; `search` also projects queries and looks up keys. Ratios are
medians over rounds in which everything ran in turn.

{table(["what", "time", ""], reranking(folder, rows // 10))}

{machine()}"""


if __name__ == "__main__":
    main()
