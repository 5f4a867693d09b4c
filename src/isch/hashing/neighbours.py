"""Which rows lie near which: graphs of nearest neighbours, and random walks on them.

A walk that takes several steps reaches rows that are similar by way of others. This says more about what belongs
together than distances alone, and it needs no labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isch import compute, progress
from isch.compute import single_threaded_blas
from isch.lazy import Lazy, sparse

if TYPE_CHECKING:
    from isch import kmeans
else:
    kmeans = Lazy("isch.kmeans")

Matrix = NDArray[np.float32]

NEIGHBOURS = 10  # per row
STEPS = 8  # of a walk
DECAY = 0.9  # weight of a step relative to the one before
SCORED_ROWS = 128  # rows that a thread compares with all others at once
BLOCK_ROWS = 32  # starts of walks that are followed at once, each with numbers for all rows


@dataclass(frozen=True)
class Graph:
    """An undirected graph of rows; P = deg⁻¹ A holds the chances to step from one row (of P) to another (column)."""

    adjacency: "sparse.csr_array"
    degrees: NDArray[np.float32]
    transitions: "sparse.csr_array"


def graph(adjacency: "sparse.csr_array") -> Graph:
    """The graph with these edges, in both directions."""
    both = sparse.csr_array(adjacency + adjacency.T)
    degrees = np.asarray(both.sum(axis=1), np.float32).ravel()
    return Graph(both, degrees, sparse.csr_array(sparse.diags_array(1 / degrees) @ both))


def nearest_graph(Z: Matrix) -> Graph:
    """The graph of each row's nearest neighbours."""
    n, k = len(Z), min(NEIGHBOURS, len(Z) - 1)
    nearest = nearest_rows(Z, k)
    edges = (np.ones(n * k, np.float32), (np.repeat(np.arange(n), k), nearest.ravel()))
    return graph(sparse.csr_array(edges, shape=(n, n)))


def union(graphs: Sequence[Graph]) -> Graph:
    """The graph with the edges of all."""
    return graph(reduce(lambda a, b: a + b, (one.adjacency for one in graphs)))


def nearest_rows(Z: Matrix, k: int) -> NDArray[np.intp]:
    """The k nearest other rows of each row, (n, k), nearest first."""
    out = np.empty((len(Z), k), np.intp)
    with single_threaded_blas():  # threads of the matrix product would round differently
        compute.collect(Nearest(Z, np.einsum("ij,ij->i", Z, Z) / 2, k), Z, out)
    return out


@dataclass(frozen=True)
class Nearest(compute.Pass[NDArray[np.intp]]):
    """The k rows nearest to each row of a block, without itself; few rows, because each is compared with all."""

    rows_: Matrix
    half_squares: NDArray[np.float32]
    k: int

    label = "neighbours"

    def rows(self, _: int) -> int:
        return SCORED_ROWS

    def block(self, block: Any, start: int) -> NDArray[np.intp]:
        scores, out = block @ self.rows_.T, np.empty((len(block), self.k), np.intp)
        within = np.arange(len(block))
        scores[within, start + within] = -np.inf
        kmeans.nearest_few(scores, self.half_squares, out)
        return out


def walk_work(n_rows: int, count: float) -> compute.Stage:
    """What a walk costs that carries ``count`` numbers per row: each step adds them up over all edges."""
    return compute.Stage("walks", moved=STEPS * 2.0 * NEIGHBOURS * n_rows * 4 * count)


def shared_variance(network: Graph, Z: Matrix) -> NDArray[np.float64]:
    """Of each column the covariance between the two ends of a walk of STEPS steps; at least zero."""
    chances = network.degrees / network.degrees.sum()
    centred = Z - chances @ Z
    reached = centred
    with progress.task("walks", STEPS, "steps") as advance:
        for _ in range(STEPS):
            reached = network.transitions @ reached
            advance(1)
    return np.asarray(np.maximum(np.einsum("i,ij,ij->j", chances, centred, reached, dtype=np.float64), 0))


def reached_rows(network: Graph, starts: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """The ``count`` rows that walks from each start visit most often for their degree, (starts, count).

    With M = Σ_t DECAY^(t−1) Pᵗ these are the largest entries of M after its columns are divided by the degrees.
    """
    back = sparse.csr_array(network.transitions.T)
    out = np.empty((len(starts), count), np.intp)
    with progress.task("walks", len(starts), "rows") as advance:
        for first in range(0, len(starts), BLOCK_ROWS):
            some = starts[first : first + BLOCK_ROWS]
            out[first : first + BLOCK_ROWS] = _reached(back, network.degrees, some, count)
            advance(len(some))
    return out


def _reached(
    back: "sparse.csr_array", degrees: NDArray[np.float32], starts: NDArray[np.intp], count: int
) -> NDArray[np.intp]:
    """The same for a few starts, given Pᵀ."""
    present = np.zeros((len(degrees), len(starts)), np.float32)
    present[starts, np.arange(len(starts))] = 1
    visits = np.zeros_like(present)
    for step in range(STEPS):
        present = back @ present
        visits += np.float32(DECAY**step) * present
    visits /= degrees[:, None]
    visits[starts, np.arange(len(starts))] = -1
    return np.argpartition(-visits.T, count - 1, axis=1)[:, :count]
