"""What ranks the database: codes by a distance between them or by real-valued queries, vectors by 2-norm or angle."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch import compute, progress
from isch.codes import Codes
from isch.distances import HAMMING, Distance, Hamming
from isch.evaluate.ranking import Ranker, block_queries
from isch.features import Block, Features, dense
from isch.scan import exact

TIMED_QUERIES = 200  # queries that the speed of search is measured on
ROWS_AT_ONCE = 4096  # of a sparse matrix whose lengths are wanted


class CodeRanker:
    """Ranks packed codes by a distance between codes."""

    def __init__(self, queries: Codes, codes: Codes, n_bits: int, distance: Distance = HAMMING) -> None:
        self.queries, self.table, self.distance = queries, exact.CodeTable(codes), distance
        self.n_queries, self.n_items = len(queries), len(codes)
        self.n_groups = n_bits + 1 if isinstance(distance, Hamming) else None

    def distances(self, start: int, stop: int) -> NDArray[Any]:
        return exact.distances(self.queries[start:stop], self.table, self.distance)

    def search(self, k: int) -> int:
        """Find the k nearest of some queries; gives their number."""
        some = self.queries[:TIMED_QUERIES]
        exact.nearest(some, self.table, k, self.distance)
        return len(some)


class AsymmetricRanker:
    """Ranks packed codes by Σ |z_i| [sign z_i ≠ b_i], real values z of the query, bits b of the item."""

    n_groups = None

    def __init__(self, projections: NDArray[np.float32], codes: Codes) -> None:
        self.projections, self.table = projections, exact.CodeTable(codes)
        self.n_queries, self.n_items = len(projections), len(codes)

    def distances(self, start: int, stop: int) -> NDArray[Any]:
        return exact.asymmetric_distances(self.projections[start:stop], self.table)

    def search(self, k: int) -> int:
        """Find the k nearest of some queries; gives their number."""
        some = self.projections[:TIMED_QUERIES]
        exact.nearest_asymmetric(some, self.table, k)
        return len(some)


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
        return np.asarray(np.maximum(out, 0, out=out))


class AngleRanker(EuclideanRanker):
    """Ranks real vectors by their angle to the query: what Hamming distances of their signs estimate."""

    def __init__(self, queries: NDArray[np.float32], items: NDArray[np.float32]) -> None:
        super().__init__(_unit(queries), _unit(items))

    def search(self, k: int) -> int:
        """Find the k nearest of some queries; gives their number."""
        return search_floats(self, k)


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rows at length one, in their place; zero stays zero."""
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return rows


class SparseEuclideanRanker:
    """The same for CSR matrices, which are not centred because that would fill their zeros."""

    n_groups = None

    def __init__(self, queries: Any, items: Any) -> None:
        self._queries, self._items = (rows.astype(np.float32, copy=False) for rows in (queries, items))
        self._norms = squares(self._items).astype(np.float32)
        self.n_queries, self.n_items = queries.shape[0], items.shape[0]

    def distances(self, start: int, stop: int) -> NDArray[np.float32]:
        block = self._queries[start:stop]
        out = np.empty((self.n_items, block.shape[0]), np.float32)
        compute.collect(Products(np.ascontiguousarray(block.toarray().T)), self._items, out)
        out *= -2
        out += self._norms[:, None]
        out += squares(block).astype(np.float32)
        return np.ascontiguousarray(np.maximum(out, 0, out=out).T)


@dataclass(frozen=True)
class Products(compute.Pass[NDArray[np.float32]]):
    """Rows times a matrix."""

    matrix: NDArray[np.float32]

    def block(self, block: Block, _: int) -> NDArray[np.float32]:
        return compute.times(block, self.matrix)


def squares(rows: Any) -> NDArray[np.float64]:
    """The squared length of each row of a CSR matrix, without a second matrix in memory."""
    parts = (rows[start : start + ROWS_AT_ONCE] for start in range(0, rows.shape[0], ROWS_AT_ONCE))
    return np.concatenate([part.multiply(part).sum(axis=1, dtype=np.float64) for part in parts])


class SpooledEuclideanRanker:
    """The same for a database larger than memory: one pass writes all distances to a file, which is then read."""

    n_groups = None

    def __init__(self, queries: NDArray[np.float32], items: Features, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.n_queries, self.n_items = len(queries), len(items)
        with tempfile.TemporaryFile(dir=folder) as file:
            self._distances = np.memmap(file, np.float32, "w+", shape=(self.n_queries, self.n_items))
        with progress.task("2-norm distances", self.n_items, "rows") as advance:
            for start, block in items.batches(4096):
                part = EuclideanRanker(queries, dense(block))
                self._distances[:, start : start + block.shape[0]] = part.distances(0, self.n_queries)
                advance(block.shape[0])

    def distances(self, start: int, stop: int) -> NDArray[np.float32]:
        return np.asarray(self._distances[start:stop])


def true_neighbours(ranker: Ranker, n: int) -> NDArray[np.int64]:
    """(q, n) rows of the nearest items of each query, by (distance, row)."""
    n = min(n, ranker.n_items)
    step = block_queries(ranker)
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


def search_floats(ranker: Ranker, k: int) -> int:
    """Find the k nearest of some queries among vectors; gives their number."""
    n, k = min(TIMED_QUERIES, ranker.n_queries), min(k, ranker.n_items)
    for start in range(0, n, 64):
        block = ranker.distances(start, min(start + 64, n))
        list(compute.parallel(lambda row: _nearest(row, k), block))
    return n
