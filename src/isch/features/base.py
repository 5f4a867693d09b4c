"""The contract of a feature matrix of any size, in memory, on disk or elsewhere."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from isch.lazy import issparse, sparse

Block = Union[NDArray[Any], "sparse.csr_array"]  # consecutive rows of a feature matrix, dense or sparse

SLAB_BYTES = 64 << 20  # what a source with slow random access reads at once


class Features(ABC):
    """A matrix of numbers, one row per item, read in blocks of consecutive rows.

    ``shape`` and ``dtype`` are those of the matrix. A source implements ``read``; the rest follows. It can be read any
    number of times, and never has more than one slab in memory.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    where: str = "the features"  # the name of this source in messages
    here: bool = False  # whether the rows are in the memory of this process, so that others had to be sent them
    _names: Sequence[str] | None = None

    @abstractmethod
    def read(self, start: int, stop: int) -> Block:
        """Rows ``start`` to ``stop`` (exclusive)."""

    @property
    def names(self) -> Sequence[str] | None:
        """One name per row, or None."""
        if self._names is None:
            self._names = self._load_names()
        return self._names

    @names.setter
    def names(self, names: Sequence[str] | None) -> None:
        self._names = names

    def batches(self, rows: int) -> Iterator[tuple[int, Block]]:
        """(first row, block) of ``rows`` rows each; the last block may be shorter."""
        for start in range(0, len(self), rows):
            yield start, self.read(start, min(start + rows, len(self)))

    def take(self, rows: NDArray[np.intp]) -> Block:
        """The given rows, which must be sorted and differ."""
        step = self.slab(1)
        parts = [self._pick(start, rows, step) for start in np.unique(rows // step) * step]
        return stack(parts) if parts else self.read(0, 0)

    def close(self) -> None:
        """Close open files. The next read opens them again."""
        return

    def check(self) -> None:
        """Refuse files that have changed since they were opened; every pass begins with it."""
        return

    def version(self) -> list[Any]:
        """What tells this matrix from another, or from itself before it changed, without reading it; as JSON."""
        return [self.where, *self.shape, str(self.dtype)]

    def __len__(self) -> int:
        return self.shape[0]

    def _load_names(self) -> Sequence[str] | None:
        """The names; read when they are first used."""
        return None

    def _pick(self, start: int, rows: NDArray[np.intp], step: int) -> Block:
        inside = rows[np.searchsorted(rows, start) : np.searchsorted(rows, start + step)]
        return self.read(start, min(start + step, len(self)))[inside - start]

    def slab(self, rows: int) -> int:
        """A multiple of ``rows`` that is about SLAB_BYTES."""
        return max(1, SLAB_BYTES // max(1, rows * self.shape[1] * self.dtype.itemsize)) * rows


class SlabFeatures(Features):
    """A source where each read has a high fixed cost: it reads slabs and cuts blocks from them."""

    def batches(self, rows: int) -> Iterator[tuple[int, Block]]:
        for first, slab in super().batches(self.slab(rows)):
            for start in range(0, slab.shape[0], rows):
                yield first + start, slab[start : start + rows]


class Span(SlabFeatures):
    """Consecutive rows of another feature matrix."""

    def __init__(self, features: Features, start: int, stop: int) -> None:
        self.shape = (stop - start, features.shape[1])
        self.dtype = features.dtype
        self.where = features.where
        self.here = features.here
        self._features = features
        self._start = start

    def read(self, start: int, stop: int) -> Block:
        return self._features.read(self._start + start, self._start + stop)

    def slab(self, rows: int) -> int:
        return self._features.slab(rows)

    def check(self) -> None:
        self._features.check()

    def close(self) -> None:
        self._features.close()


class Subset(SlabFeatures):
    """Some rows of another feature matrix, given by their sorted numbers."""

    def __init__(self, features: Features, rows: NDArray[np.intp]) -> None:
        self.shape = (len(rows), features.shape[1])
        self.dtype = features.dtype
        self.where = features.where
        self.here = features.here
        self._features = features
        self._rows = rows

    def read(self, start: int, stop: int) -> Block:
        rows = self._rows[start:stop]
        if len(rows) and rows[-1] - rows[0] + 1 == len(rows):  # as if nothing were left out
            return self._features.read(int(rows[0]), int(rows[-1]) + 1)
        return self._features.take(rows)

    def take(self, rows: NDArray[np.intp]) -> Block:
        return self._features.take(self._rows[rows])

    def check(self) -> None:
        self._features.check()

    def close(self) -> None:
        self._features.close()


def stack(blocks: Sequence[Block]) -> Block:
    """Stack blocks vertically; the result is sparse if all of them are."""
    matrices = [block for block in blocks if issparse(block)]
    if matrices and len(matrices) == len(blocks):
        return sparse.csr_array(sparse.vstack(matrices))
    return np.concatenate([dense(block, None) for block in blocks])


def dense(block: Block, dtype: Any = np.float32) -> NDArray[Any]:
    """The block as an ordinary array of floats."""
    return np.asarray(block.toarray() if issparse(block) else block, dtype=dtype)
