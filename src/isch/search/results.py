"""What a search in an index gives."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from isch.search.catalog import Key

Metadata = dict[str, Any] | None


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
    ids: NDArray[np.int64],
    items: dict[int, tuple[Key, str | None]],
    distances: NDArray[np.int32] | NDArray[np.float32],
    scores: NDArray[np.float32] | None,
) -> Results:
    """Results from ids (queries, hits) and the items they name."""
    notes = {i: parsed(text) for i, (_, text) in items.items()}
    listed: list[list[int]] = ids.tolist()
    keys = [[items[i][0] for i in row] for row in listed]
    return Results(keys, distances, scores, [[notes[i] for i in row] for row in listed])


def parsed(text: str | None) -> Metadata:
    """Metadata from the JSON the catalog holds."""
    return None if text is None else json.loads(text)
