"""The k smallest distances that are not integers, exactly, with ties by row, on all cores."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from isch.search.hamming import on_all_cores, spans
from isch.search.lookups import Floats
from isch.search.scores import Measure
from isch.search.source import LANES, Source

BLOCK_TILES = 128
_NO_KEY = np.iinfo(np.uint64).max


def nearest(
    source: Source, measure: Measure, n_queries: int, k: int, mask: NDArray[np.bool_]
) -> tuple[Floats, NDArray[np.int64]]:
    """The k least of each query's distances to the rows in ``mask`` (all if it is empty), which are at least k."""
    parts = spans(source.n_tiles)
    keys = on_all_cores(lambda span: _keys(source, measure, n_queries, k, mask, *span), parts)
    rows = [(part & 0xFFFFFFFF).astype(np.int64) + first * LANES for part, (first, _) in zip(keys, parts, strict=True)]
    codes = np.concatenate([(part >> np.uint64(32)).astype(np.uint32) for part in keys], axis=1)
    order = np.argsort(codes, axis=1, kind="stable")[:, :k]
    return _values(np.take_along_axis(codes, order, axis=1)), np.take_along_axis(
        np.concatenate(rows, axis=1), order, axis=1
    )


def distances(source: Source, measure: Measure, out: Floats) -> None:
    """Every distance (query, row)."""

    def fill(span: tuple[int, int]) -> None:
        for first in range(*span, BLOCK_TILES):
            last = min(first + BLOCK_TILES, span[1])
            out[:, first * LANES : last * LANES] = measure(source.block(first, last))

    on_all_cores(fill, spans(source.n_tiles))


def _keys(
    source: Source, measure: Measure, n_queries: int, k: int, mask: NDArray[np.bool_], start: int, stop: int
) -> NDArray[np.uint64]:
    """The k least keys of each query in tiles start:stop, sorted; rows are numbered from the first."""
    keys = np.full((n_queries, min(2 * k, k + LANES * (stop - start)) + 32), _NO_KEY, np.uint64)
    counts, limits = np.zeros(n_queries, np.int64), np.full(n_queries, np.nan, np.float32)
    for first in range(start, stop, BLOCK_TILES):
        last = min(first + BLOCK_TILES, stop)
        allowed = mask[first * LANES : last * LANES]
        keep_least(measure(source.block(first, last)), (first - start) * LANES, allowed, keys, counts, limits, k)
    for found, count in zip(keys, counts, strict=True):
        found[count:] = _NO_KEY
        found.sort()
    return keys[:, :k]


@njit(cache=True, nogil=True)
def keep_least(values, start, allowed, keys, counts, limits, k):  # type: ignore[no-untyped-def]
    """Enter values (query, row) of allowed rows into the k least of each query; a limit is NaN until k are known.

    A key is the value, as an integer in the same order, above the row; rows are numbered from ``start``.
    """
    capacity = keys.shape[1]
    for q in range(len(values)):
        count, limit, bits = counts[q], limits[q], values[q].view(np.uint32)
        for row in range(values.shape[1]):
            if values[q, row] >= limit or (allowed.size and not allowed[row]):
                continue
            code = np.uint64(bits[row])
            code ^= np.uint64(0xFFFFFFFF) if code >> np.uint64(31) else np.uint64(0x80000000)
            keys[q, count] = code << np.uint64(32) | np.uint64(start + row)
            count += 1
            if count == capacity:
                keys[q] = np.sort(keys[q])
                count, limit = k, _value(np.uint32(keys[q, k - 1] >> np.uint64(32)))
        counts[q], limits[q] = count, limit


@njit(cache=True, nogil=True)
def _value(code):  # type: ignore[no-untyped-def]
    one = np.empty(1, np.uint32)
    one[0] = code ^ np.uint32(0x80000000) if code >> np.uint32(31) else ~code
    return one.view(np.float32)[0]


def _values(codes: NDArray[np.uint32]) -> Floats:
    return np.where(codes >> 31, codes ^ np.uint32(0x80000000), ~codes).astype(np.uint32).view(np.float32)
