"""Linear projections by 8-bit products, which processors with AMX or VNNI multiply several times as fast as floats.

Each centred row and each column of L is rounded to whole numbers of −127 to 127 by a scale of its own. Only values near
zero can change their sign: on real features 1 to 6 bits in 1,000 differ from single precision. The products are
NumKong's, from the optional extra ``fast``.
"""

from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from isch.features import Block, dense
from isch.hashing.projecting import Linear, centred
from isch.lazy import issparse

LARGEST = np.float32(127)
AT_ONCE, CACHE_BYTES = 256, 1 << 20  # rows rounded and multiplied at once: at least so many, or that fill a cache
PANEL = 64  # columns of L multiplied at once: NumKong is up to twice as fast as with all, which do not fit into a cache
CAPABLE = ("sapphireamx", "graniteamx", "icelake", "alder", "sierra", "neonsdot")  # NumKong's names
_ROUNDING = np.float32(1.5 * 2**23)  # added to a small number, it leaves its nearest integer in the last bits
_NO_SIGN, _INFINITY, _LAST_BYTE = np.uint32(0x7FFFFFFF), np.uint32(0x7F800000), np.uint32(0xFF)


@cache
def available() -> bool:
    """Whether NumKong is installed and this processor multiplies bytes faster than floats."""
    if find_spec("numkong") is None:
        return False
    import numkong

    found = numkong.get_capabilities()
    return any(found.get(name) for name in CAPABLE)


class ByteLinear:
    """z ≈ (x − μ) L, minus thresholds, from a linear projector, by 8-bit products.

    Sparse rows go the exact way. Rows that are not finite become NaN.
    """

    notices = True

    def __init__(self, exact: Linear) -> None:
        self._exact, projection = exact, exact.projection
        largest = np.abs(projection).max(axis=0)
        self._scales = (np.where(largest > 0, largest, 1) / LARGEST).astype(np.float32)
        self._weights = np.ascontiguousarray(np.rint(projection / self._scales).astype(np.int8).T)
        self._panels: list[Any] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_panels": []}

    def __call__(self, block: Block) -> NDArray[np.float32]:
        if issparse(block):
            return np.asarray(self._exact(block), np.float32)
        import numkong

        if not self._panels:
            starts = range(0, len(self._weights), PANEL)
            self._panels = [numkong.dots_pack(self._weights[start : start + PANEL]) for start in starts]
        rows, mean = dense(block), self._exact.mean.astype(np.float32)
        if block.dtype == np.float64:
            rows, mean = centred(block, self._exact.mean), np.zeros_like(mean)
        values = np.empty((len(rows), len(self._weights)), np.float32)
        step = min(max(AT_ONCE, CACHE_BYTES // rows.shape[1]), max(1, len(rows)))
        rounded, scales = np.empty((step, rows.shape[1]), np.int8), np.empty((step, 1), np.float32)
        room = numkong.empty((step, PANEL), dtype="int32")  # used again and again: new memory costs time
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            n = len(some)
            round_rows(some, mean, rounded, scales)
            for i, panel in enumerate(self._panels):
                columns = slice(i * PANEL, (i + 1) * PANEL)
                whole = n == step and len(self._scales[columns]) == PANEL
                products = numkong.dots_packed(rounded[:n], panel, out=room if whole else None)
                scale(np.asarray(products), scales, self._scales[columns], values[start : start + n, columns])
        if self._exact.thresholds.any():
            values -= self._exact.thresholds
        return values


@njit(cache=True, nogil=True, error_model="numpy")
def scale(products, rows, columns, values):  # type: ignore[no-untyped-def]
    """Products of whole numbers, times the scales of their rows and columns."""
    for i in range(len(products)):
        for j in range(len(columns)):
            values[i, j] = np.float32(products[i, j]) * rows[i, 0] * columns[j]


@njit(cache=True, nogil=True, error_model="numpy")
def round_rows(rows, mean, rounded, scales):  # type: ignore[no-untyped-def]
    """x − μ as whole numbers of −127 to 127 times a scale per row; NaN is the scale of a row that is not finite."""
    values = np.empty(rows.shape[1], np.float32)
    bits = values.view(np.uint32)
    for i in range(len(rows)):
        row, out, largest = rows[i], rounded[i], np.uint32(0)
        for j in range(len(values)):
            values[j] = row[j] - mean[j]
        for j in range(len(values)):
            size = bits[j] & _NO_SIGN
            largest = size if size > largest else largest
        if largest >= _INFINITY:
            scales[i] = np.nan
            continue
        bits[0], first = largest, bits[0]
        scales[i] = values[0] / LARGEST
        bits[0] = first
        inverse = np.float32(1) / scales[i, 0] if largest else np.float32(0)
        for j in range(len(values)):
            values[j] = values[j] * inverse + _ROUNDING
        for j in range(len(values)):
            out[j] = np.int8(bits[j] & _LAST_BYTE)
