"""The map that lays one small picture over another.

An affine map of one picture onto the other, with a gain and an offset of its grey values, is found by Gauss–Newton
steps from coarse to fine: 8, 16 and 32 pixels a side. It begins in all eight orientations and from several crops, so
that an uneven crop, a slight turn or a mirror image is found. Pixels that fit badly count less (Cauchy's weights), so a
watermark or a dark corner does not mislead it.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from isch.photos.phash import N_ORIENTATIONS
from isch.photos.sampling import FINE, SIDES, add_moments, correlated, look, oriented, place

LEAST_OVERLAP = 0.5
EDGE = 16  # one pixel of so many along each side is left out: there lie the empty corners of turned pictures
_STEPS = (4, 4, 3)  # Gauss–Newton steps at each size
_KEPT = (6, 3, 1)  # beginnings that are followed at each size
_WORTH = (0.5, 0.65, 0.7, 0.65)  # the correlation at the beginning and after each size; with less it is given up
_STRETCH, _SKEW, _SHIFT = 0.5, 0.25, 0.45  # how far from the identity a map may go
_RIDGE = 1e-3
_CROP = 0.16


def starting_maps() -> NDArray[np.float64]:
    """Maps to begin with, (n, 6): none, and one side or all sides cropped from either picture."""
    maps = [(1.0, 0.0, 0.0, 0.0, 1.0, 0.0)]
    for scale in (1 - _CROP, 1 / (1 - _CROP)):
        shift = abs(1 - scale)
        maps += [(scale, 0, way * shift, 0, 1, 0) for way in (-1, 1)]
        maps += [(1, 0, 0, 0, scale, way * shift) for way in (-1, 1)]
        maps.append((scale, 0, 0, 0, scale, 0))
    return np.array(maps, np.float64)


class Space(NamedTuple):
    """Memory of one search, made once for many pairs."""

    equations: NDArray[np.float64]  # (9, pixels): what map, gain and offset change in each pixel, and its value
    fit: NDArray[np.float64]  # gain, offset, scale of the residuals (0: all pixels weigh alike)


def space() -> Space:
    return Space(np.zeros((9, FINE**2)), np.zeros(3))


@njit(cache=True, nogil=True)
def lay_over(under, over, starts, space):  # type: ignore[no-untyped-def]
    """(whether one was found, orientation of ``over``, the map) that lays ``over`` best over ``under``."""
    n = N_ORIENTATIONS * len(starts)
    maps, worth = np.empty((n, 6)), np.empty(n)
    for which in range(N_ORIENTATIONS):
        turned = oriented(over[0], which)
        for start in range(len(starts)):
            maps[which * len(starts) + start] = starts[start]
            worth[which * len(starts) + start] = correlation(under[0], turned, starts[start])
    for level in range(len(SIDES)):
        if worth.max() < _WORTH[level]:
            return False, 0, maps[0]
        order = np.argsort(-worth)
        worth[order[_KEPT[level] :]] = -1.0
        for at in order[: _KEPT[level]]:
            worth[at] = refine(under[level], oriented(over[level], at // len(starts)), maps[at], _STEPS[level], space)
    best = np.argmax(worth)
    return worth[best] >= _WORTH[-1], best // len(starts), maps[best]


@njit(cache=True, nogil=True)
def refine(under, over, affine, steps, space):  # type: ignore[no-untyped-def]
    """Improve a map in place by some steps, keeping the best; returns its correlation, −1 without overlap."""
    space.fit[:] = 0
    best, kept, change = -1.0, affine.copy(), np.empty(8)
    for _ in range(steps):
        count, found = gather(under, over, affine, space)
        if found > best:
            best = found
            kept[:] = affine
        if found == -1.0 or not solve(space.equations[:, :count], change):
            break
        affine += change[:6]
        space.fit[:2] = change[6:]
        if not sensible(affine):
            break
    last = correlation(under, over, affine) if sensible(affine) else -1.0
    if last < best:
        affine[:] = kept
    return max(last, best)


@njit(cache=True, nogil=True)
def sensible(affine):  # type: ignore[no-untyped-def]
    """Whether a map is near enough to the identity to be a copy's."""
    stretch = max(abs(affine[0] - 1), abs(affine[4] - 1))
    return (
        stretch < _STRETCH
        and max(abs(affine[1]), abs(affine[3])) < _SKEW
        and max(abs(affine[2]), abs(affine[5])) < _SHIFT
    )


