"""A way around reading all codes of a segment: the tables of multi-index hashing, once they have paid for themselves.

Lookups are quicker than a scan if codes are many and the radius is small, but making tables takes as long as hundreds
of scans, and nobody knows how many searches will follow. So a segment adds up what lookups would have saved. When this
is as much as making tables costs, they are made. So all searches together never take more than about twice as long as
with the better choice from the beginning (as in the ski rental problem). For the k nearest, the radius is how far the
k-th was in the last such search.

Tables are kept in memory with the segment, as long as an index is open. The results are the same in any case.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isch import compute
from isch.codes import Codes
from isch.compute import memory
from isch.forks import Lock
from isch.lazy import Lazy
from isch.search import exact, shapes
from isch.search.costs import CALL_COST, scan_cost
from isch.search.exact import CodeTable, Hits, Ranked
from isch.search.shapes import Shape

if TYPE_CHECKING:
    from isch.search import multi_index
    from isch.search.multi_index import MultiIndex
else:
    multi_index = Lazy("isch.search.multi_index")

MOST_MEMORY = 4  # of tables, as a multiple of that of the codes
FREE_SHARE = 4  # one part of so many of the memory that is free may become tables
LARGEST_RADIUS = 4  # as a part of the bits, above which tables are not considered
FIRST = 64  # queries of a large batch that tell how far the k-th is

Mask = NDArray[Any] | None


class Plan(NamedTuple):
    """What is known before a search: the tables that suit the radius best, and the cost of a scan per query."""

    shape: Shape
    radius: int
    n_queries: int
    scan: float  # nanoseconds per query on one core, as all costs

    @property
    def saves(self) -> float:
        """What lookups save in all queries together, if all values are equally frequent."""
        return max(0.0, self.n_queries * (self.scan - self.shape.cost(self.radius)) - CALL_COST)


class Shortcut:
    """Searches in codes, by reading them all or by tables.

    Parameters
    ----------
    table : CodeTable
        The codes, as they lie on disk.
    """

    def __init__(self, table: CodeTable) -> None:
        self.table = table
        self.index: MultiIndex | None = None
        self._too_far = 8 * table.n_bytes // LARGEST_RADIUS + 1  # the least radius for which tables are in vain
        self._missed = 0.0  # nanoseconds that lookups would have saved
        self._reached: dict[int, int] = {}  # by the logarithm of a rank, how far the row of this rank was
        self._making = Lock()

    def within(self, queries: Codes, radius: int, mask: Mask) -> Hits:
        """As ``exact.within``."""
        index = self._index(radius, len(queries), mask)
        if index is None:
            return exact.within(queries, self.table, radius, mask)
        return index.within(queries, radius, mask)

    def nearest(self, queries: Codes, k: int, mask: Mask) -> Ranked:
        """As ``exact.nearest``, by Hamming distance."""
        rank = _rank(k, len(self.table), mask)
        radius = self._reached.get(rank)
        if radius is None and len(queries) > FIRST:
            both = self.nearest(queries[:FIRST], k, mask), self.nearest(queries[FIRST:], k, mask)
            return np.concatenate([part[0] for part in both]), np.concatenate([part[1] for part in both])
        index = None if radius is None else self._index(radius, len(queries), mask)
        found = exact.nearest(queries, self.table, k, mask=mask) if index is None else index.nearest(queries, k, mask)
        if found[0].size:
            self._reached[rank] = int(np.median(found[0][:, -1]))
        return found

    def explain(self, n_queries: int, radius: int | None, k: int) -> str:
        """A sentence on how queries within a radius, or else for the k nearest, would be answered, and why."""
        what = f"{len(self.table):,} codes of {8 * self.table.n_bytes} bits"
        radius = self._reached.get(_rank(k, len(self.table), None)) if radius is None else radius
        if radius is None:
            return f"{what}, k = {k}: a scan; how far the k nearest are is known after the first search"
        what += f", radius {radius}, {n_queries} {'query' if n_queries == 1 else 'queries'}"
        if radius >= self._too_far:
            return f"{what}: a scan; the radius is too large for tables"
        plan = self._plan(radius, n_queries, None)
        if plan is None:
            return f"{what}: a scan; they are too few for tables"
        if (index := self._taken(plan)) is not None:
            return index.explain(radius, n_queries)
        scan, each, making, missed = (
            1e-6 * cost / compute.n_threads()
            for cost in (plan.scan, plan.shape.cost(radius), plan.shape.making, self._missed)
        )
        return (
            f"{what}: {'lookups, for which tables are made' if self._pays(plan) else 'a scan'}; a scan takes about "
            f"{scan:.3g} ms per query, lookups {each:.3g} ms, making their tables {making:.3g} ms and "
            f"{memory.readable(plan.shape.n_bytes)}; lookups would have saved {missed:.3g} ms so far"
        )

    def _plan(self, radius: int, n_queries: int, mask: Mask) -> Plan | None:
        """What is known before a search; None if a scan takes no time, or the radius is too large."""
        n, n_bytes = len(self.table), self.table.n_bytes
        scan = scan_cost(_n_scanned(n, mask), -(-n_bytes // 8), n_queries)
        if radius >= self._too_far or n_queries * scan <= CALL_COST:
            return None
        return Plan(shapes.best(n, 8 * n_bytes, radius, MOST_MEMORY * n * n_bytes), radius, n_queries, scan)

    def _index(self, radius: int, n_queries: int, mask: Mask) -> "MultiIndex | None":
        """The tables, if they are quicker; made first, if they have paid for themselves."""
        plan = self._plan(radius, n_queries, mask)
        if plan is None or (index := self._taken(plan)) is not None:
            return None if plan is None else index
        if _n_scanned(len(self.table), mask) < len(self.table):
            return None  # what pays for a filter is no measure of what pays for all rows
        if not self._pays(plan):
            self._missed += plan.saves
            return None
        with self._making.if_free() as mine:  # other threads go on without
            return self._made(plan) if mine else None

    def _taken(self, plan: Plan) -> "MultiIndex | None":
        """The tables there are, if they are quicker."""
        index = self.index
        return index if index is not None and index.takes_tables(plan.radius, plan.n_queries, plan.scan) else None

    def _pays(self, plan: Plan) -> bool:
        """Whether tables have paid for themselves, and there is room for them."""
        paid = plan.saves > 0 and self._missed + plan.saves >= plan.shape.making
        return paid and plan.shape.n_bytes <= memory.free() // FREE_SHARE

    def _made(self, plan: Plan) -> "MultiIndex | None":
        """New tables, if they are as quick as was expected."""
        self._missed = 0.0
        index = multi_index.MultiIndex(self.table, plan.radius, most_memory=MOST_MEMORY)
        if index.takes_tables(plan.radius, plan.n_queries, plan.scan):
            self.index = index
            return index
        self._too_far = plan.radius
        return None


def _rank(k: int, n_rows: int, mask: Mask) -> int:
    """The logarithm of the rank among all rows that the k-th of those allowed probably has."""
    return (int(k) * n_rows // max(1, _n_scanned(n_rows, mask))).bit_length()


def _n_scanned(n_rows: int, mask: Mask) -> int:
    """How many rows a scan reads: all, or those that a filter lists."""
    return n_rows if mask is None or mask.dtype == np.bool_ else len(mask)
