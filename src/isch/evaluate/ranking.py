"""From a method's distances to its measures, a few queries at a time: the full matrix of distances is never held."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from isch import compute, progress
from isch.evaluate.metrics import TIES, Measure, Profile, Ties, curve_ranks, expected_hits, from_floats, from_integers

BLOCK_BYTES = 64 << 20  # of distances held at a time


class Ranker(Protocol):
    """Distances from the queries to the database, by rows of queries."""

    n_queries: int
    n_items: int
    n_groups: int | None  # integer distances 0 … n_groups − 1; None: real distances

    def distances(self, start: int, stop: int) -> NDArray[Any]:
        """(stop − start, n_items), smaller is nearer."""


@dataclass(frozen=True)
class Truth:
    """What is relevant to each query: the items of its label, and its true nearest neighbours where they are needed."""

    query_labels: NDArray[np.integer[Any]] | None
    labels: NDArray[np.integer[Any]] | None
    neighbours: NDArray[np.integer[Any]] | None = None  # (q, r) rows of the database, nearest first

    def relevant(self, query: int, n_items: int, n_neighbours: int) -> NDArray[np.bool_]:
        """Which items are relevant to a query: of its label, or its first ``n_neighbours`` neighbours."""
        if n_neighbours or self.labels is None or self.query_labels is None:
            out = np.zeros(n_items, np.bool_)
            if self.neighbours is not None:
                out[self.neighbours[query, : n_neighbours or None]] = True
            return out
        return np.equal(self.labels, self.query_labels[query])


@dataclass(frozen=True)
class Scores:
    """Measures of a ranking: for each name and treatment of ties one value a query; mean curves over ranks."""

    values: dict[str, dict[Ties, NDArray[np.float64]]]
    ranks: NDArray[np.int64]
    precision: NDArray[np.float64]
    recall: NDArray[np.float64]

    def mean(self, name: str, ties: Ties = "expected") -> float:
        """The mean over the queries for which the measure is defined; NaN if there are none."""
        values = self.values[name][ties]
        return float(np.nanmean(values)) if not np.isnan(values).all() else float("nan")


def score(ranker: Ranker, truth: Truth, measures: list[Measure]) -> Scores:
    """Measure a ranking, streaming over the queries."""
    ranks = curve_ranks(ranker.n_items)
    step = max(1, min(256, BLOCK_BYTES // (4 * ranker.n_items)))
    rows: list[tuple[list[list[float]], NDArray[np.float64], int]] = []
    with progress.task("measuring", ranker.n_queries, "queries") as advance:
        for start in range(0, ranker.n_queries, step):
            block = ranker.distances(start, min(start + step, ranker.n_queries))

            def one(i: int, block: NDArray[Any] = block, start: int = start) -> Any:
                return _score_query(ranker, truth, measures, ranks, start + i, block[i])

            rows.extend(compute.parallel(one, range(len(block))))
            advance(len(block))
    table = np.array([values for values, _, _ in rows]).reshape(len(rows), len(measures), len(TIES))
    hits, totals = np.array([h for _, h, _ in rows]), np.array([t for _, _, t in rows])
    return Scores(
        {m.name: {t: table[:, i, j] for j, t in enumerate(TIES)} for i, m in enumerate(measures)},
        ranks,
        (hits / ranks).mean(axis=0),
        (hits[totals > 0] / totals[totals > 0, None]).mean(axis=0) if totals.any() else np.full(len(ranks), np.nan),
    )


def _score_query(
    ranker: Ranker,
    truth: Truth,
    measures: list[Measure],
    ranks: NDArray[np.int64],
    query: int,
    distances: NDArray[Any],
) -> tuple[list[list[float]], NDArray[np.float64], int]:
    profiles = {
        n: profile(distances, truth.relevant(query, ranker.n_items, n), ranker.n_groups)
        for n in {0, *(m.neighbours for m in measures)}
    }
    values = [[m.of(profiles[m.neighbours], ties) for ties in TIES] for m in measures]
    main = profiles[0]
    return values, expected_hits(main.sizes, main.hits, ranks), int(main.hits.sum())


def profile(distances: NDArray[Any], relevant: NDArray[np.bool_], n_groups: int | None) -> Profile:
    """The profile of one query's distances."""
    return from_floats(distances, relevant) if n_groups is None else from_integers(distances, relevant, n_groups)


class EuclideanRanker:
    """Squared 2-norm distances in single precision by blocked matrix products; the baseline of every figure.

    Computed as ‖q‖² − 2 q·x + ‖x‖² about the mean of the database, which keeps the cancellation small.
    """

    n_groups = None

    def __init__(self, queries: NDArray[np.float32], items: NDArray[np.float32]) -> None:
        mean = items.mean(axis=0, dtype=np.float64).astype(np.float32)
        self._queries, self._items = queries - mean, items - mean
        self._norms = np.einsum("ij,ij->i", self._items, self._items)
        self.n_queries, self.n_items = len(queries), len(items)

    def distances(self, start: int, stop: int) -> NDArray[np.float32]:
        block = self._queries[start:stop]
        out = block @ self._items.T
        out *= -2
        out += self._norms
        out += np.einsum("ij,ij->i", block, block)[:, None]
        return np.maximum(out, 0, out=out)


class SparseEuclideanRanker:
    """The same for CSR matrices, whose zeros centring would fill."""

    n_groups = None

    def __init__(self, queries: Any, items: Any) -> None:
        self._queries, self._items = queries.astype(np.float32), items.astype(np.float32)
        self._norms = np.asarray(self._items.multiply(self._items).sum(axis=1), np.float32).ravel()
        self.n_queries, self.n_items = queries.shape[0], items.shape[0]

    def distances(self, start: int, stop: int) -> NDArray[np.float32]:
        block = self._queries[start:stop]
        own = np.asarray(block.multiply(block).sum(axis=1), np.float32).reshape(-1, 1)
        products = np.asarray((self._items @ block.toarray().T).T)
        return np.maximum(own - 2 * products + self._norms, 0).astype(np.float32, copy=False)


def true_neighbours(ranker: Ranker, n: int) -> NDArray[np.int64]:
    """(q, n) rows of the nearest items of each query, by (distance, row)."""
    n = min(n, ranker.n_items)
    step = max(1, min(256, BLOCK_BYTES // (4 * ranker.n_items)))
    out = np.empty((ranker.n_queries, n), np.int64)
    with progress.task("true neighbours", ranker.n_queries, "queries") as advance:
        for start in range(0, ranker.n_queries, step):
            block = ranker.distances(start, min(start + step, ranker.n_queries))
            for i, found in enumerate(compute.parallel(lambda row: _nearest(row, n), block)):
                out[start + i] = found
            advance(len(block))
    return out


def _nearest(distances: NDArray[Any], n: int) -> NDArray[np.intp]:
    cut = np.partition(distances, n - 1)[n - 1]
    rows = np.flatnonzero(distances <= cut)
    return rows[np.argsort(distances[rows], kind="stable")][:n]
