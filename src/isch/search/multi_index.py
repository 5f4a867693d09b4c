"""Multi-index hashing: small radii among very many codes without reading them all (Norouzi, Punjani, Fleet 2012).

    index = isch.MultiIndex(codes, radius=16)
    hits = index.within(queries, radius=16)
    distances, rows = index.nearest(queries, k=3)

The code is cut into s parts of w bits, and for each part the rows are sorted by its value. Two codes within r = s·a + b
bits are within a bits in one of the first b + 1 parts, or within a − 1 bits in one of the others. So it is enough to
look up the values near the query's own. This takes memory and pays off for many codes and a small radius. Otherwise,
and for queries with too many candidates, all codes are read as usual. The results are the same.
"""

from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isch import codes as packed
from isch import compute
from isch.codes import Codes
from isch.errors import InputError
from isch.search import exact, hamming, parts
from isch.search.buckets import Words, as_words
from isch.search.exact import CodeTable, Hits, _whole
from isch.search.parts import Spread, pair_cost
from isch.search.planner import VIEWED_ROWS, bits_of
from isch.search.probing import Probes, Tables, fill_table, probe

PROBE_COST, CANDIDATE_COST = 30.0, 60.0  # nanoseconds
READ_COST = 0.8  # nanoseconds to read a word of a code that is not in the cache
MOST_MEMORY = 4  # times that of the codes
WIDEST, FARTHEST = 26, 4  # bits of a part, and how many of them a lookup may change
TRIAL = 64  # queries after which it is seen whether lookups pay


