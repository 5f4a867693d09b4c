"""Blocks of rows times a matrix, whether they are dense or sparse."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isch.features import Block, dense
from isch.lazy import Lazy, issparse

if TYPE_CHECKING:
    from isch.compute import sparse
else:
    sparse = Lazy("isch.compute.sparse")

LARGE = 1 << 27  # products of single numbers: fewer are done sooner than the kernel is loaded
FILLED = 1 / 128  # of sparse rows: emptier ones leave the kernel too little to do with each tile


def times(block: Block, matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """The product of a block and a matrix, (rows, columns of the matrix), in single precision."""
    if not issparse(block):
        return np.asarray(dense(block) @ matrix)
    if (
        block.nnz * matrix.shape[1] >= LARGE
        and block.nnz >= FILLED * block.shape[0] * block.shape[1]
        and block.dtype == matrix.dtype == np.float32
        and block.has_sorted_indices
    ):
        return sparse.multiply(block, matrix)
    return np.asarray(block @ matrix, np.float32)
