"""From rows to the real values whose signs are the bits, and to packed codes: the passes of every method."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch import codes, compute
from isch.codes import Codes
from isch.errors import InputError
from isch.features import Block, finite
from isch.lazy import issparse

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
