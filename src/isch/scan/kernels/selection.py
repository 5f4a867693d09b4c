"""Which of the distances that ``kernels.next_hit`` finds are kept: the k nearest, all within a radius, or all.

A source of codes is either tiles, uint64 (tile, word, lane), or rows of packed bytes, which are laid out as tiles block
by block while they are in the cache. Rows are visited in order, so that the first of equal distances wins.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from isch.scan.kernels import row_scan
from isch.scan.kernels.layout import lay_out
from isch.scan.kernels.tiles import lowest_bit, next_hit, place
from isch.scan.source import LANES

BLOCK_BYTES = 1 << 17
LARGE_BLOCK_BYTES = 1 << 22
NOTHING = np.iinfo(np.int32).max
_EVERY_LANE = np.uint64(0x0101010101010101)


class Rows(NamedTuple):
    """Which rows may be found: the first n, restricted to ``allowed``, one byte of lanes per tile, if not empty."""

    n: int
    allowed: NDArray[np.uint8]


class Board(NamedTuple):
    """The best rows of each query so far, in order of arrival, and the limit that a row must stay below to enter."""

    distances: NDArray[np.int32]
    rows: NDArray[np.int64]
    counts: NDArray[np.int64]
    limits: NDArray[np.int64]


@njit(cache=True, nogil=True)
def _tiles_a_block(source, groups, words):  # type: ignore[no-untyped-def]
    """Tiles to keep in the cache for all groups of queries; more where nothing is used twice."""
    size = LARGE_BLOCK_BYTES if source.ndim == 3 and groups == 1 else BLOCK_BYTES
    return max(1, size // (64 * words))


@njit(cache=True, nogil=True)
def _scratch(source, words):  # type: ignore[no-untyped-def]
    if source.ndim == 3:
        return np.empty((0, words, LANES), np.uint64)
    return np.empty((_tiles_a_block(source, 0, words), words, LANES), np.uint64)


@njit(cache=True, nogil=True)
def _block(source, first, last, scratch):  # type: ignore[no-untyped-def]
    """Tiles first:last of a source."""
    if source.ndim == 3:
        return source[first:last]
    lay_out(source, first, last, scratch)
    return scratch[: last - first]


@njit(cache=True, nogil=True)
def _possible(mask, tile, rows):  # type: ignore[no-untyped-def]
    """Of a mask of hits in a tile, those that may be found."""
    lanes = np.uint64(rows.allowed[tile]) if rows.allowed.size else np.uint64(255)
    missing = LANES * (tile + 1) - rows.n
    if missing > 0:
        lanes &= np.uint64(255 >> missing)
    return np.uint64(mask) & (lanes * _EVERY_LANE)


@njit(cache=True, nogil=True)
def cut(distances, rows, count, k, histogram):  # type: ignore[no-untyped-def]
    """Keep the k least of ``count`` by (distance, arrival), in order of arrival; returns the k-th distance."""
    least = distances[:count].min()
    greatest = distances[:count].max()
    histogram[: greatest - least + 1] = 0
    for i in range(count):
        histogram[distances[i] - least] += 1
    below, level = 0, 0
    while below + histogram[level] < k:
        below += histogram[level]
        level += 1
    limit, room, kept = least + level, k - below, 0
    for i in range(count):
        distance = distances[i]
        if distance == limit:
            room -= 1
        if distance < limit or (distance == limit and room >= 0):
            distances[kept], rows[kept] = distance, rows[i]
            kept += 1
    return limit


@njit(cache=True, nogil=True)
def _enter(out, tile, rows, board, k, histogram):  # type: ignore[no-untyped-def]
    """Enter the hits of a tile into the board of a group of queries."""
    mask = _possible(out[-1], tile, rows)
    while mask:
        hit = lowest_bit(mask)
        mask &= mask - np.uint64(1)
        q = hit // LANES
        count = board.counts[q]
        board.distances[q, count] = out[hit] + board.limits[q]
        board.rows[q, count] = tile * LANES + hit % LANES
        board.counts[q] = count + 1
        if count + 1 == board.distances.shape[1]:
            limit = cut(board.distances[q], board.rows[q], count + 1, k, histogram)
            for other in range(LANES * q, LANES * q + LANES):
                out[other] += board.limits[q] - limit
            board.limits[q], board.counts[q] = limit, k


@njit(cache=True, nogil=True)
def _keep_nearest(tiles, start, rows, queries, board, k, out, histogram):  # type: ignore[no-untyped-def]
    """Enter the rows of a block into the board of a group of queries; ``start`` is the number of its first tile."""
    n, tile = len(tiles), 0
    words, width = queries.shape
    at = place(tiles, queries, board.limits, out)
    while tile < n:
        tile = next_hit(at, tile, n, words, width)
        if tile == n:
            return
        _enter(out, start + tile, rows, board, k, histogram)
        tile += 1


@njit(cache=True, nogil=True)
def _keep_nearest_rows(source, first, last, rows, query, board, k):  # type: ignore[no-untyped-def]
    """Enter tiles first:last of rows as they lie, without a last tile that is not full; returns the tile after them."""
    last, tile = min(last, len(source) // LANES), first
    words, repeated = len(query), row_scan.pattern(query)
    out, histogram = np.empty(LANES + 1, np.int64), np.empty(64 * words + 1, np.int32)
    data, asked, into = source.ctypes.data, repeated.ctypes.data, out.ctypes.data
    while tile < last:
        tile = row_scan.next_hit(data, tile, last, words, asked, board.limits[0], into)
        if tile < last:
            _enter(out, tile, rows, board, k, histogram)
            tile += 1
    return last


@njit(cache=True, nogil=True)
def scan_nearest(source, first, last, rows, queries, board, k):  # type: ignore[no-untyped-def]
    """Enter tiles first:last of a source into the board of queries (group, word, query)."""
    groups, words, width = queries.shape
    if source.ndim == 2 and groups * width == 1 and row_scan.direct(source.shape[1]):
        first = _keep_nearest_rows(source, first, last, rows, queries[0, :, 0], board, k)
    out, histogram = np.empty(LANES * width + 1, np.int64), np.empty(64 * words + 1, np.int32)
    scratch, step = _scratch(source, words), _tiles_a_block(source, groups, words)
    for start in range(first, last, step):
        tiles = _block(source, start, min(start + step, last), scratch)
        for group in range(groups):
            at, to = group * width, (group + 1) * width
            part = Board(board.distances[at:to], board.rows[at:to], board.counts[at:to], board.limits[at:to])
            _keep_nearest(tiles, start, rows, queries[group], part, k, out, histogram)


@njit(cache=True, nogil=True)
def finish(board, k, n_bits, distances, rows):  # type: ignore[no-untyped-def]
    """Sort each query's best k by (distance, row) into the given arrays; NOTHING and −1 where there are fewer."""
    histogram = np.empty(n_bits + 2, np.int32)
    for q in range(len(distances)):
        count, found, where = board.counts[q], board.distances[q], board.rows[q]
        if count > k:
            cut(found, where, count, k, histogram)
            count = k
        distances[q, count:], rows[q, count:] = NOTHING, -1
        histogram[:] = 0
        for i in range(count):
            histogram[found[i] + 1] += 1
        for level in range(1, n_bits + 1):
            histogram[level] += histogram[level - 1]
        for i in range(count):
            at = histogram[found[i]]
            histogram[found[i]] = at + 1
            distances[q, at], rows[q, at] = found[i], where[i]


