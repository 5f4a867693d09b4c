"""Feature matrices that are already objects: NumPy arrays, SciPy sparse matrices, Dask arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.features.base import Block, Features, SlabFeatures
from isch.features.checks import check_matrix


class ArrayFeatures(Features):
    """A NumPy array (memory-mapped or not) or a SciPy CSR matrix."""

    def __init__(self, array: Block, where: str = "the array", names: Sequence[str] | None = None) -> None:
        self.shape = check_matrix(array.shape, array.dtype, where)
        self.dtype = array.dtype
        self.where = where
        self.names = names
        self._array = array

    def read(self, start: int, stop: int) -> Block:
        return self._array[start:stop]

    def take(self, rows: NDArray[np.intp]) -> Block:
        return self._array[rows]


class DaskFeatures(SlabFeatures):
    """A Dask array, computed slab by slab on whatever scheduler is active."""

    def __init__(self, array: Any, where: str = "the Dask array") -> None:
        self.shape = check_matrix(array.shape, array.dtype, where)
        self.dtype = array.dtype
        self.where = where
        self._array = array

    def read(self, start: int, stop: int) -> Block:
        return np.asarray(self._array[start:stop].compute())
