"""Multi-index hashing: small radii among very many codes without reading them all (Norouzi, Punjani, Fleet 2012).

    index = isch.MultiIndex(codes, radius=16)
    hits = index.within(queries, radius=16)
    distances, rows = index.nearest(queries, k=3)

The code is cut into parts (shapes.py), and for each part the rows are sorted by its value. A row within the radius has
nearly the value of the query in one of the parts, so it is enough to look up the values near the query's own. This
takes memory and pays off for many codes and a small radius. Otherwise, and for queries with too many candidates, all
codes are read as usual. The results are the same.
"""

from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isch import codes as packed
from isch import compute
from isch.codes import Codes
from isch.errors import InputError
from isch.join import partition
from isch.join.buckets import Words, as_words, read_only
from isch.join.partition import Spread
from isch.join.planner import VIEWED_ROWS, bits_of
from isch.lookup import shapes
from isch.lookup.shapes import Shape
from isch.lookup.tables import Probes, Tables, count_near, fill_table, probe
from isch.scan import exact, hamming, numpy_reference
from isch.scan.costs import CANDIDATE_COST, PROBE_COST, scan_cost
from isch.scan.exact import CodeTable, Hits, _whole

MOST_MEMORY = 4  # times that of the codes
FARTHEST = 4  # bits of a part that a lookup may change
JUDGES = 32  # rows that tell how many candidates a query has

