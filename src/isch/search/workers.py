"""Search by the workers of a Dask cluster: each maps portions of segments and gives its k best, merged exactly here.

Portions are consecutive rows, so the answers are those of one machine, ties included.
"""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isch.codes import Codes, width
from isch.compute.cluster import Cluster
from isch.distances import Distance
from isch.errors import FileError
from isch.scan.exact import CodeTable, Hits, Ranked, nearest, within
from isch.scan.source import LANES
from isch.search.sealed import CODES, SegmentFile
from isch.search.snapshot import Allowed, Snapshot, merged, merged_hits

PORTION_BYTES = 32 << 20  # of codes; less is searched faster than it is handed out
MAPPED = 256  # segments that a worker keeps mapped


class Portion(NamedTuple):
    """Some tiles of a segment of codes, and which of their rows may be found."""

    path: Path
    shape: tuple[int, int]  # rows and bits of the segment
    digest: str
    first: int  # tile
    stop: int
    mask: NDArray[Any] | None


class Query(NamedTuple):
    """What is asked of every portion: the nearest."""

    codes: Codes
    k: int
    distance: Distance


class Ball(NamedTuple):
    """What is asked of every portion: everything within a radius."""

    codes: Codes
    radius: int


class Workers:
    """The workers of a cluster that see the files of an index under the same path.

    Parameters
    ----------
    client : distributed.Client
        The connection to the cluster.
    """

    def __init__(self, client: Any) -> None:
        self._cluster = Cluster(client)

    def within(self, snapshot: Snapshot, queries: Codes, radius: int, allowed: Allowed | None) -> Hits:
        """As ``Snapshot.within``."""
        asked = list(_portions(snapshot, allowed))
        found = self._cluster.map(_near, Ball(queries, radius), [portion for _, portion in asked])
        return merged_hits(list(found), [start for start, _ in asked], len(queries))

    def nearest(
        self, snapshot: Snapshot, queries: Codes, k: int, distance: Distance, allowed: Allowed | None
    ) -> Ranked:
        """As ``Snapshot.nearest``."""
        asked = list(_portions(snapshot, allowed))
        answers = self._cluster.map(_best, Query(queries, k, distance), [portion for _, portion in asked])
        found = [(distances, rows + start) for (start, _), (distances, rows) in zip(asked, answers, strict=True)]
        return merged(found, len(queries), k)


def _portions(snapshot: Snapshot, allowed: Allowed | None) -> Iterator[tuple[int, Portion]]:
    """(first row, portion) of all segments in order."""
    masks = snapshot.live if allowed is None else allowed
    step = max(1, PORTION_BYTES // (LANES * snapshot.n_bytes))
    for segment, offset, mask in zip(snapshot.segments, snapshot.offsets.tolist(), masks, strict=False):
        n_tiles, shape = len(segment.tiles), (len(segment), snapshot.n_bits)
        for first in range(0, n_tiles, step):
            stop = min(first + step, n_tiles)
            some = _part(mask, first * LANES, min(stop * LANES, len(segment)))
            yield offset + first * LANES, Portion(segment.files[0].path, shape, segment.row.codes, first, stop, some)


def _part(mask: NDArray[Any] | None, start: int, stop: int) -> NDArray[Any] | None:
    """What a mask, booleans or rising row numbers, says of some consecutive rows."""
    if mask is None or mask.dtype == np.bool_:
        return None if mask is None else mask[start:stop]
    return mask[np.searchsorted(mask, start) : np.searchsorted(mask, stop)] - start


def _best(query: Query, portion: Portion) -> Ranked:
    """What a worker does: the k best of its portion."""
    return nearest(query.codes, _table(portion), query.k, query.distance, portion.mask)


def _near(ball: Ball, portion: Portion) -> Hits:
    """Or: all of its portion that are near."""
    return within(ball.codes, _table(portion), ball.radius, portion.mask)


def _table(portion: Portion) -> CodeTable:
    file, shape = _mapped(portion.path, portion.shape, portion.digest), portion.shape
    file.check_size()
    tiles = file.array("<u8", (width(shape[0]), width(width(shape[1])), LANES))[portion.first : portion.stop]
    n_rows = min(portion.stop * LANES, portion.shape[0]) - portion.first * LANES
    return CodeTable.from_tiles(tiles, n_rows, width(portion.shape[1]))


@lru_cache(MAPPED)
def _mapped(path: Path, shape: tuple[int, int], digest: str) -> SegmentFile:
    """A segment, opened once per worker; a segment never changes."""
    try:
        return SegmentFile(path, CODES, shape, digest)
    except FileNotFoundError as error:
        raise FileError(f"{path}: is not there; was the index compacted meanwhile?") from error
