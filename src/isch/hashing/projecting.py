"""From rows to the real values whose signs are the bits, and to packed codes: the passes of every method."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isch import codes, compute, learned
from isch.codes import Codes
from isch.compute import memory
from isch.errors import InputError
from isch.features import Block, Features, finite
from isch.fitting.costs import Size
from isch.fitting.plan import readable_up
from isch.lazy import issparse

if TYPE_CHECKING:
    from isch.hashing.base import Hasher

Projector = Callable[[Block], NDArray[np.floating[Any]]]  # a function or an object of plain data, so that it pickles


class Linear:
    """z = x L − μ L, minus thresholds if there are any.

    Double precision is centred before it is rounded to single, which copies the block once.
    """

    notices = True  # a product with NaN or infinity is never finite

    def __init__(
        self,
        mean: NDArray[np.float64],
        projection: NDArray[np.float32],
        thresholds: NDArray[np.float32] | None = None,
    ) -> None:
        self.mean = mean
        self.projection = projection
        self.thresholds = np.float32(0) if thresholds is None else thresholds
        self._offset = mean.astype(np.float32) @ projection + self.thresholds

    def __call__(self, block: Block) -> NDArray[np.floating[Any]]:
        if block.dtype == np.float64 and not issparse(block):
            return np.asarray(centred(block, self.mean) @ self.projection - self.thresholds)
        values = compute.times(block, self.projection)
        values -= self._offset
        return values

    def quick(self) -> Projector:
        """The same by 8-bit products where the machine is faster at them, else itself."""
        from isch.hashing.quick import ByteLinear, available

        return ByteLinear(self) if available() else self


@dataclass(frozen=True)
class Projecting(compute.Pass[NDArray[np.float32]]):
    """The values whose signs are the bits."""

    projector: Projector
    where: str

    label = "projecting"

    @property
    def notices(self) -> bool:
        return getattr(self.projector, "notices", False)

    def block(self, block: Block, _: int) -> NDArray[np.float32]:
        values = self.projector(block).astype(np.float32, copy=False)
        if not finite(values):
            compute.refuse(block)
            raise InputError(f"{self.where}: {compute.TOO_LARGE}")
        return values


@dataclass(frozen=True)
class Encoding(compute.Pass[Codes]):
    """Packed codes."""

    projecting: Projecting

    label = "encoding"

    @property
    def notices(self) -> bool:
        return self.projecting.notices

    def block(self, block: Block, start: int) -> Codes:
        return codes.pack(self.projecting.block(block, start) >= 0)


def centred(block: NDArray[Any], mean: NDArray[np.float64]) -> NDArray[np.float32]:
    """A dense block minus the mean; double precision is rounded to single only after the subtraction."""
    if block.dtype == np.float64:
        return (block - mean).astype(np.float32)
    return block.astype(np.float32, copy=False) - mean.astype(np.float32)


@contextmanager
def encoding_within(
    hasher: "Hasher", features: Features, bound: str | int | None, rows: int | None = None
) -> Iterator[None]:
    """Encoding inside this block stays within a bound on memory: by fewer threads, where it has to.

    Parameters
    ----------
    hasher, features
        Who encodes what.
    bound : str, int or None
        As in ``memory.bounded``; one that was not asked for is not enforced.
    rows : int, optional
        Rows that are read at once; by default those of a block.

    Raises
    ------
    InputError
        The bound is too small for a single thread.
    """
    size = Size.of(features)
    with memory.bounded(bound) as n_bytes:
        threads = next((t for t in range(compute.n_threads(), 1, -1) if _encoding(hasher, size, rows, t) <= n_bytes), 1)
        least = _encoding(hasher, size, rows, 1)
        if bound is not None and n_bytes < least:
            raise InputError(
                f"{features.where}: memory = {memory.readable(n_bytes)} is too little to encode {size.columns} "
                f"features by {hasher._label} of {hasher.n_bits} bits; expected at least {readable_up(least)}"
            )
        with compute.at_most(threads) if bound is not None else nullcontext():
            yield


def _encoding(hasher: "Hasher", size: Size, rows: int | None, threads: int) -> int:
    """About how many bytes encoding takes: the model, the blocks at work, and what was read ahead, with some room."""
    step = compute.block_rows(size.columns)
    values = 4 * step * (3 * size.columns + 3 * hasher.n_bits)
    return int(learned.n_bytes(hasher._learned()) + threads * values + (3 * threads + 4) * size.bytes(rows or step))
