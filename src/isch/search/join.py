"""Pairs within a radius among distinct codes, in blocks: the work is cut into tasks that all cores share.

A task fills one block of pairs at most and says what is left to do; so memory stays bounded however many pairs there
are, and each pair comes once.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from isch import compute
from isch.search import hamming
from isch.search.buckets import Words
from isch.search.kernels import LANES
from isch.search.pair_kernels import Found, pairs_of_tiles

BLOCK_PAIRS = 1 << 20
CACHED_BYTES = 1 << 17


class Task(Protocol):
    """A piece of work."""

    def step(self) -> tuple[Found, Sequence["Task"]]:
        """A block of pairs, and what is left to do."""


@dataclass(frozen=True)
class Scan:
    """Every row of some tiles against every earlier row: the tiles stay in the cache while the earlier ones pass by."""

    tiles: NDArray[np.uint64]
    n_rows: int
    radius: int
    first: int
    last: int
    start: int = 0

    def step(self) -> tuple[Found, list["Scan"]]:
        found = Found.empty(BLOCK_PAIRS)
        count, stopped = pairs_of_tiles(self.tiles, self.n_rows, self.start, self.first, self.last, self.radius, found)
        return found.cut(count), [replace(self, start=stopped)] if stopped < self.last else []


def scan(words: Words, radius: int) -> Iterator[Found]:
    """Pairs by comparing every row with every other."""
    tiles = hamming.lay_out(words.astype("<u8", copy=False).view(np.uint8))
    step = max(1, CACHED_BYTES // (8 * LANES * words.shape[1]))
    return run(Scan(tiles, len(words), radius, at, min(at + step, len(tiles))) for at in range(0, len(tiles), step))


def run(tasks: Iterable[Task]) -> Iterator[Found]:
    """The blocks of tasks and of what they leave to do, on all cores, in an order that never varies."""
    waiting = deque(tasks)
    while waiting:
        for found, rest in compute.parallel(lambda task: task.step(), _taken(waiting), blas=False):
            waiting.extendleft(reversed(rest))
            yield found


def _taken(waiting: deque[Task]) -> Iterator[Task]:
    while waiting:
        yield waiting.popleft()