class Shape(NamedTuple):
    """How many parts of how many bits, for so many rows."""

    n_parts: int
    width: int
    n_rows: int

    @property
    def n_values(self) -> int:
        """Values that a part can have."""
        return 1 << self.width

    def reach(self, radius: int) -> list[int]:
        """How many bits a lookup changes in each part; −1: the part is not looked up."""
        each, rest = divmod(radius, self.n_parts)
        return [each - (part > rest) for part in range(self.n_parts)]

    def n_probes(self, radius: int) -> int:
        """Lookups per query."""
        each, rest = divmod(radius, self.n_parts)
        fewer = sum(comb(self.width, bits) for bits in range(each))
        return self.n_parts * fewer + (rest + 1) * comb(self.width, each)

    def cost(self, radius: int) -> float:
        """Nanoseconds per query, if all values are equally frequent."""
        return self.n_probes(radius) * (PROBE_COST + CANDIDATE_COST * self.n_rows / self.n_values)

    @property
    def n_bytes(self) -> int:
        """Memory of the tables."""
        return 4 * self.n_parts * (self.n_rows + self.n_values + 1)

    @classmethod
    def best(cls, n_rows: int, n_bits: int, radius: int, most_bytes: float) -> "Shape":
        """The one that costs least at a radius, within a limit of memory, if any is."""
        widths = range(1, min(WIDEST, n_bits) + 1)
        shapes = [cls(s, w, n_rows) for w in widths for s in range(1, min(n_bits // w, 2 * radius + 1) + 1)]
        fitting = [shape for shape in shapes if shape.n_bytes <= most_bytes] or [cls(1, 1, n_rows)]
        return min(fitting, key=lambda shape: (shape.cost(radius), shape.n_bytes))


class MultiIndex:
    """Codes with tables for small radii.

    Parameters
    ----------
    codes : packed bytes (n, bytes), or a CodeTable
    radius : the radius that the tables are made for, by default an eighth of the bits; others can be asked too
    most_memory : how much memory the tables may take, as a multiple of that of the codes
    """

    def __init__(
        self, codes: ArrayLike | CodeTable, radius: int | None = None, *, most_memory: float = MOST_MEMORY
    ) -> None:
        self.codes: Codes = codes.codes() if isinstance(codes, CodeTable) else packed.check(codes)
        n, n_bytes = self.codes.shape
        if n >= 2**32:
            raise InputError(f"a multi-index holds less than 2³² codes; got {n:,}")
        asked = n_bytes if radius is None else _whole("radius", radius, 0)
        self.shape = Shape.best(n, 8 * n_bytes, min(asked, 8 * n_bytes), most_memory * max(self.codes.nbytes, 1 << 20))
        self._words = as_words(self.codes)
        self._tables = _tables(self._words, self.shape)

    def __len__(self) -> int:
        return len(self.codes)

    def within(self, queries: ArrayLike, radius: int) -> Hits:
        """Every row at most ``radius`` bits from each query, sorted by (distance, row)."""
        wanted = packed.check(queries, self.codes.shape[1], "queries")
        radius = min(_whole("radius", radius, 0), 8 * self.codes.shape[1])
        found, unknown = self._probed(wanted, radius)
        return _sorted_hits(_with_scan(found, wanted, unknown, self.codes, radius), len(wanted))

    def nearest(self, queries: ArrayLike, k: int) -> exact.Ranked:
        """The k nearest rows of each query: (distances, rows), sorted by (distance, row)."""
        wanted = packed.check(queries, self.codes.shape[1], "queries")
        k = min(_whole("k", k, 1), len(self))
        distances, rows = np.empty((len(wanted), k), np.int32), np.empty((len(wanted), k), np.int64)
        waiting = np.arange(len(wanted))
        for reach in range(FARTHEST + 1):
            radius = self.shape.n_parts * (reach + 1) - 1  # for which all parts are looked up alike
            found, unknown = self._probed(wanted[waiting], radius)
            hits = _sorted_hits(found, len(waiting))
            ready = np.flatnonzero((np.diff(hits.offsets) >= k) & ~unknown)
            places = hits.offsets[ready, None] + np.arange(k)
            distances[waiting[ready]], rows[waiting[ready]] = hits.distances[places], hits.rows[places]
            waiting = np.delete(waiting, ready)
            if not len(waiting) or unknown.all():
                break
        if len(waiting) and k:
            distances[waiting], rows[waiting] = exact.nearest(wanted[waiting], self.codes, k)
        return distances, rows

    def takes_tables(self, radius: int, n_queries: int) -> bool:
        """Whether lookups cost less than reading all codes."""
        far = max(self.shape.reach(radius)) > FARTHEST
        return not far and self.shape.cost(radius) < self.scan_cost(n_queries)

    def scan_cost(self, n_queries: int) -> float:
        """Nanoseconds per query to read all codes on one core."""
        words: int = self._words.shape[1]
        return len(self) * max(pair_cost(words), words * READ_COST / max(1, min(n_queries, 8)))

    def explain(self, radius: int, n_queries: int = 1) -> str:
        """A sentence on how queries within a radius are answered, and why."""
        shape, scan = self.shape, self.scan_cost(n_queries)
        how = "lookups" if self.takes_tables(radius, n_queries) else "a scan"
        return (
            f"{len(self):,} codes of {8 * self.codes.shape[1]} bits, radius {radius}, {n_queries} queries: {how}; "
            f"{shape.n_parts} parts of {shape.width} bits take {shape.n_probes(radius):,} lookups per query, about "
            f"{shape.cost(radius) / 1e3:.3g} µs if all values are equally frequent, and a scan {scan / 1e3:.3g} µs"
        )

    def _probed(self, queries: Codes, radius: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """(query, distance, row) by lookups, and the queries that are not answered so."""
        unknown = np.ones(len(queries), np.bool_)
        if not len(queries) or not self.takes_tables(radius, len(queries)):
            return np.empty((0, 3), np.int64), unknown
        words, probes = as_words(queries), _probes(self.shape, radius)
        room = int(self.scan_cost(len(queries)) / CANDIDATE_COST) + 1

        def look_up(span: tuple[int, int]) -> NDArray[np.int64]:
            given_up = np.zeros(span[1] - span[0], np.bool_)
            found: NDArray[np.int64] = probe(
                self._words, words[span[0] : span[1]], self._tables, probes, radius, room, given_up
            )
            unknown[span[0] : span[1]] = given_up
            found[:, 0] += span[0]
            return found

        found = hamming.on_all_cores(look_up, hamming.spans(min(TRIAL, len(queries))))
        if len(queries) > TRIAL and unknown[:TRIAL].mean() < 0.5:
            rest = hamming.spans(len(queries) - TRIAL)
            found += hamming.on_all_cores(look_up, [(first + TRIAL, last + TRIAL) for first, last in rest])
        return np.concatenate(found), unknown


def _tables(words: Words, shape: Shape) -> Tables:
    """The rows by the value of each part; the bits of parts are chosen like those of a join."""
    sample = bits_of(words[:: max(1, len(words) // VIEWED_ROWS)])
    chosen = parts.divided(Spread.of(sample), shape.n_parts)
    bits = np.stack([part[: shape.width] for part in chosen])
    tables = Tables(
        bits // 64,
        (bits % 64 // 8 * 8 + 7 - bits % 8).astype(np.uint64),
        np.zeros((shape.n_parts, shape.n_values + 1), np.uint32),
        np.empty((shape.n_parts, len(words)), np.uint32),
    )

    def fill(part: int) -> None:
        fill_table(words, *(column[part] for column in tables))

    for _ in compute.parallel(fill, range(shape.n_parts), blas=False):
        pass
    return tables


def _probes(shape: Shape, radius: int) -> Probes:
    """The values to look up around a query's own, those that change fewest bits first."""
    reach = np.array(shape.reach(radius))
    flips = [
        sum(1 << bit for bit in changed)
        for n_changed in range(reach.max() + 1)
        for changed in combinations(range(shape.width), n_changed)
    ]
    counts = [sum(comb(shape.width, bits) for bits in range(far + 1)) for far in reach.tolist()]
    return Probes(np.array(flips, np.uint32), np.array(counts), reach)


def _with_scan(
    found: NDArray[np.int64], queries: Codes, unknown: NDArray[np.bool_], codes: Codes, radius: int
) -> NDArray[np.int64]:
    """What was found, and what a scan finds for the queries that are not answered."""
    if not unknown.any():
        return found
    numbers = np.flatnonzero(unknown)
    hits = exact.within(queries[numbers], codes, radius)
    owners = np.repeat(numbers, np.diff(hits.offsets))
    return np.concatenate([found, np.stack([owners, hits.distances, hits.rows], axis=1)])


def _sorted_hits(found: NDArray[np.int64], n_queries: int) -> Hits:
    query, distance, row = found.T
    order = np.lexsort((row, distance, query))
    offsets = np.searchsorted(query[order], np.arange(n_queries + 1))
    return Hits(offsets, row[order], distance[order].astype(np.int32))
