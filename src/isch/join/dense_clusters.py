"""Crowds: very many codes close together, which become groups without listing their pairs.

Codes within ⌊r/2⌋ bits of one centre are within r bits of each other. A centre need not be an existing code: it is what
most of the codes around some row have in common.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from isch.codes import Codes
from isch.join.buckets import Words
from isch.join.kernels import popcount
from isch.scan.exact import CodeTable, within

PIVOTS, AT_ONCE = 4096, 8  # rows around which crowds are looked for, and how many of them at a time
LEAST = 64  # rows in a crowd
VIEWED = 1024  # of the codes around a row


class Crowd(NamedTuple):
    """Rows around a centre, in order, and the largest distance between two of them."""

    rows: NDArray[np.int64]
    diameter: int


def crowds(words: Words, radius: int) -> list[Crowd]:
    """Disjoint crowds among distinct codes of 64-bit words (n, words); few or none where codes are not crowded."""
    codes: Codes = words.astype("<u8", copy=False).view(np.uint8)
    table, free, found = CodeTable(codes), np.ones(len(codes), np.bool_), []
    step = max(1, len(codes) // PIVOTS)
    for start in range(0, len(codes), step * AT_ONCE):
        pivots = np.arange(start, min(start + step * AT_ONCE, len(codes)), step)
        hits = within(_centres(codes, table, pivots[free[pivots]], radius, free), table, radius // 2, free)
        for first, last in zip(hits.offsets[:-1], hits.offsets[1:], strict=True):
            rows, distances = hits.rows[first:last], hits.distances[first:last]
            still = free[rows]
            if np.count_nonzero(still) >= LEAST:
                rows, distances = rows[still], distances[still]
                free[rows] = False
                found.append(Crowd(np.sort(rows), widest(words, rows[::-1].copy(), distances[::-1].copy())))
    return found


def _centres(codes: Codes, table: CodeTable, pivots: NDArray[np.int64], radius: int, free: NDArray[np.bool_]) -> Codes:
    """What most codes within the radius of each pivot have in common."""
    hits, centres = within(codes[pivots], table, radius, free), codes[pivots].copy()
    for number, (first, last) in enumerate(zip(hits.offsets[:-1], hits.offsets[1:], strict=True)):
        around = codes[hits.rows[first : last : max(1, (last - first) // VIEWED)]]
        centres[number] = np.packbits(np.unpackbits(around, axis=1).mean(axis=0) > 0.5)
    return centres


@njit(cache=True, nogil=True)
def widest(words, rows, reach):  # type: ignore[no-untyped-def]
    """The largest distance between two of some rows, whose distances from a centre fall.

    Two rows are at most as far apart as their distances from the centre add up to, so most pairs can be skipped.
    """
    largest = 0
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            if reach[i] + reach[j] <= largest:
                break
            distance = 0
            for word in range(words.shape[1]):
                distance += popcount(words[rows[i], word] ^ words[rows[j], word])
            largest = max(largest, distance)
    return largest