@njit(cache=True, nogil=True)
def merge(distances, rows, merged_distances, merged_rows):  # type: ignore[no-untyped-def]
    """Merge sorted lists (part, query, k) of parts in the order of their rows into (query, k)."""
    parts, n_queries, k = distances.shape
    for q in range(n_queries):
        heads = np.zeros(parts, np.int64)
        for column in range(merged_rows.shape[1]):
            best = 0
            least = distances[0, q, heads[0]] if heads[0] < k else NOTHING
            for part in range(1, parts):
                if heads[part] < k and distances[part, q, heads[part]] < least:
                    best, least = part, distances[part, q, heads[part]]
            merged_distances[q, column] = least
            merged_rows[q, column] = rows[best, q, heads[best]] if least != NOTHING else -1
            heads[best] += 1


@njit(cache=True, nogil=True)
def scan_within(source, first, last, rows, queries, limits):  # type: ignore[no-untyped-def]
    """Every row of tiles first:last below its query's limit: (query, distance, row), rows of a query in order."""
    groups, words, width = queries.shape
    out, scratch, step = (
        np.empty(LANES * width + 1, np.int64),
        _scratch(source, words),
        _tiles_a_block(source, groups, words),
    )
    found, count = np.empty((1024, 3), np.int64), 0
    for start in range(first, last, step):
        tiles = _block(source, start, min(start + step, last), scratch)
        for group in range(groups):
            limit, n, tile = limits[group * width : (group + 1) * width], len(tiles), 0
            at = place(tiles, queries[group], limit, out)
            while tile < n:
                tile = next_hit(at, tile, n, words, width)
                if tile == n:
                    break
                if count + LANES * width > len(found):
                    found = np.concatenate((found, np.empty_like(found)))
                mask = _possible(out[-1], start + tile, rows)
                while mask:
                    hit = lowest_bit(mask)
                    mask &= mask - np.uint64(1)
                    q = hit // LANES
                    found[count, 0], found[count, 1] = group * width + q, out[hit] + limit[q]
                    found[count, 2] = (start + tile) * LANES + hit % LANES
                    count += 1
                tile += 1
    return found[:count]


@njit(cache=True, nogil=True)
def sort_hits(found, offsets, radius, rows, distances):  # type: ignore[no-untyped-def]
    """Sort hits by (query, distance, arrival); fills offsets (queries + 1,), rows and distances."""
    levels = radius + 1
    places = np.zeros((len(offsets) - 1) * levels + 1, np.int64)
    for i in range(len(found)):
        places[found[i, 0] * levels + found[i, 1] + 1] += 1
    for i in range(1, len(places)):
        places[i] += places[i - 1]
    for q in range(len(offsets)):
        offsets[q] = places[q * levels]
    for i in range(len(found)):
        cell = found[i, 0] * levels + found[i, 1]
        rows[places[cell]], distances[places[cell]] = found[i, 2], found[i, 1]
        places[cell] += 1


@njit(cache=True, nogil=True)
def scan_all(source, first, last, n, queries, distances):  # type: ignore[no-untyped-def]
    """The distance of each query to each row of tiles first:last, into distances (queries, rows of these tiles)."""
    groups, words, width = queries.shape
    out, limits = np.empty(LANES * width + 1, np.int64), np.full(width, 64 * words + 1, np.int64)
    scratch, step = _scratch(source, words), _tiles_a_block(source, groups, words)
    for start in range(first, last, step):
        tiles = _block(source, start, min(start + step, last), scratch)
        for group in range(groups):
            here = place(tiles, queries[group], limits, out)
            for tile in range(len(tiles)):
                next_hit(here, tile, tile + 1, words, width)
                at = (start + tile - first) * LANES
                lanes = min(LANES, n - (start + tile) * LANES)
                for q in range(min(width, len(distances) - group * width)):
                    for lane in range(lanes):
                        distances[group * width + q, at + lane] = out[q * LANES + lane] + limits[0]
