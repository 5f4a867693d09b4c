"""Rows with equal codes: a thousand copies are one code with a list of rows."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from numpy.typing import NDArray

from isch.join.buckets import EVERY, Words, row_bits, sorted_keys


@dataclass(frozen=True)
class Twins:
    """The distinct codes among n rows, in the order of their first rows.

    Distinct code c has the rows ``order[offsets[c] : offsets[c + 1]]``, in order.
    """

    order: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def leaders(self) -> NDArray[np.int64]:
        """The first row of each distinct code."""
        return self.order[self.offsets[:-1]]

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """How many rows each distinct code has."""
        return np.diff(self.offsets)

    @property
    def any(self) -> bool:
        """Whether some codes are equal."""
        return len(self) < self.n_rows

    @property
    def n_rows(self) -> int:
        """All rows."""
        return len(self.order)

    def rows(self, code: int) -> NDArray[np.int64]:
        """The rows of one distinct code."""
        return self.order[self.offsets[code] : self.offsets[code + 1]]


def find(words: Words) -> Twins:
    """The distinct ones among codes of 64-bit words (n, words)."""
    n = len(words)
    leader = np.arange(n)
    keys = sorted_keys(words, EVERY, np.full(words.shape[1], ~np.uint64(0)))
    if not assign_leaders(words, keys, row_bits(n), leader):
        return Twins(leader, np.arange(n + 1))
    order = np.argsort(leader, kind="stable")
    starts = np.flatnonzero(np.diff(leader[order], prepend=-1))
    return Twins(order, np.append(starts, n))


@njit(cache=True, nogil=True)
def _equal(words, a, b):  # type: ignore[no-untyped-def]
    word = 0
    while word < words.shape[1] and words[a, word] == words[b, word]:
        word += 1
    return word == words.shape[1]


@njit(cache=True, nogil=True)
def assign_leaders(words, keys, bits, leader):  # type: ignore[no-untyped-def]
    """For each row the first row with the same code, from sorted keys; returns how many rows are not their own."""
    low, n_twins, start = (np.uint64(1) << np.uint64(bits)) - np.uint64(1), 0, 0
    for i in range(1, len(keys)):
        if (keys[i] ^ keys[start]) > low:
            start = i
        row = np.int64(keys[i] & low)
        for j in range(start, i):
            other = np.int64(keys[j] & low)
            if leader[other] == other and _equal(words, other, row):
                leader[row] = other
                n_twins += 1
                break
    return n_twins


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
