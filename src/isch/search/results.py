"""The results of a search in an index."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from isch.scan.exact import Hits
from isch.search.catalog import Key
from isch.search.items import Metadata


class Hit(NamedTuple):
    """One item found."""

    key: Key
    distance: float  # between the codes
    score: float | None  # what re-ranking sorted by, smaller is nearer; None without re-ranking
    metadata: Metadata


@dataclass(frozen=True, eq=False)
class Results(Sequence[list[Hit]]):
    """The hits of each query, nearest first: ``results[0][0].key``, or the columns as (queries, hits)."""

    keys: list[list[Key]]
    distances: NDArray[np.int32] | NDArray[np.float32]
    scores: NDArray[np.float32] | None
    metadata: list[list[Metadata]]

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, query: int) -> list[Hit]: ...
    @overload
    def __getitem__(self, query: slice) -> list[list[Hit]]: ...
    def __getitem__(self, query: int | slice) -> list[Hit] | list[list[Hit]]:
        if isinstance(query, slice):
            return [self[i] for i in range(*query.indices(len(self)))]
        distances = self.distances[query].tolist()
        scores = [None] * len(distances) if self.scores is None else self.scores[query].tolist()
        return list(map(Hit, self.keys[query], distances, scores, self.metadata[query]))


def collected(
    rows: NDArray[np.int64],
    items: dict[int, tuple[Key, Metadata]],
    distances: NDArray[np.int32] | NDArray[np.float32],
    scores: NDArray[np.float32] | None,
) -> Results:
    """Results from rows (queries, hits) and the items they name."""
    found = [[items[row] for row in some] for some in rows.tolist()]
    keys = [[key for key, _ in some] for some in found]
    return Results(keys, distances, scores, [[metadata for _, metadata in some] for some in found])


def listed(hits: Hits, items: dict[int, tuple[Key, Metadata]]) -> list[list[Hit]]:
    """The hits of each query within a radius, from their rows and the items these name."""
    found = [
        Hit(items[row][0], distance, None, items[row][1])
        for row, distance in zip(hits.rows.tolist(), hits.distances.tolist(), strict=True)
    ]
    return [found[first:last] for first, last in pairwise(hits.offsets.tolist())]
