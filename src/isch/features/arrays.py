"""Feature matrices that are already objects: NumPy arrays, SciPy sparse matrices, Dask arrays."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.errors import require
from isch.features.base import Block, Features, SlabFeatures
from isch.features.checks import check_matrix


class ArrayFeatures(Features):
    """A NumPy array (memory-mapped or not) or a SciPy CSR matrix."""

    here = True

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
    """A Dask array. Here it is computed slab by slab on whatever scheduler is active; a worker computes its own."""

    def __init__(self, array: Any, where: str = "the Dask array") -> None:
        self.shape = check_matrix(array.shape, array.dtype, where)
        self.dtype = array.dtype
        self.where = where
        self._array = array

    def read(self, start: int, stop: int) -> Block:
        rows = self._array[start:stop]
        if not on_a_worker():
            return np.asarray(rows.compute())
        if not _is_on_the_cluster(rows):
            return np.asarray(rows.compute(scheduler="synchronous"))
        with require("distributed", "cluster").worker_client():
            return np.asarray(rows.compute())


def on_a_worker() -> bool:
    """Whether this is a task of a Dask worker, which must not wait for other tasks without saying so."""
    if "distributed" not in sys.modules:
        return False
    try:
        return bool(sys.modules["distributed"].get_worker())
    except ValueError:
        return False


def _is_on_the_cluster(array: Any) -> bool:
    """Whether a part of a Dask array was computed already, and lies on the workers."""
    from distributed import Future
    from distributed.client import futures_of

    return any(isinstance(part, Future) for part in futures_of(array))
