"""Groups of copies, bounded in diameter.

Two members of a group are a match, or both match a third: so all copies of one picture come together although a crop
and a turned copy may not match each other, and yet a chain of copies never becomes one group.
"""

from collections.abc import Iterable

import numpy as np
from numba import njit

from isch.join import groups as linkage
from isch.join.groups import Group
from isch.join.pairs import Pairs
from isch.photos.candidates import Matches, Rows, least
from isch.photos.matching import DEFAULT, radius_of

MANY = 256  # matches of one picture: so many copies match each other directly, without a third


def group_matches(
    matches: Matches, n: int, closeness: str = DEFAULT, apart: Iterable[tuple[int, int]] = ()
) -> list[Group]:
    """Groups of at least two of n pictures, each picture in one group at most.

    Parameters
    ----------
    matches : pairs of copies, from ``find_matches``
    n : how many pictures there are
    closeness : which copies belong together: "identical", "same" or "altered"
    apart : pairs of pictures that are never to share a group, whatever their distance

    Returns
    -------
    list of Group
        ``rows`` of the members, and ``diameter``, the largest distance between two of them: of their match, or the
        larger of their two matches with a third picture, whichever is less. ``matching.setting_of`` names it.
    """
    radius = radius_of(closeness)
    refused = _numbers(apart, n)
    near = _without(matches.where(matches.distance <= radius), refused, n)
    both = _without(least(n, [near, through_third(near, n)]), refused, n)
    return linkage.groups(Pairs(*both), n, radius)  # type: ignore[arg-type]  # any kind of distance


def through_third(matches: Matches, n: int) -> Matches:
    """Pairs that both match a third picture, at the larger of the two distances."""
    one = np.concatenate([matches.first, matches.second])
    other = np.concatenate([matches.second, matches.first])
    order = np.lexsort((other, one))
    offsets = np.searchsorted(one[order], np.arange(n + 1))
    return Matches(*_links(offsets, other[order], np.tile(matches.distance, 2)[order]))


def _numbers(apart: Iterable[tuple[int, int]], n: int) -> Rows:
    return np.array([min(pair) * n + max(pair) for pair in apart], np.int64)


def _without(matches: Matches, refused: Rows, n: int) -> Matches:
    return matches.where(~np.isin(matches.numbers(n), refused))


@njit(cache=True, nogil=True)
def _links(offsets, second, distance):  # type: ignore[no-untyped-def]
    """Every two neighbours of an item with at most ``MANY`` of them, and the larger of their distances to it."""
    counts = np.diff(offsets)
    counts = np.where(counts <= MANY, counts * (counts - 1) // 2, 0)
    rows, apart, at = np.empty((2, counts.sum()), np.int64), np.empty(counts.sum(), np.float32), 0
    for item in range(len(counts)):
        if counts[item] == 0:
            continue
        for a in range(offsets[item], offsets[item + 1]):
            for b in range(a + 1, offsets[item + 1]):
                rows[0, at], rows[1, at], apart[at] = second[a], second[b], max(distance[a], distance[b])
                at += 1
    return rows[0], rows[1], apart
