"""The fastest way to find all pairs within a radius: a join of rows that agree on a part of their code, or a scan.

A join is tried on a sample of the rows: its buckets, counted but not compared, tell how many rows would be sorted and
how many pairs compared. More parts mean shorter parts and larger buckets, but buckets can be divided more often.
Numbers of parts are tried in ascending order until they cost more.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isch.errors import unknown
from isch.join import partition, tasks
from isch.join.buckets import EVERY, Keys, Rows, Words, read_only, row_bits, rows_of, sorted_keys
from isch.join.kernels import Found
from isch.join.partition import ROW_COST, Division, Spread
from isch.scan.costs import pair_cost

METHODS = ("auto", "join", "scan")
DEPTHS = range(1, 7)
PATH_COST = 100_000.0  # nanoseconds to begin with a path, however few rows
WORTH_PLANNING = 2e7  # nanoseconds that a scan takes at least before anything else is considered
EFFORT = 0.05  # the part of the best cost so far that an attempt may take
SAMPLE_ROWS, SAMPLE_SHARE = 10_000, 40
GOOD_ENOUGH = 1.25  # times what even the best join costs
VIEWED_ROWS = 1024  # of the sample, to see how bits vary


class Cost(NamedTuple):
    """What a way costs."""

    sorted_rows: float
    compared_pairs: float
    nanoseconds: float


class Plan(NamedTuple):
    """A way to find all pairs within a radius among distinct codes, and why."""

    n_rows: int
    n_bits: int
    radius: int
    division: Division | None
    cost: Cost
    scan: Cost
    why: str

    @property
    def method(self) -> str:
        """The name of the way: join or scan."""
        return "scan" if self.division is None else "join"

    def blocks(self, words: Words) -> Iterator[Found]:
        """The pairs, in blocks."""
        return tasks.scan(words, self.radius) if self.division is None else tasks.join(words, self.division)

    def __str__(self) -> str:
        what = f"{self.n_rows:,} distinct codes of {self.n_bits} bits, radius {self.radius}"
        if self.division is None:
            return f"{what}: scan with {self.scan.compared_pairs:.3g} pairs compared; {self.why}"
        n_parts, depth = len(self.division.masks), self.division.depth
        return (
            f"{what}: join on {n_parts} part{'s'[: n_parts > 1]} of the codes, up to {depth} at once, with about "
            f"{self.cost.sorted_rows:.3g} rows sorted and {self.cost.compared_pairs:.3g} pairs compared; {self.why}"
        )


def plan(words: Words, n_bits: int, radius: int, method: str = "auto") -> Plan:
    """The cheapest way for distinct codes of 64-bit words (n, words)."""
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    pairs = len(words) * (len(words) - 1) / 2
    scan = Cost(0, pairs, pairs * pair_cost(words.shape[1]))
    as_scan = Plan(len(words), n_bits, radius, None, scan, scan, "as requested")
    if method == "scan":
        return as_scan
    if method == "auto" and scan.nanoseconds < WORTH_PLANNING:
        return as_scan._replace(why="there are so few that nothing else is quicker")
    limit = scan.nanoseconds if method == "auto" else np.inf
    division, cost = cheapest(words, n_bits, radius, Cost(0, 0, limit))
    if division is None:
        return as_scan._replace(why="a join would take longer")
    why = f"a scan would compare {pairs:.3g} pairs and take {scan.nanoseconds / cost.nanoseconds:.2g} times as long"
    return as_scan._replace(division=division, cost=cost, why=why)


def cheapest(words: Words, n_bits: int, radius: int, best: Cost) -> tuple[Division | None, Cost]:
    """The division that costs least, if less than the best so far."""
    share = max(1, min(SAMPLE_SHARE, len(words) // SAMPLE_ROWS))
    sample, chosen = read_only(np.ascontiguousarray(words[::share])), None
    spread = Spread.of(bits_of(sample[:: max(1, len(sample) // VIEWED_ROWS)])[:, :n_bits])
    least = (radius + 1) * (PATH_COST + len(words) * ROW_COST)
    for depth in DEPTHS:
        if radius + depth > n_bits or best.nanoseconds < GOOD_ENOUGH * least:
            break
        division = Division(partition.masks(partition.divided(spread, radius + depth), words.shape[1]), radius)
        cost = estimated(sample, division, share, best.nanoseconds)
        if cost.nanoseconds < best.nanoseconds:
            chosen, best = division, cost
        elif chosen is not None:
            break
    return chosen, best


def estimated(sample: Words, division: Division, scale: float, limit: float) -> Cost:
    """The cost of a join of ``scale`` times the rows of a sample; infinite if above a limit or slow to find out."""
    cost, effort = Cost(0, 0, 0), 0.0
    waiting = [(path, EVERY) for path in reversed(division.following(()))]
    while waiting:
        path, rows = waiting.pop()
        more, large = _visited(sample, division, path, rows, scale)
        cost = Cost(*(a + b for a, b in zip(cost, more, strict=True)))
        effort += PATH_COST + more.sorted_rows / scale * ROW_COST
        if cost.nanoseconds > limit or effort > EFFORT * limit:
            return cost._replace(nanoseconds=np.inf)
        if len(large):
            waiting += [(longer, large) for longer in reversed(division.following(path))]
    return cost


def _visited(sample: Words, division: Division, path: tuple[int, ...], rows: Rows, scale: float) -> tuple[Cost, Rows]:
    """What the buckets of one path cost, and the rows of those that are to be divided further."""
    keys = sorted_keys(sample, rows, division.mask(path))
    sizes = _bucket_sizes(keys, row_bits(len(sample)))
    large = (scale * sizes > division.largest(path)) & bool(division.following(path))
    small = sizes[~large & (sizes > 1)].astype(np.float64)
    compared = scale * scale * float((small * (small - 1)).sum()) / 2
    n_rows, gathered = scale * len(keys), scale * float(small.sum())
    time = PATH_COST + (n_rows + gathered) * ROW_COST + compared * pair_cost(sample.shape[1])
    return Cost(n_rows, compared, time), rows_of(keys[np.repeat(large, sizes)], len(sample))


def _bucket_sizes(keys: Keys, bits: int) -> NDArray[np.int64]:
    buckets = keys >> np.uint64(bits)
    borders = np.flatnonzero(buckets[1:] != buckets[:-1]) + 1
    return np.diff(borders, prepend=0, append=len(keys))


def bits_of(words: Words) -> NDArray[np.bool_]:
    """The bits (rows, bits) of codes of 64-bit words (rows, words)."""
    return np.unpackbits(words.astype("<u8", copy=False).view(np.uint8), axis=1).view(np.bool_)