@njit(cache=True, nogil=True)
def correlation(under, over, affine):  # type: ignore[no-untyped-def]
    """The correlation of two pictures where the map lays one over the other; −1 if that is too little of them."""
    n, edge, count, sums = len(over), len(over) // EDGE, 0, np.zeros(5)
    for i in range(edge, n - edge):
        for j in range(edge, n - edge):
            x, y, inside = place(affine, n, i, j)
            if inside:
                count += 1
                add_moments(sums, look(under, x, y)[0], over[i, j])
    return correlated(sums, count) if count >= LEAST_OVERLAP * (n - 2 * edge) ** 2 else -1.0


@njit(cache=True, nogil=True)
def gather(under, over, affine, space):  # type: ignore[no-untyped-def]
    """The equations of one Gauss–Newton step, one for each pixel of the overlap; returns how many, and the correlation.

    Unknown are the changes of the map, the gain and the offset: under(map + change) = gain · over + offset.
    """
    n, edge, count, apart, sums = len(over), len(over) // EDGE, 0, 0.0, np.zeros(5)
    gain, offset, scale = space.fit
    for i in range(edge, n - edge):
        for j in range(edge, n - edge):
            x, y, inside = place(affine, n, i, j)
            if not inside:
                continue
            value, across, below = look(under, x, y)
            residual = value - gain * over[i, j] - offset
            weight = 1.0 / math.sqrt(1.0 + (residual / scale) ** 2) if scale > 0 else 1.0
            apart += abs(residual)
            add_moments(sums, value, over[i, j])
            slopes = weight * across * n / 2, weight * below * n / 2
            equation(space.equations, count, slopes, (2 * j + 1) / n - 1, (2 * i + 1) / n - 1)
            space.equations[6, count] = -weight * over[i, j]
            space.equations[7, count] = -weight
            space.equations[8, count] = -weight * value
            count += 1
    if gain != 0:
        space.fit[2] = max(apart / max(count, 1), 1.0)
    return count, correlated(sums, count) if count >= LEAST_OVERLAP * (n - 2 * edge) ** 2 else -1.0


@njit(cache=True, nogil=True)
def equation(equations, at, slopes, u, v):  # type: ignore[no-untyped-def]
    """What a change of the map changes in one pixel."""
    across, below = slopes
    equations[0, at], equations[1, at], equations[2, at] = across * u, across * v, across
    equations[3, at], equations[4, at], equations[5, at] = below * u, below * v, below


@njit(cache=True, nogil=True)
def solve(equations, change):  # type: ignore[no-untyped-def]
    """Least squares with a ridge on the map, by Cholesky's method; False if the equations are singular."""
    rows = np.ascontiguousarray(equations)
    normal = rows @ rows.T
    n, ridge = len(change), 1e-6 + _RIDGE * np.diag(normal)[:6].mean()
    for a in range(n + 1):
        if a < n:
            normal[a, a] += ridge if a < 6 else 1e-6
        for b in range(min(a + 1, n)):
            total = normal[a, b]
            for c in range(b):
                total -= normal[a, c] * normal[b, c]
            if a == b and not total > 1e-9:
                return False
            normal[a, b] = math.sqrt(total) if a == b else total / normal[b, b]
    for a in range(n - 1, -1, -1):
        total = normal[n, a]
        for b in range(a + 1, n):
            total -= normal[b, a] * change[b]
        change[a] = total / normal[a, a]
    return True
