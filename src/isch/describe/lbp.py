"""Local binary patterns: which neighbours of a pixel are at least as bright, counted over a grid of cells.

T. Ojala, M. Pietikäinen, T. Mäenpää, "Multiresolution gray-scale and rotation invariant texture classification with
local binary patterns", PAMI 2002. Of the 256 patterns of 8 neighbours, the 58 uniform ones (at most two changes around
the circle) have a bin each and the rest share one: 59 bins × 10 × 10 cells = 5,900 values.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from isch.describe.base import Describer, unit_rows
from isch.describe.images import Image, grey
from isch.errors import InputError
from isch.features import Block
from isch.parameters import POSITIVE, StrOptions

N_BINS = 59
# (row, column) of the neighbours, counter-clockwise from the right
NEIGHBOURS = np.array([(0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1), (1, 0), (1, 1)], np.int64)
DIAGONAL = np.sqrt(0.5)


class LBP(Describer):
    """Histograms of uniform local binary patterns over ``grid`` × ``grid`` cells; unit length.

    Parameters
    ----------
    grid : int
        Cells along each side.
    sampling : {"square", "circle"}
        "square" compares with the eight touching pixels. "circle" is Ojala's definition: diagonal neighbours lie at
        distance 1 and are interpolated.
    root : bool
        Whether to take the square root of each count.
    """

    name = "lbp"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "grid": [POSITIVE],
        "sampling": [StrOptions({"square", "circle"})],
        "root": ["boolean"],
    }

    def __init__(self, grid: int = 10, sampling: str = "square", root: bool = False) -> None:
        self.grid = grid
        self.sampling = sampling
        self.root = root

    @property
    def n_features_out(self) -> int:
        return N_BINS * self.grid**2

    def _prepare(self, image: Image) -> NDArray[np.float32]:
        if min(image.shape[:2]) < self.grid + 2:
            raise InputError(
                f"expected at least {self.grid + 2} × {self.grid + 2} pixels; got {image.shape[1]} × {image.shape[0]}"
            )
        counts = histograms(grey(image), bins(), self.grid, self.sampling == "circle")
        return np.asarray(np.sqrt(counts) if self.root else counts, np.float32).ravel()

    def _describe(self, batch: Sequence[NDArray[np.float32]]) -> Block:
        return unit_rows(np.stack(batch))


@lru_cache(maxsize=1)
def bins() -> NDArray[np.uint8]:
    """The bin of each pattern: uniform ones by value, then all others together."""
    patterns = np.arange(256)
    bits = patterns[:, None] >> np.arange(8) & 1
    uniform = (bits != np.roll(bits, 1, axis=1)).sum(axis=1) <= 2
    table = np.full(256, N_BINS - 1, np.uint8)
    table[uniform] = np.arange(uniform.sum())
    return table


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def histograms(
    image: NDArray[np.float32], table: NDArray[np.uint8], grid: int, circle: bool
) -> NDArray[np.int64]:  # pragma: no cover
    """Counts (grid², bins) of the inner pixels; pixel row y of h is in cell row floor(y · grid / h)."""
    height, width = image.shape[0] - 2, image.shape[1] - 2
    counts = np.zeros((grid * grid, N_BINS), np.int64)
    for y in range(height):
        row = y * grid // height * grid
        for x in range(width):
            centre = image[y + 1, x + 1]
            pattern = 0
            for k in range(8):
                dy, dx = NEIGHBOURS[k, 0], NEIGHBOURS[k, 1]
                value = np.float64(image[y + 1 + dy, x + 1 + dx] - centre)
                if circle and k % 2 == 1:
                    across = np.float64(image[y + 1, x + 1 + dx] - centre)
                    along = np.float64(image[y + 1 + dy, x + 1] - centre)
                    value = DIAGONAL * (DIAGONAL * value + (1 - DIAGONAL) * (across + along))
                if value >= 0:
                    pattern |= 1 << k
            counts[row + x * grid // width, table[pattern]] += 1
    return counts
