"""Pairs of codes within a radius, among tiles of rows: each pair once, the earlier row first.

The 8 rows of a tile lie word by word, just as a group of queries does; so a tile is compared with the tiles after it by
the search kernel itself.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from isch.search.kernels import LANES, group_widths, next_hit, place
from isch.search.selection import _lowest_bit, _step

WIDTH = max(group_widths())
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
    at, step = place(tiles, queries, limits, out), _step(words, limits)
    while tile < last:
        tile = next_hit(at, tile, last, words, step, WIDTH)
        if tile == last:
            break
        mask, lanes = np.uint64(out[-1]), _lanes_of(tile, n)
        while mask:
            hit = _lowest_bit(mask)
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

    Stops where ``found`` might be too small for the next tile; returns the pairs entered and the tile to go on with.
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
def expand(found, order, offsets, pair, member, out):  # type: ignore[no-untyped-def]
    """Pairs of rows from pairs of distinct codes, beginning with a member of the first code of a pair.

    Code c has the rows order[offsets[c]:offsets[c + 1]]; a pair of a code with itself stands for the pairs of its rows.
    Stops where ``out`` might be too small for the next member; returns the pairs entered, and pair and member to go on
    with.
    """
    count = 0
    while pair < len(found.first):
        a, b, distance = found.first[pair], found.second[pair], found.distance[pair]
        size = offsets[b + 1] - offsets[b]
        while member < offsets[a + 1] - offsets[a]:
            if count + size > len(out.first):
                return count, pair, member
            one = order[offsets[a] + member]
            for at in range(offsets[b] + (member + 1 if a == b else 0), offsets[b + 1]):
                out.first[count], out.second[count] = min(one, order[at]), max(one, order[at])
                out.distance[count] = distance
                count += 1
            member += 1
        pair, member = pair + 1, 0
    return count, pair, member
