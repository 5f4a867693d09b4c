"""Pairs of codes within a radius, among tiles of rows or within buckets: each pair once, the earlier row first.

The 8 rows of a tile lie word by word, just as a group of queries does; so a tile is compared with the tiles after it by
the search kernel itself. A bucket of more than a few rows is copied into tiles first.
"""

from typing import NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from isch.scan.kernels.tiles import group_widths, lowest_bit, next_hit, place, prepare
from isch.scan.source import LANES

WIDTH = max(group_widths())
FEW = 16  # rows of a bucket that are compared one by one
_LATER = np.array([(0xFF << (lane + 1)) & 0xFF for lane in range(LANES)], np.uint64)


class Found(NamedTuple):
    """Room for pairs of rows."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    distance: NDArray[np.int32]

    @classmethod
    def empty(cls, size: int) -> "Found":
        """Room for so many pairs."""
        return cls(np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int32))

    def cut(self, size: int) -> "Found":
        """A copy of the first pairs."""
        return Found(self.first[:size].copy(), self.second[:size].copy(), self.distance[:size].copy())


class Agreement(NamedTuple):
    """On which parts of the code the two rows of a pair must agree, and on which they must not.

    Without it a pair that agrees on several parts would be found once for each. ``masks`` are the bits of each part,
    uint64 (parts, words).
    """

    masks: NDArray[np.uint64]
    wanted: NDArray[np.bool_]


@intrinsic
def popcount(typing, word):  # type: ignore[no-untyped-def]
    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), codegen


@njit(cache=True, nogil=True)
def _lanes_of(tile, n):  # type: ignore[no-untyped-def]
    """The lanes of a tile that hold one of n rows."""
    missing = LANES * (tile + 1) - n
    return np.uint64(255 >> missing) if missing > 0 else np.uint64(255)


@njit(cache=True, nogil=True)
def _pairs_of_group(tiles, n, query, lane, first, last, scan, found, count):  # type: ignore[no-untyped-def]
    """Enter the pairs of WIDTH rows, those of tile ``query`` from a lane on, with later rows in tiles first:last."""
    queries, limits, out = scan
    words, tile = tiles.shape[1], first
    queries[:] = tiles[query, :, lane : lane + WIDTH]
    prepare(queries)
    at = place(tiles, queries, limits, out)
    while tile < last:
        tile = next_hit(at, tile, last, words, WIDTH)
        if tile == last:
            break
        mask, lanes = np.uint64(out[-1]), _lanes_of(tile, n)
        while mask:
            hit = lowest_bit(mask)
            mask &= mask - np.uint64(1)
            q, row = hit // LANES, hit % LANES
            possible = lanes & _LATER[lane + q] if tile == query else lanes
            if (possible >> np.uint64(row)) & np.uint64(1):
                found.first[count] = query * LANES + lane + q
                found.second[count] = tile * LANES + row
                found.distance[count] = out[hit] + limits[q]
                count += 1
        tile += 1
    return count


@njit(cache=True, nogil=True)
def pairs_of_tiles(tiles, n, start, first, last, radius, found):  # type: ignore[no-untyped-def]
    """Enter the pairs within ``radius`` of a row in tiles start:last and a later one in tiles first:last, of n rows.

    Stops when ``found`` might be too small for the next tile; returns the pairs entered and the tile to continue with.
    """
    words, count = tiles.shape[1], 0
    scan = (
        np.empty((words, WIDTH), np.uint64),
        np.full(WIDTH, radius + 1, np.int64),
        np.empty(LANES * WIDTH + 1, np.int64),
    )
    for query in range(start, last):
        least = max(first, query)
        if count + LANES * LANES * (last - least) > len(found.first):
            return count, query
        for lane in range(0, LANES, WIDTH):
            count = _pairs_of_group(tiles, n, query, lane, least, last, scan, found, count)
    return count, last


@njit(cache=True, nogil=True)
def _agree(words, a, b, agreement):  # type: ignore[no-untyped-def]
    """Whether two rows agree on just the parts that they should."""
    for part in range(len(agreement.wanted)):
        word = 0
        while word < words.shape[1] and ((words[a, word] ^ words[b, word]) & agreement.masks[part, word]) == 0:
            word += 1
        if (word == words.shape[1]) != agreement.wanted[part]:
            return False
    return True


@njit(cache=True, nogil=True)
def keep_agreeing(words, rows, agreement, found, count):  # type: ignore[no-untyped-def]
    """Turn pairs of places in a list of rows into pairs of rows, keep those that agree as they should, count them."""
    kept = 0
    for i in range(count):
        a, b = rows[found.first[i]], rows[found.second[i]]
        if _agree(words, a, b, agreement):
            found.first[kept], found.second[kept], found.distance[kept] = a, b, found.distance[i]
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def _compare_few(words, rows, radius, agreement, found, count):  # type: ignore[no-untyped-def]
    """Enter the pairs of a few rows."""
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            a, b, distance, word = rows[i], rows[j], 0, 0
            while word < words.shape[1] and distance <= radius:
                distance += popcount(words[a, word] ^ words[b, word])
                word += 1
            if distance <= radius and _agree(words, a, b, agreement):
                found.first[count], found.second[count], found.distance[count] = a, b, distance
                count += 1
    return count


@njit(cache=True, nogil=True)
def _compare_many(words, rows, radius, agreement, found, count, tiles):  # type: ignore[no-untyped-def]
    """The same through tiles."""
    n = len(rows)
    for i in range(n):
        for word in range(words.shape[1]):
            tiles[i // LANES, word, i % LANES] = words[rows[i], word]
    last = -(-n // LANES)
    tail = Found(found.first[count:], found.second[count:], found.distance[count:])
    candidates, _ = pairs_of_tiles(tiles, n, 0, 0, last, radius, tail)
    return count + keep_agreeing(words, rows, agreement, tail, candidates)


@njit(cache=True, nogil=True)
def bucket_end(keys, start, low):  # type: ignore[no-untyped-def]
    """Where the bucket that begins at a key ends."""
    end = start + 1
    while end < len(keys) and (keys[end] ^ keys[start]) <= low:
        end += 1
    return end


@njit(cache=True, nogil=True)
def pairs_of_buckets(words, keys, limits, start, agreement, found):  # type: ignore[no-untyped-def]
    """Enter the pairs of each bucket, from key ``start`` on.

    ``limits`` are the bits of a key that hold the row, the rows of a bucket that is not passed over, and the radius.
    Stops when ``found`` might be too small for the next bucket; returns the pairs entered and the key to continue with.
    """
    bits, largest, radius = limits
    low, count = (np.uint64(1) << np.uint64(bits)) - np.uint64(1), 0
    rows = np.empty(largest, np.int64)
    tiles = np.empty((-(-largest // LANES), words.shape[1], LANES), np.uint64)
    while start < len(keys):
        end = bucket_end(keys, start, low)
        size = end - start
        if 1 < size <= largest:
            if count + room(size) > len(found.first):
                break
            for i in range(size):
                rows[i] = np.int64(keys[start + i] & low)
            if size <= FEW:
                count = _compare_few(words, rows[:size], radius, agreement, found, count)
            else:
                count = _compare_many(words, rows[:size], radius, agreement, found, count, tiles)
        start = end
    return count, start


@njit(cache=True, nogil=True)
def room(size):  # type: ignore[no-untyped-def]
    """The room that ``pairs_of_tiles`` asks for among so many rows."""
    tiles = -(-size // LANES)
    return LANES * LANES * tiles * (tiles + 1) // 2


@njit(cache=True, nogil=True)
def bucket_borders(keys, bits, largest):  # type: ignore[no-untyped-def]
    """(first, last) of the buckets of more than ``largest`` rows."""
    low, count, start = (np.uint64(1) << np.uint64(bits)) - np.uint64(1), 0, 0
    borders = np.empty((len(keys) // (largest + 1) + 1, 2), np.int64)
    while start < len(keys):
        end = bucket_end(keys, start, low)
        if end - start > largest:
            borders[count, 0], borders[count, 1] = start, end
            count += 1
        start = end
    return borders[:count]
