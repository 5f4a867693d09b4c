"""LLC: local descriptors as weighted means of their nearest words; each part of a picture keeps the largest weights.

Wang et al., *Locality-constrained linear coding for image classification* (2010), the fast version, with the pyramid
of Lazebnik, Schmid and Ponce, *Beyond bags of features* (2006).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

from isch import kmeans
from isch.describe.base import unit_rows
from isch.describe.codebook import Labels, Matrix, WordsDescriber, half_squares
from isch.describe.sift import Local
from isch.errors import ParameterError
from isch.parameters import POSITIVE, Interval

BLOCK_VALUES = 1 << 20  # scores of words held at once


@dataclass(eq=False, repr=False, kw_only=True)
class LLC(WordsDescriber):
    """Sparse vectors of 21 × ``n_words`` values, cell by cell: 105,000 for 5,000 words.

    Parameters
    ----------
    n_words : int
        Size of the vocabulary.
    n_neighbours : int
        Each descriptor is coded by this many nearest words.
    beta : float
        Regularisation that keeps the weights small.
    levels : sequence of int
        Cells along each side at each level of the pyramid: by default 1, 2 × 2 and 4 × 4 cells.

    Notes
    -----
    The other parameters are those of ``LocalDescriber`` and ``WordsDescriber``.
    """

    n_words: int = 5000
    n_neighbours: int = 5
    beta: float = 1e-4
    levels: Sequence[int] = (1, 2, 4)

    name: ClassVar[str] = "llc"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **WordsDescriber._parameter_constraints,
        "n_neighbours": [POSITIVE],
        "beta": [Interval(Real, 0, None, closed="neither")],
        "levels": [list, tuple],
    }

    @property
    def n_features_out(self) -> int:
        return len(self.words_) * n_cells(self.levels)

    def _describe(self, batch: Sequence[Local]) -> Any:
        parts = [self._pooled(local) for local in batch]
        borders = np.cumsum([0, *(len(columns) for columns, _ in parts)], dtype=np.int32)
        columns, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return csr_array((values, columns, borders), shape=(len(batch), self.n_features_out))

    def _pooled(self, local: Local) -> tuple[NDArray[np.int32], Matrix]:
        near = nearest_words(local.values, self.words_, min(self.n_neighbours, len(self.words_)))
        weights = llc_weights(local.values, self.words_, near, self.beta)
        cells = cells_of(local.positions, self.levels)
        columns, values = max_pool(near, weights, cells, n_cells(self.levels), len(self.words_))
        return columns, unit_rows(values[None])[0]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.n_neighbours > self.n_words:
            raise ParameterError(f"n_neighbours must be at most n_words = {self.n_words}; got {self.n_neighbours}")
        if not self.levels or not all(isinstance(level, int) and level > 0 for level in self.levels):
            raise ParameterError(f"levels must be positive integers, the cells along each side; got {self.levels!r}")


def n_cells(levels: Sequence[int]) -> int:
    """The number of cells of all levels."""
    return sum(level * level for level in levels)


def cells_of(positions: NDArray[np.floating[Any]], levels: Sequence[int]) -> Labels:
    """The cell of each position (x, y) in each level, (n, levels), row by row and level by level."""
    out = np.empty((len(positions), len(levels)), np.intp)
    first = 0
    for i, level in enumerate(levels):
        column, row = np.clip(np.ceil(positions * level) - 1, 0, level - 1).astype(np.intp).T
        out[:, i] = first + row * level + column
        first += level * level
    return out


def nearest_words(descriptors: Matrix, words: Matrix, k: int) -> Labels:
    """The ``k`` nearest words of each descriptor, nearest first; the lower number on ties."""
    half_norms, transposed = half_squares(words), np.ascontiguousarray(words.T)
    out = np.empty((len(descriptors), k), np.intp)
    step = max(1, BLOCK_VALUES // len(words))
    for start in range(0, len(descriptors), step):
        rows = slice(start, start + step)
        kmeans.nearest_few(descriptors[rows] @ transposed, half_norms, out[rows])
    return out


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"})  # type: ignore[untyped-decorator]
def llc_weights(descriptors: Matrix, words: Matrix, near: Labels, beta: float) -> NDArray[np.float64]:
    """w minimising ‖x − Σ w_j b_j‖² + β tr(C) ‖w‖² with Σ w_j = 1 over the near words b_j of each descriptor x.

    With C_jh = (b_j − x)·(b_h − x), w is (C + β tr(C) I)⁻¹ 1, scaled to sum 1. If C is zero, all w_j are equal.
    """
    n, k = near.shape
    out = np.empty((n, k))
    offsets, C = np.empty((k, words.shape[1])), np.empty((k, k))
    for i in range(n):
        for j in range(k):
            for d in range(words.shape[1]):
                offsets[j, d] = words[near[i, j], d] - descriptors[i, d]
        trace = 0.0
        for j in range(k):
            for h in range(j + 1):
                total = 0.0
                for d in range(words.shape[1]):
                    total += offsets[j, d] * offsets[h, d]
                C[j, h] = total
            trace += C[j, j]
        for j in range(k):
            C[j, j] += beta * trace if trace > 0 else 1.0
        _solve_for_ones(C, out[i])
        total = 0.0
        for j in range(k):
            total += out[i, j]
        for j in range(k):
            out[i, j] /= total
    return out


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _solve_for_ones(C: NDArray[np.float64], w: NDArray[np.float64]) -> None:
    """Solve C w = 1 for a positive definite C by Cholesky; its lower triangle is read and overwritten."""
    k = len(w)
    for j in range(k):
        for h in range(j):
            C[j, j] -= C[j, h] * C[j, h]
        C[j, j] = math.sqrt(C[j, j])
        for m in range(j + 1, k):
            for h in range(j):
                C[m, j] -= C[m, h] * C[j, h]
            C[m, j] /= C[j, j]
        w[j] = 1.0
        for h in range(j):
            w[j] -= C[j, h] * w[h]
        w[j] /= C[j, j]
    for j in range(k - 1, -1, -1):
        for h in range(j + 1, k):
            w[j] -= C[h, j] * w[h]
        w[j] /= C[j, j]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def max_pool(
    near: Labels, weights: NDArray[np.float64], cells: Labels, n_cells: int, n_words: int
) -> tuple[NDArray[np.int32], Matrix]:
    """(columns, values) of the largest weight of each word in each cell, cell by cell, without zeros.

    A descriptor gives weight zero to every word that is not near it. So a word's largest weight in a cell is negative
    only if all descriptors there give it a negative weight.
    """
    best = np.full((n_cells, n_words), -np.inf, np.float32)
    uses = np.zeros((n_cells, n_words), np.int32)
    sizes = np.zeros(n_cells, np.int32)
    for i in range(len(near)):
        for cell in cells[i]:
            sizes[cell] += 1
            for j in range(near.shape[1]):
                word = near[i, j]
                uses[cell, word] += 1
                best[cell, word] = max(best[cell, word], np.float32(weights[i, j]))
    columns = np.empty(min(best.size, cells.size * near.shape[1]), np.int32)
    values = np.empty(len(columns), np.float32)
    count = 0
    for cell in range(n_cells):
        for word in range(n_words):
            if uses[cell, word] == 0:
                continue
            value = best[cell, word]
            if uses[cell, word] < sizes[cell]:
                value = max(value, np.float32(0))
            if value != 0:
                columns[count], values[count] = cell * n_words + word, value
                count += 1
    return columns[:count], values[:count]
