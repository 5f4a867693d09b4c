"""The true nearest neighbours of some rows among all rows, in one pass over features that need not fit in memory."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isch import compute
from isch.features import Block, Features, Subset, dense

BLOCK = 1024  # consecutive rows that are looked at, or not, together

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Neighbours:
    """What is nearest to some rows by the 2-norm.

    queries : (q,) the rows asked about
    near : (q, K) the rows nearest to each of them but itself, nearest first, of those looked at
    share : of all rows that were looked at
    """

    queries: Rows
    near: Rows
    share: float


def find(features: Features, n_queries: int, n_near: int, budget: float, rng: np.random.Generator) -> Neighbours:
    """The neighbours of random rows.

    Parameters
    ----------
    features : Features
        At least two rows.
    n_queries, n_near : int
        How many rows to ask about, and how many neighbours of each; fewer if there are fewer rows.
    budget : float
        Products of numbers that may be spent. If comparing with all rows takes more, only random blocks of them are.
    rng : Generator
        Chooses the rows.
    """
    n, d = features.shape
    queries = compute.sample(features, n_queries, rng)
    looked = _looked_at(n, min(1.0, budget / (len(queries) * float(n) * d)), rng)
    probes = dense(Subset(features, queries).read(0, len(queries)), np.float64)
    shift = probes.mean(axis=0)
    probes -= shift
    scale = 1 / max(float(np.abs(probes).max()), np.finfo(np.float64).tiny)  # squares stay within single precision
    search = Nearest((probes * scale).astype(np.float32), shift, scale, min(n_near + 1, len(looked)))
    squares, rows = compute.run(search, features if len(looked) == n else Subset(features, looked))
    order = np.lexsort((rows, squares), axis=1)
    near = looked[np.take_along_axis(rows, order, axis=1)]
    others = [row[row != query][:n_near] for query, row in zip(queries, near, strict=True)]
    fewest = min(map(len, others))
    return Neighbours(queries, np.array([row[:fewest] for row in others]), len(looked) / n)


def _looked_at(n: int, share: float, rng: np.random.Generator) -> Rows:
    """All rows, or the rows of random blocks that are about this share of them."""
    blocks = -(-n // BLOCK)
    if share >= 1 or blocks < 2:
        return np.arange(n)
    chosen = np.sort(rng.choice(blocks, max(1, round(share * blocks)), replace=False))
    rows = (chosen[:, None] * BLOCK + np.arange(BLOCK)).ravel()
    return np.asarray(rows[rows < n])


@dataclass(frozen=True)
class Nearest(compute.Reduction[tuple[NDArray[np.float32], Rows]]):
    """(squared distances less the probe's own square, rows) of the ``keep`` rows nearest to each probe, unsorted."""

    probes: NDArray[np.float32]  # shifted and scaled
    shift: NDArray[np.float64]
    scale: float
    keep: int

    label = "true neighbours"

    def zero(self) -> tuple[NDArray[np.float32], Rows]:
        return np.empty((len(self.probes), 0), np.float32), np.empty((len(self.probes), 0), np.int64)

    def block(self, block: Block, start: int) -> tuple[NDArray[np.float32], Rows]:
        rows = ((dense(block, np.float64) - self.shift) * self.scale).astype(np.float32)
        squares = np.einsum("ij,ij->i", rows, rows) - 2 * (self.probes @ rows.T)
        numbers = np.broadcast_to(np.arange(start, start + len(rows)), squares.shape)
        return self._nearest(squares, numbers)

    def combine(
        self, total: tuple[NDArray[np.float32], Rows], part: tuple[NDArray[np.float32], Rows]
    ) -> tuple[NDArray[np.float32], Rows]:
        squares, rows = np.concatenate([total[0], part[0]], axis=1), np.concatenate([total[1], part[1]], axis=1)
        return self._nearest(squares, rows)

    def _nearest(self, squares: NDArray[np.float32], rows: Rows) -> tuple[NDArray[np.float32], Rows]:
        if squares.shape[1] <= self.keep:
            return squares, np.ascontiguousarray(rows)
        best = np.argpartition(squares, self.keep - 1, axis=1)[:, : self.keep]
        return np.take_along_axis(squares, best, axis=1), np.take_along_axis(rows, best, axis=1)
