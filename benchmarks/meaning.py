"""Meaning or neighbours: what codes of equal size find, of the true neighbours and of the same label.

python benchmarks/meaning.py mnist.npy gist.npy cnn.npy wordllama.npy minilm.npy --rows 20000

Writes results/meaning.csv, from which `isch bench report` makes the first table of docs/results.md, and a section of
docs/neighbours.md. What is not measured keeps its lines, so that ``--methods ITQ`` or ``--bytes 8 64`` adds a part.
All methods score real-valued queries against stored codes, except plain signs. Bytes per item include all factors.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import faiss
import numpy as np
from judged import Judged, parser
from numpy.typing import NDArray
from report import machine, section, table

import isch
from isch import compute
from isch.errors import IschWarning
from isch.evaluate import meaning
from isch.evaluate.meaning import FLOATS, METHODS, SIGNS, Line
from isch.evaluate.rankers import EuclideanRanker, true_neighbours
from isch.scan.exact import nearest_asymmetric

BYTES, OVERSAMPLING, K = (8, 16, 32, 64), (1, 3, 5, 10), 10
N_QUERIES = 1000
FACTOR_BYTES = 4
RABITQ_FACTORS = {1: 8, 2: 20}  # bytes, by bits per dimension
LEAST_DIMENSIONS = 16
OPQ_ROUNDS, OPQ_ROWS = 5, 10_000
RESULTS = Path(__file__).parents[1] / "results"
PAGE = Path(__file__).parents[1] / "docs" / "neighbours.md"

Found = NDArray[np.int64]  # (queries, most) rows, best first


class Coded(NamedTuple):
    """What a method found, and its cost in processor seconds."""

    found: Found
    fit: float
    encode: float


def main() -> None:
    """Record a line per data set, method, size and oversampling."""
    options = parser(__doc__ or "")
    options.add_argument("--methods", nargs="+", choices=(*METHODS, SIGNS), default=(*METHODS, SIGNS))
    options.add_argument("--bytes", nargs="+", type=int, default=BYTES, help="sizes of codes, factors included")
    asked = options.parse_args()
    warnings.simplefilter("ignore", IschWarning)
    faiss.omp_set_num_threads(compute.n_threads())
    for file in asked.files:
        for lines in measured(Judged.read(file, asked.rows), asked.methods, asked.bytes):
            print(*lines, sep="\n", flush=True)
            meaning.write(RESULTS, lines)
    head = ["data", "method", "bytes", *(f"recall ×{o}" for o in OVERSAMPLING)]
    head += [*(f"precision ×{o}" for o in OVERSAMPLING), "precision of long lists", "fit s", "encode µs per row"]
    text = f"{machine('faiss-cpu')} Times are processor seconds; other work ran on the machine."
    section("meaning", f"{text}\n\n{table(head, list(meaning.wide(meaning.read(RESULTS))))}", PAGE)


def measured(data: Judged, names: Sequence[str], sizes: Sequence[int]) -> Iterator[list[Line]]:
    """The lines of a data set, method by method."""
    data.queries = data.queries[:N_QUERIES]
    ranker = EuclideanRanker(data.queries, data.base)
    long = max(K * max(OVERSAMPLING), data.k)
    exact = true_neighbours(ranker, long)
    yield judged(data, FLOATS, 4 * data.base.shape[1], Coded(exact, 0.0, 0.0), exact)
    for n_bytes in sizes:
        for name, run in methods(n_bytes, data.base.shape[1]).items():
            if name in names:
                yield judged(data, name, n_bytes, run(data, long), exact)
    if SIGNS in names:
        yield judged(data, SIGNS, data.base.shape[1] // 8, plain_signs(data, long), exact)


def judged(data: Judged, method: str, n_bytes: int, coded: Coded, exact: Found) -> list[Line]:
    """The lines of what a method found: candidates are put in order exactly, except where nothing is oversampled."""
    labels, wanted = np.asarray(data.truth.labels), np.asarray(data.truth.query_labels)[:N_QUERIES, None]
    long = float((labels[coded.found[:, : data.k]] == wanted).mean())
    lines = []
    for oversample in OVERSAMPLING:
        first = coded.found[:, : oversample * K]
        hits = np.array([np.isin(t, f).mean() for t, f in zip(exact[:, :K], first, strict=True)])
        top = first if oversample == 1 else reordered(data, first)
        numbers = (hits.mean(), (labels[top] == wanted).mean(), long, coded.fit, 1e6 * coded.encode / len(data.base))
        found = (round(float(value), 4) for value in numbers)
        lines.append(Line(data.name, len(data.base), method, n_bytes, oversample, *found))
    return lines


def reordered(data: Judged, candidates: Found) -> Found:
    """The K nearest candidates of each query by 2-norm."""
    norms = [((data.base[rows] - query) ** 2).sum(axis=1) for rows, query in zip(candidates, data.queries, strict=True)]
    return np.take_along_axis(candidates, np.argsort(np.array(norms), axis=1, kind="stable")[:, :K], axis=1)


def methods(n_bytes: int, d: int) -> dict[str, Callable[[Judged, int], Coded]]:
    """What can be made in so many bytes."""
    found: dict[str, Callable[[Judged, int], Coded]] = {
        "DiffusionHash": lambda data, n: hashed(isch.DiffusionHash(8 * n_bytes), data, n),
        "DistanceHash": lambda data, n: estimated(n_bytes, data, n),
        "ITQ": lambda data, n: hashed(isch.ITQ(8 * n_bytes), data, n),
    }
    for bits, factors in RABITQ_FACTORS.items():
        if (width := min(d, 8 * (n_bytes - factors) // bits)) >= LEAST_DIMENSIONS:
            found[f"RaBitQ {bits} bit"] = lambda data, n, w=width, b=bits: indexed(rabitq(data, w, b), data, n)
    found["PQ"] = lambda data, n: indexed(product(data, n_bytes, rotated=False), data, n)
    found["OPQ"] = lambda data, n: indexed(product(data, n_bytes, rotated=True), data, n)
    return found


def hashed(hasher: Any, data: Judged, n: int) -> Coded:
    _, fit = timed(lambda: hasher.fit(data.base))
    codes, encode = timed(lambda: hasher.transform(data.base))
    return Coded(nearest_asymmetric(hasher.project(data.queries), codes, n)[1], fit, encode)


def estimated(n_bytes: int, data: Judged, n: int) -> Coded:
    hasher = isch.DistanceHash(8 * (n_bytes - FACTOR_BYTES))
    _, fit = timed(lambda: hasher.fit(data.base))
    (codes, factors), encode = timed(lambda: (hasher.transform(data.base), hasher.factors(data.base)))
    return Coded(isch.nearest_estimated(hasher, data.queries, codes, factors, n)[1], fit, encode)


def plain_signs(data: Judged, n: int) -> Coded:
    """One bit per dimension after centring, compared by Hamming distance; ties in the order of rows."""
    mean, fit = timed(lambda: data.base.mean(axis=0))
    codes, encode = timed(lambda: np.packbits(data.base >= mean, axis=1))
    return Coded(isch.nearest(np.packbits(data.queries >= mean, axis=1), codes, n)[1], fit, encode)


def rabitq(data: Judged, width: int, bits: int) -> Any:
    """After PCA to the dimensions that fit, and a random rotation; queries are not rounded."""
    inner = faiss.IndexRaBitQ(width, faiss.METRIC_L2, bits)
    inner.qb = 0
    return faiss.IndexPreTransform(faiss.PCAMatrix(data.base.shape[1], width, 0, True), inner)


def product(data: Judged, parts: int, rotated: bool) -> Any:
    """Bytes of 256 centres each; dimensions are padded with zeros, or rotated into as many as divide evenly."""
    d = data.base.shape[1]
    width = d // parts * parts if rotated else -(-d // parts) * parts
    inner = faiss.IndexPQ(width, parts, 8)
    turn = faiss.OPQMatrix(d, parts, width) if rotated else faiss.RemapDimensionsTransform(d, width, False)
    if rotated:
        turn.niter, turn.max_train_points = OPQ_ROUNDS, OPQ_ROWS
    return faiss.IndexPreTransform(turn, inner)


def indexed(index: Any, data: Judged, n: int) -> Coded:
    _, fit = timed(lambda: index.train(data.base))
    _, encode = timed(lambda: index.add(data.base))
    return Coded(index.search(data.queries, n)[1], fit, encode)


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """(the result, processor seconds)."""
    start = time.process_time()
    result = run()
    return result, time.process_time() - start


if __name__ == "__main__":
    main()
