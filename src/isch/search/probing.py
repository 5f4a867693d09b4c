"""Kernels of multi-index hashing: rows sorted by the value of a few of their bits, looked up near a query's value."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from isch.search.pair_kernels import popcount


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
    """The bits of a part of a row, as a number."""
    total = np.uint64(0)
    for bit in range(len(word)):
        total |= ((words[row, word[bit]] >> shift[bit]) & np.uint64(1)) << np.uint64(bit)
    return total


@njit(cache=True, nogil=True)
def fill_table(words, word, shift, offsets, rows):  # type: ignore[no-untyped-def]
    """Sort all rows by the value of a part, equal values in the order of rows; ``offsets`` must be zero."""
    values = np.empty(len(words), np.uint32)
    for row in range(len(words)):
        values[row] = value(words, row, word, shift)
        offsets[values[row] + np.uint32(1)] += np.uint32(1)
    for i in range(1, len(offsets)):
        offsets[i] += offsets[i - 1]
    for row in range(len(words)):
        at = offsets[values[row]]
        rows[at] = row
        offsets[values[row]] = at + np.uint32(1)
    for i in range(len(offsets) - 1, 0, -1):  # each start moved to the next one's
        offsets[i] = offsets[i - 1]
    offsets[0] = 0


@njit(cache=True, nogil=True)
def _counted(tables, probes, part, start):  # type: ignore[no-untyped-def]
    """How many rows have a part near a value."""
    count = np.int64(0)
    for i in range(probes.counts[part]):
        near = np.int64(np.uint32(start) ^ probes.flips[i])
        count += np.int64(tables.offsets[part, near + 1]) - np.int64(tables.offsets[part, near])
    return count


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
def probe(words, queries, tables, probes, radius, room, given_up):  # type: ignore[no-untyped-def]
    """Every (query, distance, row) within the radius; a query with more candidates than there is room is given up."""
    n_parts = len(probes.counts)
    candidates, differing = np.empty(room, np.uint32), np.empty((1, words.shape[1]), np.uint64)
    found, count, values = np.empty((1024, 3), np.int64), 0, np.empty(n_parts, np.uint64)
    for query in range(len(queries)):
        total = 0
        for part in range(n_parts):
            values[part] = value(queries, query, tables.word[part], tables.shift[part])
            total += _counted(tables, probes, part, values[part])
        if total > room:
            given_up[query] = True
            continue
        for part in range(n_parts):
            for i in range(_gathered(tables, probes, part, values[part], candidates)):
                row, distance, word = candidates[i], 0, 0
                while word < words.shape[1] and distance <= radius:
                    differing[0, word] = words[row, word] ^ queries[query, word]
                    distance += popcount(differing[0, word])
                    word += 1
                if distance <= radius and not _seen(tables, probes, part, differing):
                    if count == len(found):
                        found = np.concatenate((found, np.empty_like(found)))
                    found[count, 0], found[count, 1], found[count, 2] = query, distance, row
                    count += 1
    return found[:count]
