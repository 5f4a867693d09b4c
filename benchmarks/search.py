"""Hamming search against faiss, usearch, NumKong and a bare read of memory; each part under two minutes.

    python benchmarks/search.py random | real-mnist | real-gist | real-cnn | avx2 | single | radius | duplicates

Real codes are those of MNIST digits, of GIST vectors of CIFAR-10, both also shifted by a few pixels, and of the CNN's
vectors of thumbnails: DiffusionHash codes (fitted on 10,000 rows), and LSH codes from 1,024 bits on. ``prepare`` makes
them once, among temporary files; describing the thumbnails takes minutes.
"""

import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import report
from numba import njit
from numpy.typing import NDArray

from isch import compute
from isch.scan.exact import CodeTable, nearest, within

Codes = NDArray[np.uint8]

BITS = (64, 128, 256, 1024, 3200)
N_QUERIES = 256
RNG = np.random.default_rng(0)
PEER_QUERIES = 16
AVX2 = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2", "FAISS_OPT_LEVEL": "avx2"}


def seconds(function: Callable[[], object], times: int = 5) -> float:
    """The least time of a few calls, after one to warm up."""
    function()
    return min(_once(function) for _ in range(times))


def _once(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def in_turn(calls: Sequence[Callable[[], object]], times: int) -> list[float]:
    """The median time of each call, taken in turn: what reads memory is at the mercy of the machine's other guests."""
    taken = np.array([[_once(call) for call in calls] for _ in range(times)])
    return np.median(taken[1:], axis=0).tolist()  # type: ignore[no-any-return]


def size(bits: int) -> int:
    """Rows to search: 1,000,000; 300,000 where codes are long."""
    return 300_000 if bits >= 3200 else 1_000_000


def random_codes(bits: int) -> tuple[Codes, Codes]:
    """Uniformly random (queries, codes)."""
    queries = RNG.integers(0, 256, (N_QUERIES, bits // 8), dtype=np.uint8)
    return queries, RNG.integers(0, 256, (size(bits), bits // 8), dtype=np.uint8)


def real_codes(kind: str, bits: int) -> tuple[Codes, Codes]:
    """(queries, codes) of one kind of data."""
    codes = kept(f"{kind}-{bits}", lambda: _codes_of(kind, bits))
    return codes[:N_QUERIES], codes[N_QUERIES:]


def kept(name: str, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """An array from a temporary file, made if it does not exist."""
    path = Path(tempfile.gettempdir()) / f"isch-benchmark-{name}.npy"
    if not path.exists():
        np.save(path, make())
    return np.load(path, mmap_mode="r")  # type: ignore[no-any-return]


def _codes_of(kind: str, bits: int) -> Codes:
    import isch

    features = kept(kind, FEATURES[kind])
    hasher = isch.DiffusionHash(n_bits=bits) if bits <= features.shape[1] else isch.LSH(n_bits=bits)
    hasher.fit(features[N_QUERIES : N_QUERIES + 10_000].astype(np.float32))
    rows = min(len(features), N_QUERIES + size(bits))
    parts = [features[start : start + 50_000].astype(np.float32) for start in range(0, rows, 50_000)]
    return np.concatenate([hasher.transform(part) for part in parts])[:rows]


def _shifted(images: NDArray[np.uint8], unseen: int, shifts: Sequence[tuple[int, int]]) -> NDArray[np.uint8]:
    """As many of the last images as there are queries, then all but the ``unseen`` last, shifted, in random order."""
    train = images[:-unseen]
    parts = [np.roll(train, shift, (1, 2)) for shift in shifts]
    return np.concatenate([images[-N_QUERIES:], RNG.permutation(np.concatenate(parts))])


def _digits() -> NDArray[np.float32]:
    import isch

    images = isch.datasets.load("mnist").images.reshape(-1, 28, 28)
    every = _shifted(images, 2000, [(y, x) for y in range(-2, 3) for x in range(-2, 3)][:15])
    return every[: N_QUERIES + size(256)].reshape(-1, 784).astype(np.float16)


def _gist() -> NDArray[np.float32]:
    import isch

    images = np.asarray(isch.datasets.load("cifar10").images)
    both = np.concatenate([images[:50_000, :, ::-1], images])
    every = _shifted(both, 10_000, [(0, 0), (1, 2), (-2, 1), (2, -1)])
    return isch.describer("gist").transform(list(every)).astype(np.float16)


def _cnn() -> NDArray[np.float32]:
    import isch

    images = isch.datasets.load("tiny-imagenet-60k").images
    return isch.describer("cnn").transform(list(images)).astype(np.float16)


FEATURES: dict[str, Callable[[], NDArray[Any]]] = {"mnist": _digits, "gist": _gist, "cnn": _cnn}


def faiss_index(codes: Codes) -> Any:
    """A flat index, searched on as many threads as ours."""
    faiss.omp_set_num_threads(compute.n_threads())
    index = faiss.IndexBinaryFlat(codes.shape[1] * 8)
    index.add(codes)
    return index


def usearch_seconds(queries: Codes, codes: Codes, k: int) -> float:
    """usearch's exact search; a few queries, scaled to the batch."""
    from usearch.index import MetricKind, search

    few, threads = queries[:PEER_QUERIES], compute.n_threads()
    taken = seconds(lambda: search(codes, few, k, MetricKind.Hamming, exact=True, threads=threads), 1)
    return taken * len(queries) / PEER_QUERIES


def numkong_seconds(queries: Codes, codes: Codes) -> float:
    """NumKong's packed distances, without selecting the nearest; a few queries, scaled to the batch."""
    import numkong

    packed, threads = numkong.hammings_pack(codes, dtype="uint1"), compute.n_threads()
    parts = np.array_split(queries[:PEER_QUERIES], threads)
    work = [(part, numkong.hammings_packed(part, packed)) for part in parts]
    with ThreadPoolExecutor(threads) as pool:
        taken = seconds(
            lambda: list(pool.map(lambda pair: numkong.hammings_packed(pair[0], packed, out=pair[1]), work)), 2
        )
    return taken * len(queries) / PEER_QUERIES


def batch(codes_of: Callable[[int], tuple[Codes, Codes]], peers: bool) -> str:
    """A table of batches of 256 queries."""
    rows: list[list[object]] = []
    for bits in BITS:
        queries, codes = codes_of(bits)
        table, index = CodeTable(codes), faiss_index(codes)
        kong = numkong_seconds(queries, codes) if peers else 0.0
        for k in (10, 500):
            ours = seconds(partial(nearest, queries, table, k))
            plain = seconds(partial(nearest, queries, codes, k), 2)
            theirs = seconds(partial(index.search, queries, k), 3)
            speed = codes.nbytes * len(queries) / ours / compute.n_threads() / 1e9
            row: list[object] = [bits, k, 1e3 * ours, speed, 1e3 * plain, 1e3 * theirs, f"**{theirs / ours:.1f}**"]
            if peers:
                other = usearch_seconds(queries, codes, k)
                row += [1e3 * other, other / ours, 1e3 * kong, kong / ours]
            rows.append(row)
            print(*row, flush=True)
    header = ["bits", "k", "isch, ms", "GB/s per core", "isch on a plain array, ms", "faiss, ms", "faiss / isch"]
    more = ["usearch, ms", "usearch / isch", "NumKong (no selection), ms", "NumKong / isch"]
    return report.table(header + (more if peers else []), rows)


@njit(cache=True, nogil=True)
def read(words):  # type: ignore[no-untyped-def]
    """Touch every word, at least cost."""
    total = np.uint64(0)
    for i in range(words.size):
        total ^= words[i]
    return total


def single() -> str:
    """One query at a time, and in small batches, against faiss and against a bare read of the codes."""
    queries, codes = random_codes(256)
    table, index = CodeTable(codes), faiss_index(codes)
    halves, rows_halves = (np.array_split(a.ravel().view(np.uint64), compute.n_threads()) for a in (table.tiles, codes))
    rows: list[list[object]] = []
    for n in (1, 2, 4, 8, 16):
        calls: list[Callable[[], object]] = [
            partial(compute.together, read, halves),
            partial(nearest, queries[:n], table, 10),
            partial(compute.together, read, rows_halves),
            partial(nearest, queries[:n], codes, 10),
            partial(index.search, queries[:n], 10),
        ]
        bare, ours, bare_rows, plain, theirs = in_turn(calls, 100)
        ratios = [f"**{theirs / ours:.1f}**", bare / ours, bare_rows / plain]
        rows.append([n, 1e3 * ours, 1e3 * plain, 1e3 * theirs, *ratios])
        print(*rows[-1], flush=True)
    header = ["queries", "isch, ms", "isch on a plain array, ms", "faiss, ms", "faiss / isch", "bare read / isch"]
    header.append("bare read / plain array")
    speed = codes.nbytes / bare / 1e9
    return f"{report.table(header, rows)}\n\nA bare parallel read: {1e3 * bare:.2f} ms, {speed:.1f} GB/s."


def radius() -> str:
    """Everything within 10 % of the bits."""
    rows: list[list[object]] = []
    for kind, codes_of in (("random", random_codes), ("real", partial(real_codes, "mnist"))):
        for bits in BITS:
            queries, codes = codes_of(bits)
            table, index, r = CodeTable(codes), faiss_index(codes), bits // 10
            ours = seconds(partial(within, queries, table, r), 3)
            theirs = seconds(partial(index.range_search, queries, r + 1), 1)
            hits, limits = within(queries, table, r), index.range_search(queries, r + 1)[0]
            same = bool(np.array_equal(hits.offsets, limits.astype(np.int64)))
            rows.append([kind, bits, r, len(hits.rows), 1e3 * ours, 1e3 * theirs, f"**{theirs / ours:.1f}**", same])
            print(*rows[-1], flush=True)
    header = ["codes", "bits", "radius", "hits", "isch, ms", "faiss range_search, ms", "faiss / isch", "same counts"]
    return report.table(header, rows)


def duplicates() -> str:
    """64-bit codes of which nine in ten repeat others, k = 1,000; tie order checked against a stable sort."""
    queries, codes = random_codes(64)
    tenfold, single_code = codes.copy(), codes.copy()
    tenfold[100_000:] = np.tile(codes[:100_000], (9, 1))
    single_code[RNG.permutation(len(codes))[: 9 * len(codes) // 10]] = queries[0]
    rows: list[list[object]] = []
    kinds = {"none": codes, "each of 100,000 codes ten times": tenfold, "one code in nine of ten rows": single_code}
    for name, kind in kinds.items():
        table, index = CodeTable(kind), faiss_index(kind)
        ours = seconds(partial(nearest, queries, table, 1000))
        theirs = seconds(partial(index.search, queries, 1000), 2)
        found = nearest(queries[:5], table, 1000)[1]
        plain = [np.argsort(np.bitwise_count(kind ^ q).sum(axis=1), kind="stable")[:1000] for q in queries[:5]]
        rows.append([name, 1e3 * ours, 1e3 * theirs, f"**{theirs / ours:.1f}**", bool(np.array_equal(found, plain))])
        print(*rows[-1], flush=True)
    return report.table(["duplicates", "isch, ms", "faiss, ms", "faiss / isch", "exact, ties by row"], rows)


def avx2() -> str:
    """The batches once more in a process restricted to AVX2."""
    command = [sys.executable, __file__, "restricted"]
    done = subprocess.run(command, env={**os.environ, **AVX2}, check=True, text=True, stdout=subprocess.PIPE)
    return done.stdout[done.stdout.index("| bits") :].strip()


PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "random": ("Search: 256 queries, random codes", lambda: batch(random_codes, peers=True)),
    **{
        f"real-{kind}": (f"Search: 256 queries, real codes: {kind}", partial(batch, partial(real_codes, kind), False))
        for kind in FEATURES
    },
    "avx2": ("Search: 256 queries, random codes, Numba and faiss restricted to AVX2", avx2),
    "single": ("Search: few queries, 256 bits, k = 10", single),
    "radius": ("Search: 256 queries, radius of 10 % of the bits", radius),
    "duplicates": ("Search: 256 queries, 64 bits with 90 % duplicates, k = 1,000", duplicates),
}


def main(part: str) -> None:
    """Print one part and record it."""
    if part == "prepare":
        for kind, bits in itertools.product(FEATURES, BITS):
            real_codes(kind, bits)
        return
    if part == "restricted":
        print(batch(random_codes, peers=False))
        return
    title, measure = PARTS[part]
    text = measure()
    machine = report.machine("faiss-cpu", "usearch", "numkong")
    rows = {"real-gist": "400,000 codes (3,200 bits: 300,000)", "real-cnn": "59,744 codes"}
    rows = rows.get(part, "1,000,000 codes (3,200 bits: 300,000)")
    note = f"{rows}, all on {compute.n_threads()} threads, both prepared. {machine}"
    report.section(f"search-{part}", f"## {title}\n\n{text}\n\n{note}")
    print(text)


if __name__ == "__main__":
    for name in sys.argv[1:] or PARTS:
        main(name)
