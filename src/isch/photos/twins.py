"""Pictures so nearly the same that one stands for all: close looks at pairs are taken between those alone.

Twenty recompressed copies of a photograph would otherwise each be laid over every other picture that resembles it.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from isch.photos.candidates import Matches, Rows, least

TWINS = 4  # bits between pictures that are as good as the same
MOST = 256  # twins of one picture for which its matches count too


def stand_ins(matches: Matches, n: int) -> Rows:
    """For each of n pictures the first of those like it, which may stand for it; the picture itself if there is none.

    It is at most ``TWINS`` bits away, so no chain leads far away.
    """
    twins = matches.where(matches.distance <= TWINS)
    out: Rows = _first_of_each(twins.first, twins.second, n)
    return out


@njit(cache=True, nogil=True)
def _first_of_each(first, second, n):  # type: ignore[no-untyped-def]
    out = np.arange(n)
    for a, b in zip(first, second):  # noqa: B905  # Numba's zip is not strict
        if out[a] == a and out[b] == b:
            out[b] = a
    return out


def between(matches: Matches, stands: Rows) -> Matches:
    """Pairs of stand-ins instead of pairs of pictures, each once; pairs of twins go."""
    one, other = stands[matches.first], stands[matches.second]
    pairs = Matches(np.minimum(one, other), np.maximum(one, other), matches.distance)
    return least(len(stands), [pairs.where(one != other)])


def within(stands: Rows, most: int = MOST) -> Matches:
    """Pairs of pictures for which the same one stands, each with at most so many before it; all at distance 0."""
    order = np.argsort(stands, kind="stable")
    _, place = _numbered(np.unique(stands, return_counts=True)[1])
    second, back = _numbered(np.minimum(place, most))
    return least(len(stands), [Matches(order[second - 1 - back], order[second], np.zeros(len(second), np.float32))])


def spread(matches: Matches, stands: Rows) -> Matches:
    """Pairs of all twins from pairs of those that stand for them, at the same distance."""
    order = np.argsort(stands, kind="stable")
    starts = np.searchsorted(stands[order], np.arange(len(stands) + 1))
    sizes = np.minimum(np.diff(starts), MOST)
    pair, place = _numbered(sizes[matches.first] * sizes[matches.second])
    one, other = np.divmod(place, sizes[matches.second[pair]])
    first, second = order[starts[matches.first[pair]] + one], order[starts[matches.second[pair]] + other]
    every = Matches(np.minimum(first, second), np.maximum(first, second), matches.distance[pair])
    return least(len(stands), [every])


def _numbered(counts: NDArray[np.int64]) -> tuple[Rows, Rows]:
    """(which, number within it) of everything counted: counts 2, 1 give (0, 0, 1), (0, 1, 0)."""
    which = np.repeat(np.arange(len(counts)), counts)
    return which, np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
