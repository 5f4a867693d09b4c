"""Groups of near items, bounded in diameter: every two members of a group are a pair within the bound.

So a chain, in which each item is near the next but the ends are far apart, never becomes one group. Pairs are taken
from the nearest on; the groups of the two items become one if every item of one is near every item of the other
(complete linkage, greedy). Equal distances are taken in the order of the rows, so the same pairs give the same groups.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.typed import Dict
from numpy.typing import ArrayLike, NDArray

from isch.errors import InputError, TooManyPairs
from isch.join.buckets import read_only
from isch.join.dense_clusters import Crowd, crowds
from isch.join.pairs import MAX_PAIRS, Pairs, Prepared, prepare
from isch.join.planner import plan as planned
from isch.join.representatives import Twins
from isch.scan.exact import CodeTable

_REMEMBER = 16  # a refusal that took so many comparisons is remembered


class Group(NamedTuple):
    """Items near each other, in order, and the largest distance between two of them."""

    rows: NDArray[np.int64]
    diameter: float


def groups(pairs: Pairs, n: int, diameter: float) -> list[Group]:
    """Groups of at least two of n items, each item in one group at most.

    Parameters
    ----------
    pairs : the pairs that may share a group, with any kind of distance; what is not listed is taken to be far apart
    n : how many items there are
    diameter : the largest distance allowed inside a group

    Returns
    -------
    list of Group
        In the order of their first items.
    """
    chosen = _checked(pairs, n, diameter)
    label = _labels(chosen, n)
    widest = np.zeros(n, chosen.distance.dtype)
    measure(*chosen, label, widest)
    return _listed(label, widest)


def near_groups(
    codes: ArrayLike | CodeTable, radius: int, *, n_bits: int | None = None, max_pairs: int = MAX_PAIRS
) -> list[Group]:
    """Find groups of codes of which any two are at most ``radius`` bits apart; equal codes are always together.

    Parameters
    ----------
    codes : array of uint8 (rows, bytes), or CodeTable
        Packed codes.
    radius : int
        The largest distance inside a group, in bits.
    n_bits : int, optional
        The length of the codes; by default all bits of their bytes.
    max_pairs : int
        If more pairs of distinct codes are this near, codes within half the radius of a common centre become a group
        first.

    Returns
    -------
    list of Group
        In the order of their first rows.
    """
    return grouped(prepare(codes, radius, n_bits), max_pairs)


def grouped(prepared: Prepared, max_pairs: int = MAX_PAIRS) -> list[Group]:
    """Groups of prepared codes."""
    rows, pairs, crowded = _uncrowded(prepared, max_pairs)
    label, widest = np.arange(len(prepared.words)), np.zeros(len(prepared.words), np.int32)
    label[rows] = rows[_labels(pairs, len(rows))]
    measure(rows[pairs.first], rows[pairs.second], pairs.distance, label, widest)
    for crowd in crowded:
        label[crowd.rows], widest[crowd.rows[0]] = crowd.rows[0], crowd.diameter
    return _expanded(prepared.twins, label, widest)


def _uncrowded(prepared: Prepared, max_pairs: int) -> tuple[NDArray[np.int64], Pairs, list[Crowd]]:
    """The codes that are in no crowd, their pairs, and the crowds; none, unless there are too many pairs."""
    words, plan = prepared.words, prepared.plan
    rows, taken = np.arange(len(words)), list[Crowd]()
    while True:
        try:
            return rows, prepared.pairs(max_pairs), taken
        except TooManyPairs:
            found = crowds(prepared.words, plan.radius)
            if not found:
                raise
        taken += [Crowd(rows[crowd.rows], crowd.diameter) for crowd in found]
        rows = np.delete(rows, np.concatenate([crowd.rows for crowd in found]))
        left = read_only(words[rows])
        prepared = prepared._replace(words=left, plan=planned(left, plan.n_bits, plan.radius))


def _expanded(twins: Twins, label: NDArray[np.int64], widest: NDArray[np.int32]) -> list[Group]:
    """Groups of rows from the label of each distinct code and the width of each label."""
    row_label, row_widest = np.empty(twins.n_rows, np.int64), np.zeros(twins.n_rows, np.int32)
    row_label[twins.order] = np.repeat(twins.leaders[label], twins.sizes)
    row_widest[twins.leaders] = widest
    return _listed(row_label, row_widest)


def _checked(pairs: Pairs, n: int, diameter: float) -> Pairs:
    """The pairs within the diameter, sorted by (first, second)."""
    columns: list[NDArray[Any]] = [np.asarray(column) for column in pairs]
    first, second, distance = columns
    if not len(first) == len(second) == len(distance):
        raise InputError(f"pairs must be three columns of one length; got {len(first)}, {len(second)}, {len(distance)}")
    if len(first) and not (first.min() >= 0 and second.max() < n and (first < second).all()):
        raise InputError(f"pairs must be rows first < second of 0..{n - 1}; got some that are not")
    kept = np.flatnonzero(distance <= diameter)
    if not _in_order(first, second):
        kept = kept[np.lexsort((second[kept], first[kept]))]
    return Pairs(first[kept].astype(np.int64), second[kept].astype(np.int64), distance[kept])


def _in_order(first: NDArray[Any], second: NDArray[Any]) -> bool:
    step = np.diff(first)
    return bool(((step > 0) | ((step == 0) & (np.diff(second) >= 0))).all())


def _labels(pairs: Pairs, n: int) -> NDArray[np.int64]:
    """For each item the first item of its group."""
    label, offsets = np.arange(n), np.r_[0, np.cumsum(np.bincount(pairs.first, minlength=n))]
    link(pairs.first, pairs.second, offsets, np.argsort(pairs.distance, kind="stable"), label)
    least = np.full(n, n)
    np.minimum.at(least, label, np.arange(n))
    return least[label]


def _listed(label: NDArray[np.int64], widest: NDArray[np.number]) -> list[Group]:
    """Groups of two and more, from the label of each row and the width of each label."""
    members = np.flatnonzero(np.bincount(label, minlength=1)[label] > 1)
    order = members[np.argsort(label[members], kind="stable")]
    starts = np.flatnonzero(np.diff(label[order], prepend=-1))
    return [Group(rows, widest[label[rows[0]]].item()) for rows in np.split(order, starts[1:]) if len(rows)]


@njit(cache=True, nogil=True)
def _linked(second, offsets, a, b):  # type: ignore[no-untyped-def]
    """Whether two items are a pair."""
    low, high = min(a, b), max(a, b)
    at = offsets[low] + np.searchsorted(second[offsets[low] : offsets[low + 1]], high)
    return at < offsets[low + 1] and second[at] == high


@njit(cache=True, nogil=True)
def _all_linked(second, offsets, one, other, head, following):  # type: ignore[no-untyped-def]
    """Whether every item of a group is a pair with every item of another, and how many comparisons that took."""
    a, count = head[one], 0
    while a >= 0:
        b = head[other]
        while b >= 0:
            count += 1
            if not _linked(second, offsets, a, b):
                return False, count
            b = following[b]
        a = following[a]
    return True, count


@njit(cache=True, nogil=True)
def link(first, second, offsets, order, label):  # type: ignore[no-untyped-def]
    """Unite the groups of pairs taken in an order, where all their items are pairs; ``label`` gives each item's group.

    Pairs are sorted by (first, second), those of item i at offsets[i]:offsets[i + 1]. A group that was refused another
    will always be, since groups only grow.
    """
    n = len(label)
    head, tail, following, size = np.arange(n), np.arange(n), np.full(n, -1), np.ones(n, np.int64)
    refused = Dict.empty(types.int64, types.boolean)
    for pair in order:
        large, small = label[first[pair]], label[second[pair]]
        if size[large] < size[small]:
            large, small = small, large
        number = min(large, small) * n + max(large, small)
        if large == small or (size[small] > 1 and number in refused):
            continue
        fits, cost = _all_linked(second, offsets, small, large, head, following)
        if not fits:
            if cost > _REMEMBER:
                refused[number] = True
            continue
        item = head[small]
        while item >= 0:
            label[item] = large
            item = following[item]
        following[tail[large]], tail[large] = head[small], tail[small]
        size[large] += size[small]


@njit(cache=True, nogil=True)
def measure(first, second, distance, label, widest):  # type: ignore[no-untyped-def]
    """The largest distance of a pair inside each group, at its label."""
    for i in range(len(first)):
        group = label[first[i]]
        if group == label[second[i]]:
            widest[group] = max(widest[group], distance[i])
