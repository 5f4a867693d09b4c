"""The contract of a feature matrix, however large and wherever it lies."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack

from isch.errors import InputError

Block = NDArray[Any] | csr_array  # some consecutive rows of a feature matrix: dense, or sparse in CSR form

SLAB_BYTES = 64 << 20  # what a source with slow random access reads at once


class Features(ABC):
    """A matrix of numbers, one row an item, read in blocks of consecutive rows.

    ``shape`` and ``dtype`` are those of the matrix; ``names`` has one name a row, or is None. A source gives
    ``read``; the rest follows. It can be gone through any number of times, and never holds more than one slab.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    names: Sequence[str] | None = None
    where: str = "the features"  # how messages call this source

    @abstractmethod
    def read(self, start: int, stop: int) -> Block:
        """Rows ``start`` to ``stop`` (exclusive)."""

    def batches(self, rows: int) -> Iterator[tuple[int, Block]]:
        """(first row, block) of ``rows`` rows each; the last block may be shorter."""
        for start in range(0, len(self), rows):
            yield start, self.read(start, min(start + rows, len(self)))

    def take(self, rows: NDArray[np.intp]) -> Block:
        """The given rows, which must be sorted."""
        step = self._slab(1)
        parts = [self._pick(start, rows, step) for start in np.unique(rows // step) * step]
        return stack(parts) if parts else self.read(0, 0)

    def __len__(self) -> int:
        return self.shape[0]

    def _pick(self, start: int, rows: NDArray[np.intp], step: int) -> Block:
        inside = rows[np.searchsorted(rows, start) : np.searchsorted(rows, start + step)]
        return self.read(start, min(start + step, len(self)))[inside - start]

    def _slab(self, rows: int) -> int:
        """A multiple of ``rows`` that is about SLAB_BYTES."""
        return max(1, SLAB_BYTES // max(1, rows * self.shape[1] * self.dtype.itemsize)) * rows


class SlabFeatures(Features):
    """A source where each read has a high fixed cost: it reads slabs and cuts blocks from them."""

    def batches(self, rows: int) -> Iterator[tuple[int, Block]]:
        for first, slab in super().batches(self._slab(rows)):
            for start in range(0, slab.shape[0], rows):
                yield first + start, slab[start : start + rows]


class Subset(Features):
    """Some rows of another feature matrix, given by their sorted numbers."""

    def __init__(self, features: Features, rows: NDArray[np.intp]) -> None:
        self.shape = (len(rows), features.shape[1])
        self.dtype = features.dtype
        self.where = features.where
        self._features = features
        self._rows = rows

    def read(self, start: int, stop: int) -> Block:
        return self._features.take(self._rows[start:stop])


def stack(blocks: Sequence[Block]) -> Block:
    """Blocks one below the other."""
    sparse = [block for block in blocks if isinstance(block, csr_array)]
    return csr_array(vstack(sparse)) if sparse else np.concatenate([dense(block, None) for block in blocks])


def dense(block: Block, dtype: Any = np.float32) -> NDArray[Any]:
    """The block as an ordinary array of floats."""
    return np.asarray(block.toarray() if issparse(block) else block, dtype=dtype)


def finite(block: Block) -> bool:
    """Whether no value is NaN or infinite. A finite sum says so in one pass; else each value is asked."""
    values = block.data if issparse(block) else block
    if not np.issubdtype(values.dtype, np.floating):
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()) or np.isfinite(values).all())


def check_finite(features: Features) -> None:
    """Refuse NaN and infinity, with their number and the first row that has one."""
    count, first = 0, -1
    for start, block in features.batches(4096):
        bad = ~np.isfinite(dense(block, np.float64))
        if bad.any():
            count += int(bad.sum())
            first = first if first >= 0 else start + int(bad.any(axis=1).argmax())
    if count:
        raise InputError(
            f"{features.where}: {count} value{'s are' if count > 1 else ' is'} NaN or infinity, "
            f"the first in row {first}; expected finite numbers"
        )


def check_matrix(shape: tuple[int, ...], dtype: np.dtype[Any], where: str) -> tuple[int, int]:
    """Refuse what is not a matrix of real numbers with at least one row and column."""
    if len(shape) != 2:
        raise InputError(f"{where}: expected a matrix (rows, columns); got shape {tuple(shape)}")
    if not (np.issubdtype(dtype, np.floating) or np.issubdtype(dtype, np.integer) or dtype == np.bool_):
        raise InputError(f"{where}: expected real numbers; got dtype {dtype}")
    if 0 in shape:
        raise InputError(f"{where}: expected at least one row and one column; got shape {tuple(shape)}")
    return int(shape[0]), int(shape[1])
