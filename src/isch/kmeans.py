"""Lloyd's k-means on rows in memory, at close to the speed of its matrix products.

Rows are assigned in blocks of fixed size and centres summed cluster by cluster in row order, so the result depends
on the data and the seed alone, never on the number of threads.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from isch import progress
from isch.compute import Pass, collect
from isch.errors import InputError

Matrix = NDArray[np.float32]
Labels = NDArray[np.intp]

BLOCK_VALUES = 1 << 22  # scores held at once by one thread
PORTIONS = 64  # the largest number of portions of centres that threads work on
DISPLACEMENT = 1e-7  # of a donor centre's length, when an empty cluster is seeded beside it
ROUNDING = 4 * float(np.finfo(np.float32).eps)  # of a centre's length: centres nearer to each other are one
DEVIATIONS = 6  # of a random direction, within which vectors that are alike lie


def fit(X: Matrix, n_clusters: int, n_iter: int, rng: np.random.Generator) -> tuple[Matrix, Labels]:
    """(centres, labels) after ``n_iter`` iterations from random rows, or when no label changes any more.

    Every centre is the mean of the rows that carry its label, and no two are equal up to rounding. So there are fewer
    than ``n_clusters`` if the data has fewer distinct rows.
    """
    if not 1 <= n_clusters <= len(X):
        raise InputError(f"k-means: n_clusters must be between 1 and the number of rows ({len(X)}); got {n_clusters}")
    centres = X[np.sort(rng.choice(len(X), n_clusters, replace=False))]
    labels = np.full(len(X), -1)
    with progress.task("k-means", n_iter, "iterations") as advance:
        for iteration in range(n_iter):
            previous, labels = labels, assign(X, centres)
            centres, sizes = means(X, labels, centres)
            advance(1)
            if np.array_equal(labels, previous):
                break
            if iteration + 1 < n_iter and not sizes.all():
                centres = reseed(centres, sizes, rng)
    return distinct(centres, labels)


def assign(X: Matrix, centres: Matrix) -> Labels:
    """The nearest centre of each row; the lower number on ties."""
    labels: Labels = collect(Assignment.to(centres), X, np.empty(len(X), np.intp))
    return labels


@dataclass(frozen=True)
class Assignment(Pass[Labels]):
    """The number of the nearest centre of each row; the lower one on ties."""

    transposed: Matrix  # the centres, one per column
    half_norms: Matrix  # ‖c‖² / 2

    @classmethod
    def to(cls, centres: Matrix) -> "Assignment":
        """The assignment to these centres, one per row."""
        squares = np.einsum("ij,ij->i", centres, centres, dtype=np.float64)
        return cls(np.ascontiguousarray(centres.T), (squares / 2).astype(np.float32))

    def rows(self, _: int) -> int:
        return max(64, min(1024, BLOCK_VALUES // len(self.half_norms)))

    def block(self, block: Any, _: int) -> Labels:
        labels = np.empty(len(block), np.intp)
        nearest(block @ self.transposed, self.half_norms, labels)
        return labels


def means(X: Matrix, labels: Labels, centres: Matrix) -> tuple[Matrix, Labels]:
    """(mean of the rows of each label, their number); an empty cluster keeps its centre."""
    sizes = np.bincount(labels, minlength=len(centres))
    borders = np.concatenate([[0], np.cumsum(sizes)])
    order = np.argsort(labels, kind="stable")
    out = np.empty_like(centres)
    collect(ClusterMeans(X, order, borders), centres, out)
    return out, sizes


@dataclass(frozen=True)
class ClusterMeans(Pass[Matrix]):
    """A pass over centres, not over rows: the mean of the rows order[borders[c]:borders[c + 1]] of each centre c."""

    X: Matrix
    order: Labels
    borders: Labels

    def rows(self, _: int) -> int:
        return -(-len(self.borders) // PORTIONS)

    def block(self, block: Any, start: int) -> Matrix:
        out: Matrix = block.copy()
        cluster_means(self.X, self.order, self.borders[start : start + len(block) + 1], out)
        return out


def distinct(centres: Matrix, labels: Labels) -> tuple[Matrix, Labels]:
    """(centres, labels) without empty clusters, and with one cluster instead of those with the same centre.

    Equal rows may be divided among equal centres, because a matrix product may round equal columns differently.
    """
    present, labels = np.unique(labels, return_inverse=True)
    kept, merged = np.unique(alike(centres[present], ROUNDING), return_inverse=True)
    return centres[present[kept]], merged[labels]


def alike(rows: Matrix, tolerance: float) -> Labels:
    """For each row, the first one that differs from it by at most ``tolerance`` of its length.

    Rows that are alike have nearly the same component along a random direction, so few others are compared.
    """
    direction = np.random.default_rng(0).standard_normal(rows.shape[1])
    components = np.einsum("ij,j->i", rows, direction, dtype=np.float64)
    allowed = tolerance * np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    leaders = np.arange(len(rows))
    recent: deque[int] = deque()
    for i in np.argsort(components, kind="stable").tolist():
        while recent and components[i] - components[recent[0]] > DEVIATIONS * allowed[i]:
            recent.popleft()
        for j in recent:
            if np.linalg.norm(np.subtract(rows[i], rows[j], dtype=np.float64)) <= allowed[i]:
                leaders[i] = j
                break
        else:
            recent.append(i)
    first = np.arange(len(rows))
    np.minimum.at(first, leaders, np.arange(len(rows)))
    return first[leaders]


def reseed(centres: Matrix, sizes: Labels, rng: np.random.Generator) -> Matrix:
    """Seed each empty cluster beside a large one: donors are drawn by size² − 1, once each, and both move apart."""
    centres = centres.copy()
    empty = np.flatnonzero(sizes == 0)
    weights = np.maximum(sizes.astype(np.float64) ** 2 - 1, 0)
    n = min(len(empty), int((weights > 0).sum()))
    donors = rng.choice(len(centres), n, replace=False, p=weights / weights.sum()) if n else empty[:0]
    for slot, donor in zip(empty, donors, strict=False):
        shift = rng.standard_normal(centres.shape[1]) * DISPLACEMENT * np.linalg.norm(centres[donor])
        centres[slot] = centres[donor] + shift
        centres[donor] -= shift.astype(np.float32)
    return centres


@njit(cache=True, nogil=True, fastmath=True)  # type: ignore[untyped-decorator]
def nearest(scores: Matrix, half_norms: Matrix, labels: Labels) -> None:
    """labels_i = argmin_j ‖c_j‖²/2 − x_i·c_j, given scores x_i·c_j; the minimum comes first, which vectorises."""
    for i in range(scores.shape[0]):
        best = np.float32(np.finfo(np.float32).max)
        for j in range(scores.shape[1]):
            scores[i, j] = half_norms[j] - scores[i, j]
            best = min(best, scores[i, j])
        labels[i] = 0
        for j in range(scores.shape[1]):
            if scores[i, j] <= best:
                labels[i] = j
                break


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def nearest_few(scores: Matrix, half_norms: Matrix, out: Labels) -> None:
    """out_i = the centres with the smallest ‖c_j‖²/2 − x_i·c_j, nearest first; the lower number on ties."""
    k = out.shape[1]
    best = np.empty(k, np.float32)
    for i in range(scores.shape[0]):
        best[:] = np.inf
        limit = best[k - 1]
        for j in range(scores.shape[1]):
            score = half_norms[j] - scores[i, j]
            if score < limit:
                place = k - 1
                while place > 0 and best[place - 1] > score:
                    best[place], out[i, place] = best[place - 1], out[i, place - 1]
                    place -= 1
                best[place], out[i, place] = score, j
                limit = best[k - 1]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def cluster_means(X: Matrix, order: Labels, borders: Labels, out: Matrix) -> None:
    """The mean of rows order[borders[c]:borders[c + 1]] for each c, in double precision."""
    total = np.empty(X.shape[1])
    for c in range(out.shape[0]):
        n = borders[c + 1] - borders[c]
        if n == 0:
            continue
        total[:] = 0
        for i in range(borders[c], borders[c + 1]):
            row = X[order[i]]
            for j in range(total.shape[0]):
                total[j] += row[j]
        for j in range(total.shape[0]):
            out[c, j] = total[j] / n
