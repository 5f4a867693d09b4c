"""A code cut into parts: two codes that differ in r bits differ in r parts at most, and agree on the rest.

All parts should distinguish rows equally well, so that no bucket of rows that agree on a part grows large. So bits are
assigned by their statistics in a sample: the best balanced bits first, one to each part in turn, each to the part whose
bits it is least correlated with. Bits of long codes that hardly vary are left out: not every bit has to be in a part.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isch import compute
from isch.join.buckets import Words
from isch.join.kernels import Agreement
from isch.scan.costs import pair_cost

MOST_BITS = 64  # in a part
RELATED_BITS = 1024  # whose correlations are looked at
LARGEST = 2000  # rows of a bucket that are compared at once at most
ROW_COST = 25.0  # nanoseconds to hash and sort a row


class Division(NamedTuple):
    """How codes are cut into parts, and what follows for pairs within a radius.

    With r bits a pair differs in r parts at most, so among the first r + k parts it agrees on k. A path is the first
    parts that a pair agrees on; every pair has one path of each length up to ``depth``.
    """

    masks: Words
    radius: int

    @property
    def depth(self) -> int:
        """The longest path."""
        return len(self.masks) - self.radius

    def following(self, path: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The paths that are one part longer."""
        start = path[-1] + 1 if path else 0
        return [(*path, part) for part in range(start, self.radius + len(path) + 1)] if len(path) < self.depth else []

    def mask(self, path: tuple[int, ...]) -> Words:
        """The bits of all parts of a path."""
        mask: Words = np.bitwise_or.reduce(self.masks[list(path)], axis=0)
        return mask

    def agreement(self, path: tuple[int, ...]) -> Agreement:
        """What a pair must agree on, and what not, to belong to a path."""
        wanted = np.zeros(path[-1] + 1 if path else 0, np.bool_)
        wanted[list(path)] = True
        return Agreement(self.masks, wanted)

    def largest(self, path: tuple[int, ...]) -> int:
        """The largest bucket that is faster to compare than to divide further."""
        longer = len(self.following(path))
        if not longer:
            return LARGEST
        return int(min(LARGEST, 2 * longer * ROW_COST / pair_cost(self.masks.shape[1])))


class Spread(NamedTuple):
    """What a sample says about bits: which are best balanced, in that order, and how those are related."""

    order: NDArray[np.int64]
    related: NDArray[np.float32]  # the squared correlation of every two of the first bits in that order

    @classmethod
    def of(cls, sample: NDArray[np.bool_]) -> "Spread":
        """From a sample of codes (rows, bits)."""
        ones = sample.sum(axis=0) / max(1, len(sample))
        order = np.argsort(-np.minimum(ones, 1 - ones), kind="stable")
        first = order[:RELATED_BITS]
        centred = sample[:, first] - ones[first].astype(np.float32)
        norms = np.sqrt((centred * centred).sum(axis=0))
        centred /= np.where(norms > 0, norms, 1)
        with compute.single_threaded_blas():
            return cls(order, (centred.T @ centred) ** 2)


def divided(spread: Spread, n_parts: int) -> list[NDArray[np.int64]]:
    """The bits of each part."""
    bits = spread.order[: MOST_BITS * n_parts]
    known = min(len(bits), len(spread.related))
    parts: list[list[int]] = [[] for _ in range(n_parts)]
    load = np.zeros((n_parts, len(bits)), np.float32)
    for start in range(0, len(bits), n_parts):
        free = np.zeros(n_parts, np.float32)
        for bit in range(start, min(start + n_parts, len(bits))):
            part = int((load[:, bit] + free).argmin())
            free[part] = np.inf
            parts[part].append(int(bits[bit]))
            if bit < known:
                load[part, :known] += spread.related[bit, :known]
    return [np.array(part, np.int64) for part in parts]


def masks(parts: list[NDArray[np.int64]], n_words: int) -> Words:
    """The bits of each part as words (parts, words)."""
    bits = np.zeros((len(parts), 64 * n_words), np.bool_)
    for part, chosen in enumerate(parts):
        bits[part, chosen] = True
    return np.packbits(bits, axis=1).view("<u8").astype(np.uint64, copy=False)
