"""Measures of a ranking, with the expected value over a uniformly random order within ties.

Distances between codes take few values, so most of a ranking is ties. A ranking is therefore a profile: for each
distance, nearest first, how many items have it (``sizes``) and how many of those are relevant (``hits``). Everything
here is computed from profiles, so no order within a tie is ever chosen. The bounds put the relevant items of each tie
first (optimistic) or last (pessimistic).
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from isch.errors import ParameterError, unknown

Ties = Literal["expected", "optimistic", "pessimistic"]
Counts = NDArray[np.int64]

TIES: tuple[Ties, ...] = ("expected", "pessimistic", "optimistic")


@dataclass(frozen=True)
class Profile:
    """One query's ranking: the numbers (g,) of items and of relevant items in each of g ties, nearest first.

    Ties may be empty. ``radii`` says that they are the Hamming distances 0, 1, 2, …
    """

    sizes: Counts
    hits: Counts
    radii: bool = False

    def ordered(self, ties: Ties) -> "Profile":
        """The same ranking with the ties broken for or against the relevant items, or left as they are."""
        return self if ties == "expected" else self._optimistic if ties == "optimistic" else self._pessimistic

    @cached_property
    def _optimistic(self) -> "Profile":
        return Profile(*_split_ties(self.sizes, self.hits, 0))

    @cached_property
    def _pessimistic(self) -> "Profile":
        return Profile(*_split_ties(self.sizes, self.hits, 1))


def from_integers(distances: NDArray[np.integer[Any]], relevant: NDArray[np.bool_], n_groups: int) -> Profile:
    """The profile of integer distances 0 … n_groups − 1 of one query."""
    sizes, hits = _count(distances, relevant, n_groups)
    return Profile(sizes, hits, radii=True)


class FloatRanking:
    """Real distances of one query, sorted once for any number of profiles; only equal values are ties."""

    def __init__(self, distances: NDArray[np.floating[Any]]) -> None:
        self._distances, self._sorted = distances, np.sort(distances)

    def profile(self, relevant: NDArray[np.bool_]) -> Profile:
        """The profile for these relevant items."""
        return Profile(*_runs(self._sorted, np.sort(self._distances[relevant])))


def from_floats(distances: NDArray[np.floating[Any]], relevant: NDArray[np.bool_]) -> Profile:
    """The profile of real distances of one query."""
    return FloatRanking(distances).profile(relevant)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _count(distances: Any, relevant: Any, n_groups: int) -> Any:
    sizes = np.zeros(n_groups, np.int64)
    hits = np.zeros(n_groups, np.int64)
    for i in range(len(distances)):
        sizes[distances[i]] += 1
        hits[distances[i]] += relevant[i]
    return sizes, hits


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _runs(keys: Any, relevant: Any) -> Any:
    """Lengths of the runs of equal values in sorted ``keys``, and how often each value is in sorted ``relevant``.

    Neighbouring runs that are all relevant, or all irrelevant, count as one, because no measure tells the difference.
    """
    sizes = np.empty(2 * len(relevant) + 1, np.int64)
    hits = np.empty(2 * len(relevant) + 1, np.int64)
    last, seen, start = -1, 0, 0
    while start < len(keys):
        stop = start + 1
        while stop < len(keys) and keys[stop] == keys[start]:
            stop += 1
        found = seen
        while found < len(relevant) and relevant[found] == keys[start]:
            found += 1
        size, hit = stop - start, found - seen
        if last >= 0 and ((hit == 0 and hits[last] == 0) or (hit == size and hits[last] == sizes[last])):
            sizes[last] += size
            hits[last] += hit
        else:
            last += 1
            sizes[last], hits[last] = size, hit
        seen, start = found, stop
    return sizes[: last + 1], hits[: last + 1]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _split_ties(sizes: Any, hits: Any, place: int) -> Any:
    """Each tie as two: its relevant items at ``place`` 0 or 1, the others at the other."""
    split = np.empty(2 * len(sizes), np.int64)
    found = np.zeros(2 * len(sizes), np.int64)
    for group in range(len(sizes)):
        split[2 * group + place] = found[2 * group + place] = hits[group]
        split[2 * group + 1 - place] = sizes[group] - hits[group]
    return split, found


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def expected_hits(sizes: Any, hits: Any, ks: Any) -> Any:
    """Relevant items expected among the first k, for each of the ascending ``ks``.

    With ``a`` items strictly nearer than the group that k falls into, r_a of them relevant, and t items, r relevant
    in that group: r_a + r (k − a) / t.
    """
    out = np.empty(len(ks))
    group, before, found = 0, 0, 0
    for i in range(len(ks)):
        while group < len(sizes) and before + sizes[group] <= ks[i]:
            before += sizes[group]
            found += hits[group]
            group += 1
        out[i] = found
        if group < len(sizes):
            out[i] += hits[group] * (ks[i] - before) / sizes[group]
    return out


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def average_precision(sizes: Any, hits: Any, trapezoid: bool) -> float:
    """Expected average precision: Σ over relevant items of the precision at their rank, over their number.

    ``trapezoid`` is the rule of the INRIA Holidays evaluation: the mean of the precisions just before and at the item.
    Position i of a tie of t items, r relevant, is relevant with probability r/t, and then (i − 1)(r − 1)/(t − 1)
    earlier items of the tie are expected to be; the precision is linear in that number, so the result is exact.
    """
    before, found, total = 0, 0, 0.0
    for group in range(len(sizes)):
        t, r = sizes[group], hits[group]
        if r > 0:
            step = (r - 1) / (t - 1) if t > 1 else 0.0
            part = 0.0
            for i in range(t):
                earlier = found + i * step
                precision = (earlier + 1) / (before + i + 1)
                if trapezoid:
                    previous = earlier / (before + i) if before + i > 0 else 1.0
                    precision = (previous + precision) / 2
                part += precision
            total += part * r / t
        before += t
        found += r
    return total / found if found > 0 else np.nan


@dataclass(frozen=True)
class Measure:
    """A number between 0 and 1 for one query; NaN where it is not defined (recall with nothing to find)."""

    name: str
    kind: str
    k: int = 0
    neighbours: int = 0  # so many true nearest neighbours are relevant; 0: the items of the query's class are

    def of(self, profile: Profile, ties: Ties = "expected") -> float:
        """The measure of one ranking."""
        if self.kind == "within":
            return _precision_within(profile, self.k)
        p = profile.ordered(ties)
        if self.kind in ("map", "map-trapezoid"):
            return float(average_precision(p.sizes, p.hits, self.kind == "map-trapezoid"))
        found = float(expected_hits(p.sizes, p.hits, np.array([self.k]))[0])
        if self.kind == "precision":
            return found / self.k
        total = int(p.hits.sum())
        return found / total if total else float("nan")


def _precision_within(profile: Profile, radius: int) -> float:
    """Relevant share of the items within a Hamming radius; 0 if there are none, as usual in the literature."""
    if not profile.radii:
        return float("nan")
    inside = int(profile.sizes[: radius + 1].sum())
    return int(profile.hits[: radius + 1].sum()) / inside if inside else 0.0


MEASURES = {
    "precision@K": r"(?P<kind>precision)@(?P<k>\d{1,9})",
    "recall@K": r"(?P<kind>recall)@(?P<k>\d{1,9})",
    "map": r"(?P<kind>map)",
    "map-trapezoid": r"(?P<kind>map-trapezoid)",
    "within@RADIUS": r"(?P<kind>within)@(?P<k>\d{1,9})",
    "nnN-recall@K": r"nn(?P<neighbours>\d{1,9})-(?P<kind>recall)@(?P<k>\d{1,9})",
}


def measure(name: str) -> Measure:
    """A measure by its name.

    Parameters
    ----------
    name : str
        ``precision@500``, ``recall@1000``, ``map``, ``map-trapezoid``, ``within@2`` (precision within a Hamming
        radius) or ``nn10-recall@100`` (share of the 10 true nearest neighbours among the first 100).
    """
    for pattern in MEASURES.values():
        match = re.fullmatch(pattern, name)
        if match:
            parts = match.groupdict()
            k, neighbours = int(parts.get("k") or 0), int(parts.get("neighbours") or 0)
            if (parts.get("k") == "0" and parts["kind"] != "within") or parts.get("neighbours") == "0":
                raise ParameterError(f"measure {name!r}: expected a number of at least 1; got 0")
            return Measure(name, parts["kind"], k, neighbours)
    raise unknown("measure", name, MEASURES)


def curve_ranks(n_items: int, points: int = 40) -> NDArray[np.int64]:
    """Ranks from 1 to ``n_items``, evenly spread on a logarithmic axis."""
    return np.unique(np.geomspace(1, n_items, points).round().astype(np.int64))
