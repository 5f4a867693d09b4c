"""Kernels of multi-index hashing: rows sorted by the value of a few of their bits, looked up near a query's value."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from isch.join.kernels import popcount
from isch.scan.source import LANES

HIGH_BITS = 11  # of values that rows are sorted by first


class Tables(NamedTuple):
    """For each part of the code, its bits (part, bit) as word and shift, and the rows of each value of these bits.

    The rows whose part has the value v are rows[part, offsets[part, v] : offsets[part, v + 1]].
    """

    word: NDArray[np.int64]
    shift: NDArray[np.uint64]
    offsets: NDArray[np.uint32]
    rows: NDArray[np.uint32]


class Probes(NamedTuple):
    """What to look up: for each part how many of the flips, and how many bits those change at most; −1: none."""

    flips: NDArray[np.uint32]
    counts: NDArray[np.int64]
    reach: NDArray[np.int64]


@njit(cache=True, nogil=True)
def value(words, row, word, shift):  # type: ignore[no-untyped-def]
    """The bits of a part of a row of words, as a number."""
    total = np.uint64(0)
    for bit in range(len(word)):
        total |= ((words[row, word[bit]] >> shift[bit]) & np.uint64(1)) << np.uint64(bit)
    return total


@njit(cache=True, nogil=True)
def _values(tiles, word, shift, n):  # type: ignore[no-untyped-def]
    """The same of every row of tiles."""
    values, some = np.empty(n, np.uint32), np.empty(LANES, np.uint64)
    for tile in range(len(tiles)):
        some[:] = 0
        for bit in range(len(word)):
            for lane in range(LANES):
                set_here = (tiles[tile, word[bit], lane] >> shift[bit]) & np.uint64(1)
                some[lane] |= set_here << np.uint64(bit)
        for lane in range(min(LANES, n - tile * LANES)):
            values[tile * LANES + lane] = some[lane]
    return values


@njit(cache=True, nogil=True)
def fill_table(tiles, word, shift, offsets, rows):  # type: ignore[no-untyped-def]
    """Sort all rows by the value of a part, equal values in the order of rows; ``offsets`` must be zero.

    They are sorted by the upper bits first, so that what follows happens within the cache.
    """
    values = _values(tiles, word, shift, len(rows))
    low = np.uint32(max(0, len(word) - HIGH_BITS))
    starts = np.zeros((1 << min(HIGH_BITS, len(word))) + 1, np.int64)
    for row in range(len(rows)):
        starts[(values[row] >> low) + 1] += 1
    starts = np.cumsum(starts)
    free, coarse = starts[:-1].copy(), np.empty(len(rows), np.uint64)  # value and row in one
    for row in range(len(rows)):
        at = free[values[row] >> low]
        coarse[at] = np.uint64(values[row]) << np.uint64(32) | np.uint64(row)
        free[values[row] >> low] = at + 1
    for high in range(len(starts) - 1):
        _sort_few(coarse, starts[high], starts[high + 1], offsets, np.int64(high) << low, np.int64(1) << low, rows)
    offsets[-1] = len(rows)


@njit(cache=True, nogil=True)
def _sort_few(coarse, first, last, offsets, lowest, n_values, rows):  # type: ignore[no-untyped-def]
    """Sort some of the rows, which have n values from the lowest one on, and set the offsets of these."""
    counts = np.zeros(n_values + 1, np.int64)
    for i in range(first, last):
        counts[np.int64(coarse[i] >> np.uint64(32)) - lowest + 1] += 1
    counts[0] = first
    for value in range(n_values):
        offsets[lowest + value] = counts[value]
        counts[value + 1] += counts[value]
    for i in range(first, last):
        value = np.int64(coarse[i] >> np.uint64(32)) - lowest
        rows[counts[value]] = np.uint32(coarse[i] & np.uint64(0xFFFFFFFF))
        counts[value] += 1


@njit(cache=True, nogil=True)
def _counted(tables, probes, part, start):  # type: ignore[no-untyped-def]
    """How many rows have a part near a value."""
    count = np.int64(0)
    for i in range(probes.counts[part]):
        near = np.int64(np.uint32(start) ^ probes.flips[i])
        count += np.int64(tables.offsets[part, near + 1]) - np.int64(tables.offsets[part, near])
    return count


@njit(cache=True, nogil=True)
def count_near(queries, tables, probes):  # type: ignore[no-untyped-def]
    """How many candidates each query has, in all parts."""
    totals = np.zeros(len(queries), np.int64)
    for query in range(len(queries)):
        for part in range(len(probes.counts)):
            start = value(queries, query, tables.word[part], tables.shift[part])
            totals[query] += _counted(tables, probes, part, start)
    return totals


@njit(cache=True, nogil=True)
def _gathered(tables, probes, part, start, candidates):  # type: ignore[no-untyped-def]
    """Copy these rows; gives how many they are."""
    count = 0
    for i in range(probes.counts[part]):
        near = np.int64(np.uint32(start) ^ probes.flips[i])
        for at in range(np.int64(tables.offsets[part, near]), np.int64(tables.offsets[part, near + 1])):
            candidates[count] = tables.rows[part, at]
            count += 1
    return count


@njit(cache=True, nogil=True)
def _seen(tables, probes, part, differing):  # type: ignore[no-untyped-def]
    """Whether an earlier part finds a row too, from the words in which it differs from the query."""
    for earlier in range(part):
        apart = popcount(value(differing, 0, tables.word[earlier], tables.shift[earlier]))
        if probes.counts[earlier] and apart <= probes.reach[earlier]:
            return True
    return False


@njit(cache=True, nogil=True)
def probe(tiles, queries, tables, probes, radius, room, given_up):  # type: ignore[no-untyped-def]
    """Every (query, distance, row) within the radius; a query with more candidates than there is room is given up."""
    n_parts, n_words = len(probes.counts), queries.shape[1]
    candidates, differing = np.empty(room, np.uint32), np.empty((1, n_words), np.uint64)
    found, count, values = np.empty((1024, 3), np.int64), 0, np.empty(n_parts, np.uint64)
    for query in range(len(queries)):
        total = 0
        for part in range(n_parts):
            values[part] = value(queries, query, tables.word[part], tables.shift[part])
            total += _counted(tables, probes, part, values[part])
        given_up[query] = total > room
        if given_up[query]:
            continue
        for part in range(n_parts):
            for i in range(_gathered(tables, probes, part, values[part], candidates)):
                row, distance, word = candidates[i], 0, 0
                tile, lane = row // LANES, row % LANES
                while word < n_words and distance <= radius:
                    differing[0, word] = tiles[tile, word, lane] ^ queries[query, word]
                    distance += popcount(differing[0, word])
                    word += 1
                if distance <= radius and not _seen(tables, probes, part, differing):
                    if count == len(found):
                        found = np.concatenate((found, np.empty_like(found)))
                    found[count, 0], found[count, 1], found[count, 2] = query, distance, row
                    count += 1
    return found[:count]
