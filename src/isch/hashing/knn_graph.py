"""Graphs of nearest neighbours, for random walks on them.

A walk of several steps reaches rows that are similar by way of others. This says more about which rows are alike than
distances alone, and it needs no labels.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isch import compute
from isch.compute import single_threaded_blas
from isch.lazy import Lazy, sparse

if TYPE_CHECKING:
    from isch import kmeans
else:
    kmeans = Lazy("isch.kmeans")

Matrix = NDArray[np.float32]

SCORED_ROWS = 128  # rows that a thread compares with all others at once


@dataclass(frozen=True)
class Graph:
    """An undirected graph of rows; P = deg⁻¹ A holds the chances to step from one row (of P) to another (column)."""

    degrees: NDArray[np.float32]
    transitions: "sparse.csr_array"


def nearest_graph(Z: Matrix) -> Graph:
    """The graph of each row's nearest neighbours, with every edge in both directions."""
    n, k = len(Z), count(len(Z))
    nearest = nearest_rows(Z, k)
    edges = (np.ones(n * k, np.float32), (np.repeat(np.arange(n), k), nearest.ravel()))
    one_way = sparse.csr_array(edges, shape=(n, n))
    adjacency = sparse.csr_array(one_way + one_way.T)
    degrees = np.asarray(adjacency.sum(axis=1), np.float32).ravel()
    return Graph(degrees, sparse.csr_array(sparse.diags_array(1 / degrees) @ adjacency))


def count(n: int) -> int:
    """Neighbours per row: about the cube root of the number of rows, of which larger groups have more."""
    return min(n - 1, max(2, round(0.75 * math.cbrt(n))))


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

    def rows(self, _: int) -> int:
        return SCORED_ROWS

    def block(self, block: Any, start: int) -> NDArray[np.intp]:
        scores, out = block @ self.rows_.T, np.empty((len(block), self.k), np.intp)
        within = np.arange(len(block))
        scores[within, start + within] = -np.inf
        kmeans.nearest_few(scores, self.half_squares, out)
        return out
