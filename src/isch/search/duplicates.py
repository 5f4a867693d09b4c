"""Near-duplicates in an index, by key: what ``Index.duplicates`` returns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from isch.join.groups import Group, grouped
from isch.join.pairs import MAX_PAIRS, Near, Pairs, Prepared, prepare
from isch.join.planner import Plan
from isch.search.catalog import Key
from isch.search.snapshot import Snapshot

ROWS_AT_ONCE = 65_536


class Alike(NamedTuple):
    """Items of which every two are within the radius, in the order they were added."""

    keys: list[Key]
    diameter: int  # the largest distance between two of them


class AlikePair(NamedTuple):
    """Two items within the radius."""

    first: Key
    second: Key
    distance: int


@dataclass(frozen=True, eq=False)
class Duplicates(Sequence[Alike]):
    """Groups of near items, or the pairs; both are found when first used."""

    snapshot: Snapshot
    rows: NDArray[np.int64]  # of the snapshot, that are not deleted
    prepared: Prepared

    @cached_property
    def groups(self) -> list[Group]:
        """The groups, by place among ``rows``."""
        return grouped(self.prepared)

    @property
    def plan(self) -> Plan:
        """How pairs are found, and why."""
        return self.prepared.plan

    def __len__(self) -> int:
        return len(self.groups)

    @overload
    def __getitem__(self, number: int) -> Alike: ...
    @overload
    def __getitem__(self, number: slice) -> list[Alike]: ...
    def __getitem__(self, number: int | slice) -> Alike | list[Alike]:
        if isinstance(number, slice):
            return self._named(self.groups[number])
        return self._named([self.groups[number]])[0]

    def __iter__(self) -> Iterator[Alike]:
        for start in range(0, len(self), ROWS_AT_ONCE):
            yield from self[start : start + ROWS_AT_ONCE]

    def pairs(self, max_pairs: int = MAX_PAIRS) -> Iterator[AlikePair]:
        """All pairs, in the order the items were added."""
        twins, plan = self.prepared.twins, self.plan
        return self._named_pairs(Near(twins, self.prepared.pairs(max_pairs), plan).expanded(max_pairs))

    def _named_pairs(self, found: Pairs) -> Iterator[AlikePair]:
        for start in range(0, len(found.first), ROWS_AT_ONCE):
            first, second, distance = (column[start : start + ROWS_AT_ONCE] for column in found)
            keys = self._keys(np.union1d(first, second))
            for a, b, bits in zip(first.tolist(), second.tolist(), distance.tolist(), strict=True):
                yield AlikePair(keys[a], keys[b], bits)

    def _named(self, groups: list[Group]) -> list[Alike]:
        keys = self._keys(np.concatenate([np.empty(0, np.int64), *(group.rows for group in groups)]))
        return [Alike([keys[place] for place in group.rows.tolist()], int(group.diameter)) for group in groups]

    def _keys(self, places: NDArray[np.int64]) -> dict[int, Key]:
        """The keys of places among the rows."""
        rows = self.rows[places]
        items = self.snapshot.items(rows)
        return {place: items[row][0] for place, row in zip(places.tolist(), rows.tolist(), strict=True)}


def duplicates(snapshot: Snapshot, radius: int) -> Duplicates:
    """The items of a moment of an index that are at most ``radius`` bits apart."""
    rows = np.empty(len(snapshot), np.int64)
    codes, at = np.empty((len(snapshot), snapshot.n_bytes), np.uint8), 0
    for some in snapshot.live_rows(ROWS_AT_ONCE):
        rows[at : at + len(some)], codes[at : at + len(some)] = some, snapshot.codes(some)
        at += len(some)
    return Duplicates(snapshot, rows, prepare(codes, radius, snapshot.n_bits))
