"""Pairs within a radius among distinct codes, in blocks: the work is cut into tasks that all cores share.

A task fills at most one block of pairs and returns the work that is left. So memory stays bounded however many pairs
there are, and each pair comes once.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from isch import compute
from isch.join.buckets import EVERY, Keys, Rows, Words, row_bits, rows_of, sorted_keys
from isch.join.kernels import (
    Agreement,
    Found,
    bucket_borders,
    keep_agreeing,
    pairs_of_buckets,
    pairs_of_tiles,
)
from isch.join.partition import Division
from isch.scan import hamming
from isch.scan.source import LANES

BLOCK_PAIRS = 1 << 21
CACHED_BYTES = 1 << 17


class Task(Protocol):
    """A piece of work."""

    def step(self) -> tuple[Found, Sequence["Task"]]:
        """A block of pairs, and what is left to do."""


class Crowd(NamedTuple):
    """Rows that are compared each with each."""

    words: Words
    radius: int
    agreement: Agreement
    rows: Rows = EVERY

    def step(self) -> tuple[Found, list["Scan"]]:
        """No pairs yet, but the rows laid out and the work divided."""
        chosen = self.words[self.rows] if len(self.rows) else self.words
        tiles = hamming.lay_out(chosen.astype("<u8", copy=False).view(np.uint8))
        step = max(1, CACHED_BYTES // (8 * LANES * self.words.shape[1]))
        spans = [(first, min(first + step, len(tiles))) for first in range(0, len(tiles), step)]
        return Found.empty(0), [Scan(self, tiles, len(chosen), *span) for span in spans]


class Scan(NamedTuple):
    """Every row of some tiles against every earlier row: the tiles stay in the cache while the earlier ones pass by."""

    crowd: Crowd
    tiles: NDArray[np.uint64]
    n_rows: int
    first: int
    last: int
    start: int = 0

    def step(self) -> tuple[Found, list["Scan"]]:
        """The next block."""
        crowd, found = self.crowd, Found.empty(BLOCK_PAIRS)
        count, stopped = pairs_of_tiles(self.tiles, self.n_rows, self.start, self.first, self.last, crowd.radius, found)
        if len(crowd.rows):
            count = keep_agreeing(crowd.words, crowd.rows, crowd.agreement, found, count)
        return found.cut(count), [self._replace(start=stopped)] if stopped < self.last else []


class Path(NamedTuple):
    """Rows brought together where they agree on the parts of a path: small buckets are compared, large ones divided.

    A pair counts in the buckets of its own path alone, so that it comes once.
    """

    words: Words
    division: Division
    path: tuple[int, ...]
    rows: Rows = EVERY
    keys: Keys | None = None
    start: int = 0

    def step(self) -> tuple[Found, Sequence[Task]]:
        """The next block."""
        keys = self.keys
        if keys is None:
            keys = sorted_keys(self.words, self.rows, self.division.mask(self.path))
        found, bits = Found.empty(BLOCK_PAIRS), row_bits(len(self.words))
        count, stopped = pairs_of_buckets(
            self.words,
            keys,
            (bits, self.division.largest(self.path), self.division.radius),
            self.start,
            self.division.agreement(self.path),
            found,
        )
        if stopped < len(keys):
            return found.cut(count), [self._replace(rows=EVERY, keys=keys, start=stopped)]
        return found.cut(count), self.deeper(keys, bits)

    def deeper(self, keys: Keys, bits: int) -> Sequence[Task]:
        """What is left of large buckets."""
        borders = bucket_borders(keys, bits, self.division.largest(self.path))
        buckets = [rows_of(keys[first:last], len(self.words)) for first, last in borders]
        if not buckets:
            return []
        if longer := self.division.following(self.path):
            together = np.concatenate(buckets)
            return [self._replace(path=path, rows=together, keys=None, start=0) for path in longer]
        agreement = self.division.agreement(self.path)
        return [Crowd(self.words, self.division.radius, agreement, bucket) for bucket in buckets]


def scan(words: Words, radius: int) -> Iterator[Found]:
    """Pairs by comparing every row with every other."""
    nothing = Agreement(np.empty((0, words.shape[1]), np.uint64), np.empty(0, np.bool_))
    return run([Crowd(words, radius, nothing)])


def join(words: Words, division: Division) -> Iterator[Found]:
    """Pairs by comparing rows that agree on a part."""
    return run(Path(words, division, path) for path in division.following(()))


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
