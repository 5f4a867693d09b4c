"""Sparse rows times a matrix: a kernel that takes the matrix tile by tile, so that it is read from the cache.

SciPy reads a row of the matrix from memory for every value of the sparse rows. Here a tile of the matrix is copied to
where it stays in the cache, and all rows are multiplied by it before the next tile comes.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Matrix = NDArray[np.float32]

COLUMNS, VALUES = 512, 1 << 17  # of a tile: at most so many columns, and half a megabyte
TOGETHER = 4  # values of a sparse row that are added at once: fewer reads and writes of the sum


def multiply(block: Any, matrix: Matrix) -> Matrix:
    """The product of a CSR block in single precision, whose indices are sorted, and a matrix.

    The sum of each row runs over its values in order, whatever other rows the block has.
    """
    out = np.zeros((block.shape[0], matrix.shape[1]), np.float32)
    add_products(block.data, block.indices, block.indptr, matrix, out)
    return out


@njit(cache=True, nogil=True, fastmath={"contract"})  # type: ignore[untyped-decorator]
def add_products(data: Matrix, indices: NDArray[Any], indptr: NDArray[Any], matrix: Matrix, out: Matrix) -> None:
    """Add the product to ``out``."""
    width = min(COLUMNS, matrix.shape[1])
    rows = VALUES // width
    tile, total = np.zeros((rows, width), np.float32), np.empty(width, np.float32)
    place = np.empty(len(out), np.int64)  # of the first value of each row that no tile has had
    for first in range(0, matrix.shape[1], width):
        columns = slice(first, min(first + width, matrix.shape[1]))
        some = columns.stop - first
        place[:] = indptr[:-1]
        for begin in range(0, matrix.shape[0], rows):
            end = min(begin + rows, matrix.shape[0])
            tile[: end - begin, :some] = matrix[begin:end, columns]
            for i in range(len(out)):
                start = stop = place[i]
                while stop < indptr[i + 1] and indices[stop] < end:
                    stop += 1
                if stop > start:
                    place[i] = stop
                    total[:some] = out[i, columns]
                    _add(data[start:stop], indices[start:stop], begin, tile, total)
                    out[i, columns] = total[:some]


@njit(cache=True, nogil=True, fastmath={"contract"})  # type: ignore[untyped-decorator]
def _add(data: Matrix, indices: NDArray[Any], begin: int, tile: Matrix, total: Matrix) -> None:
    """Add the rows of a tile, each times its value."""
    whole = len(data) // TOGETHER * TOGETHER
    for p in range(0, whole, TOGETHER):
        a, b, c, d = data[p], data[p + 1], data[p + 2], data[p + 3]
        A, B = tile[indices[p] - begin], tile[indices[p + 1] - begin]
        C, D = tile[indices[p + 2] - begin], tile[indices[p + 3] - begin]
        for j in range(len(total)):
            total[j] += a * A[j] + b * B[j] + c * C[j] + d * D[j]
    for p in range(whole, len(data)):
        a, A = data[p], tile[indices[p] - begin]
        for j in range(len(total)):
            total[j] += a * A[j]