Found = NDArray[np.int64]  # (query, distance, row)


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
        self.table = codes if isinstance(codes, CodeTable) else CodeTable(codes)
        if len(self) >= 2**32:
            raise InputError(f"a multi-index holds less than 2³² codes; got {len(self):,}")
        self.shape = shape_for(self.table, radius, most_memory)
        self._tables = _tables(self.table, self.shape)
        self._judged: dict[int, NDArray[np.int64]] = {}

    def __len__(self) -> int:
        return len(self.table)

    def within(self, queries: ArrayLike, radius: int, mask: NDArray[Any] | None = None) -> Hits:
        """Every row that the mask allows within a radius of each query, sorted by (distance, row)."""
        wanted = packed.check(queries, self.table.n_bytes, "queries")
        radius = min(_whole("radius", radius, 0), 8 * self.table.n_bytes)
        found, unknown = self._probed(wanted, radius, mask)
        if not unknown.any():
            return _sorted_hits(found, len(wanted))
        numbers = np.flatnonzero(unknown)
        hits = exact.within(wanted[numbers], self.table, radius, mask)
        owners = np.repeat(numbers, np.diff(hits.offsets))
        scanned = np.stack([owners, hits.distances, hits.rows], axis=1)
        return _sorted_hits(np.concatenate([found, scanned]), len(wanted))

    def nearest(self, queries: ArrayLike, k: int, mask: NDArray[Any] | None = None) -> exact.Ranked:
        """The k nearest rows of each query: (distances, rows), sorted by (distance, row)."""
        wanted = packed.check(queries, self.table.n_bytes, "queries")
        k = min(_whole("k", k, 1), _n_allowed(mask, len(self)))
        distances, rows = np.empty((len(wanted), k), np.int32), np.empty((len(wanted), k), np.int64)
        waiting = np.arange(len(wanted))
        for reach in range(FARTHEST + 1):
            radius = self.shape.n_parts * (reach + 1) - 1  # for which all parts are looked up alike
            found, unknown = self._probed(wanted[waiting], radius, mask)
            hits = _sorted_hits(found, len(waiting))
            ready = np.flatnonzero((np.diff(hits.offsets) >= k) & ~unknown)
            places = hits.offsets[ready, None] + np.arange(k)
            distances[waiting[ready]], rows[waiting[ready]] = hits.distances[places], hits.rows[places]
            waiting = np.delete(waiting, ready)
            if not len(waiting) or unknown.all():
                break
        if len(waiting) and k:
            distances[waiting], rows[waiting] = exact.nearest(wanted[waiting], self.table, k, mask=mask)
        return distances, rows

    def takes_tables(self, radius: int, n_queries: int, scan: float | None = None) -> bool:
        """Whether lookups are expected to cost less than a scan, by default one of all codes."""
        scan = self._scan_cost(n_queries) if scan is None else scan
        possible = max(self.shape.reach(radius)) <= FARTHEST and self.shape.n_probes(radius) * PROBE_COST < scan
        return possible and self.cost(radius, scan) < scan

    def cost(self, radius: int, scan: float) -> float:
        """Nanoseconds per query, judged by some of the codes as queries; one that costs more than a scan is scanned."""
        if radius not in self._judged:
            judges = np.linspace(0, len(self) - 1, min(JUDGES, len(self))).astype(np.int64)
            self._judged[radius] = count_near(_words(self.table, judges), self._tables, _probes(self.shape, radius))
        candidates = CANDIDATE_COST * self._judged[radius]
        return float(self.shape.n_probes(radius) * PROBE_COST + np.where(candidates <= scan, candidates, scan).mean())

    def explain(self, radius: int, n_queries: int = 1) -> str:
        """A sentence on how queries within a radius are answered, and why."""
        shape, scan = self.shape, self._scan_cost(n_queries)
        taken = self.takes_tables(radius, n_queries)
        asked = f"radius {radius}, {n_queries} {'query' if n_queries == 1 else 'queries'}"
        return (
            f"{len(self):,} codes of {8 * self.table.n_bytes} bits, {asked}: "
            f"{'lookups' if taken else 'a scan'}; {shape.n_parts} parts of {shape.width} bits take "
            f"{shape.n_probes(radius):,} lookups per query, about "
            f"{(self.cost(radius, scan) if taken else shape.cost(radius)) / 1e3:.3g} µs, and a scan {scan / 1e3:.3g} µs"
        )

    def _scan_cost(self, n_queries: int) -> float:
        return scan_cost(len(self), -(-self.table.n_bytes // 8), n_queries)

    def _probed(self, queries: Codes, radius: int, mask: NDArray[Any] | None) -> tuple[Found, NDArray[np.bool_]]:
        """What lookups find among the rows that a mask allows, and the queries that are not answered so."""
        unknown = np.ones(len(queries), np.bool_)
        if not len(queries) or not self.takes_tables(radius, len(queries)):
            return np.empty((0, 3), np.int64), unknown
        words, probes = as_words(queries), _probes(self.shape, radius)
        room = int(self._scan_cost(len(queries)) / CANDIDATE_COST) + 1

        def look_up(span: tuple[int, int]) -> Found:
            some = slice(*span)
            found: Found = probe(self.table.tiles, words[some], self._tables, probes, radius, room, unknown[some])
            found[:, 0] += span[0]
            return found

        found = np.concatenate(hamming.on_all_cores(look_up, hamming.spans(len(queries))))
        return found if mask is None else found[_allows(mask, found[:, 2])], unknown


def shape_for(table: CodeTable, radius: int | None, most_memory: float) -> Shape:
    """The shape of the tables that cost least at a radius, by default an eighth of the bits."""
    n_bytes = table.n_bytes
    asked = min(n_bytes if radius is None else _whole("radius", radius, 0), 8 * n_bytes)
    return shapes.best(len(table), 8 * n_bytes, asked, most_memory * max(len(table) * n_bytes, 1 << 20))


def _tables(table: CodeTable, shape: Shape) -> Tables:
    """The rows by the value of each part; the bits of parts are chosen like those of a join."""
    viewed = np.arange(0, len(table), max(1, len(table) // VIEWED_ROWS))
    spread = Spread.of(bits_of(_words(table, viewed)))
    bits = np.stack([part[: shape.width] for part in partition.divided(spread, shape.n_parts)])
    tables = Tables(
        bits // 64,
        (bits % 64 // 8 * 8 + 7 - bits % 8).astype(np.uint64),
        np.zeros((shape.n_parts, shape.n_values + 1), np.uint32),
        np.empty((shape.n_parts, len(table)), np.uint32),
    )

    def fill(part: int) -> None:
        fill_table(table.tiles, *(column[part] for column in tables))

    for _ in compute.parallel(fill, range(shape.n_parts), blas=False):
        pass
    return tables


def _words(table: CodeTable, rows: NDArray[np.int64]) -> Words:
    return read_only(np.ascontiguousarray(numpy_reference.words_at(table._source, rows)))


@lru_cache(64)
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


def _n_allowed(mask: NDArray[Any] | None, n_rows: int) -> int:
    if mask is None:
        return n_rows
    return int(np.count_nonzero(mask)) if mask.dtype == np.bool_ else len(mask)


def _allows(mask: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of some rows a mask allows: one boolean per row, or ascending row numbers."""
    if mask.dtype == np.bool_:
        return np.asarray(mask[rows])
    return np.isin(rows, mask)


def _sorted_hits(found: Found, n_queries: int) -> Hits:
    query, distance, row = found.T
    order = np.lexsort((row, distance, query))
    offsets = np.searchsorted(query[order], np.arange(n_queries + 1))
    return Hits(offsets, row[order], distance[order].astype(np.int32))
