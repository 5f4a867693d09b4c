"""Codes to search, as they lie in memory or in a file."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isch.codes import Codes
from isch.lazy import Lazy

if TYPE_CHECKING:
    from isch.scan.kernels import layout
else:
    layout = Lazy("isch.scan.kernels.layout")

LANES = 8  # rows per tile


class Source(NamedTuple):
    """Codes to search: tiles uint64 (tile, word, lane), or rows of packed bytes.

    Read-only, so that kernels are compiled for one type alone.
    """

    data: NDArray[Any]
    n_rows: int
    n_bytes: int

    @classmethod
    def of(cls, data: NDArray[Any], n_rows: int, n_bytes: int) -> "Source":
        view = np.asarray(data).view()
        view.flags.writeable = False
        return cls(view, n_rows, n_bytes)

    @property
    def n_tiles(self) -> int:
        return -(-self.n_rows // LANES)

    @property
    def words(self) -> int:
        return -(-self.n_bytes // 8)

    @property
    def laid_out(self) -> bool:
        return self.data.ndim == 3

    def block(self, first: int, last: int) -> "Source":
        """Tiles first:last, laid out."""
        n_rows = min(last * LANES, self.n_rows) - first * LANES
        if self.laid_out:
            return Source(self.data[first:last], n_rows, self.n_bytes)
        tiles = aligned((last - first, self.words, LANES))
        layout.lay_out(self.data, first, last, tiles)
        return Source.of(tiles, n_rows, self.n_bytes)

    def rows(self) -> Codes:
        """The codes, one row each."""
        if not self.laid_out:
            return self.data
        words = np.ascontiguousarray(self.data.transpose(0, 2, 1)).astype("<u8", copy=False)
        return np.ascontiguousarray(words.view(np.uint8).reshape(-1, 8 * self.words)[: self.n_rows, : self.n_bytes])

    def take(self, rows: NDArray[np.int64]) -> "Source":
        """Only the given rows, copied together."""
        if not self.laid_out:
            return Source.of(self.data[rows], len(rows), self.n_bytes)
        tiles = aligned((-(-len(rows) // LANES), self.words, LANES))
        layout.gather(self.data, rows, tiles)
        return Source.of(tiles, len(rows), self.n_bytes)

    def sample(self, stride: int) -> "Source":
        """Every stride-th whole tile, copied together."""
        n_whole = self.n_rows // LANES
        if self.laid_out:
            return Source.of(
                np.ascontiguousarray(self.data[:n_whole:stride]), -(-n_whole // stride) * LANES, self.n_bytes
            )
        whole = self.data[: n_whole * LANES].reshape(n_whole, LANES * self.n_bytes)
        rows = np.ascontiguousarray(whole[::stride]).reshape(-1, self.n_bytes)
        return Source.of(rows, len(rows), self.n_bytes)


def aligned(shape: tuple[int, ...]) -> NDArray[np.uint64]:
    """An empty uint64 array that starts on a cache line, so that no vector straddles two."""
    size = int(np.prod(shape))
    memory = np.empty(size + LANES, np.uint64)
    skip = -memory.ctypes.data % 64 // 8
    return memory[skip : skip + size].reshape(shape)
