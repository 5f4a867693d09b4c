"""Choose per segment between a scan and multi-index lookup.

Lookups beat a scan if codes are many and the radius is small, but their tables take up to four times the memory of the
codes and as long to build as hundreds of scans. So tables are built only when somebody asks for them (``build``), and
used only where they are expected to cost less than a scan. The results are the same either way.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isch.codes import Codes
from isch.compute import memory
from isch.errors import ParameterError
from isch.lazy import Lazy
from isch.scan import exact
from isch.scan.costs import scan_cost
from isch.scan.exact import CodeTable, Hits, Ranked

if TYPE_CHECKING:
    from isch.lookup import multi_index
    from isch.lookup.multi_index import MultiIndex
else:
    multi_index = Lazy("isch.lookup.multi_index")

MOST_MEMORY = 4  # of tables, as a multiple of that of the codes
FREE_SHARE = 4  # tables may use at most 1/4 of free memory
FIRST_QUERIES = 64  # of a large batch, which tell how far the k-th is

Mask = NDArray[Any] | None


class LookupPolicy:
    """Searches in codes, by a scan or by tables.

    Parameters
    ----------
    table : CodeTable
        The codes, as they lie on disk.
    """

    def __init__(self, table: CodeTable) -> None:
        self.table = table
        self.tables: MultiIndex | None = None
        self._kth_distance: dict[int, int] = {}  # by the logarithm of a rank, how far the row of this rank was

    def build(self, radius: int) -> None:
        """Build tables for a radius; searches beside it go on with what there is."""
        if not len(self.table):
            return
        shape = multi_index.shape_for(self.table, radius, MOST_MEMORY)
        room = memory.free() // FREE_SHARE
        if shape.n_bytes > room:
            raise ParameterError(
                f"the tables for radius {radius} would take {memory.readable(shape.n_bytes)}; "
                f"expected at most {memory.readable(room)}, a quarter of the memory that is free"
            )
        self.tables = multi_index.MultiIndex(self.table, radius, most_memory=MOST_MEMORY)

    def drop(self) -> None:
        """Give up the tables."""
        self.tables = None

    def within(self, queries: Codes, radius: int, mask: Mask) -> Hits:
        """As ``exact.within``."""
        tables = self._usable(radius, len(queries), mask)
        if tables is None:
            return exact.within(queries, self.table, radius, mask)
        return tables.within(queries, radius, mask)

    def nearest(self, queries: Codes, k: int, mask: Mask) -> Ranked:
        """As ``exact.nearest``, by Hamming distance."""
        if self.tables is None:
            return exact.nearest(queries, self.table, k, mask=mask)
        rank = _rank(k, len(self.table), mask)
        radius = self._kth_distance.get(rank)
        if radius is None and len(queries) > FIRST_QUERIES:
            first = self.nearest(queries[:FIRST_QUERIES], k, mask)
            rest = self.nearest(queries[FIRST_QUERIES:], k, mask)
            return np.concatenate([first[0], rest[0]]), np.concatenate([first[1], rest[1]])
        tables = None if radius is None else self._usable(radius, len(queries), mask)
        found = tables.nearest(queries, k, mask) if tables else exact.nearest(queries, self.table, k, mask=mask)
        if found[0].size:
            self._kth_distance[rank] = int(np.median(found[0][:, -1]))
        return found

    def explain(self, n_queries: int, radius: int | None, k: int) -> str:
        """Say how queries within a radius, or else for the k nearest, would be answered, and why."""
        what = f"{len(self.table):,} codes of {8 * self.table.n_bytes} bits"
        tables = self.tables
        if tables is None:
            return f"{what}: a scan; index.accelerate(radius=…) would build tables for small radii"
        if radius is None:
            radius = self._kth_distance.get(_rank(k, len(self.table), None))
        if radius is None:
            return f"{what}, k = {k}: a scan; how far the k nearest are is known after the first search"
        return tables.explain(radius, n_queries)

    def _usable(self, radius: int, n_queries: int, mask: Mask) -> "MultiIndex | None":
        """The tables, if there are some and they are expected to cost less than a scan."""
        tables = self.tables
        if tables is None:
            return None
        scan = scan_cost(_n_scanned(len(self.table), mask), -(-self.table.n_bytes // 8), n_queries)
        return tables if tables.takes_tables(radius, n_queries, scan) else None


def _rank(k: int, n_rows: int, mask: Mask) -> int:
    """The logarithm of the rank among all rows that the k-th of those allowed probably has."""
    return (int(k) * n_rows // max(1, _n_scanned(n_rows, mask))).bit_length()


def _n_scanned(n_rows: int, mask: Mask) -> int:
    """How many rows a scan reads: all, or those that a filter lists."""
    return n_rows if mask is None or mask.dtype == np.bool_ else len(mask)
