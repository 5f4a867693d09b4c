"""Laying one small picture over another, and how far they then differ.

An affine map of one picture onto the other, with a gain and an offset of its grey values, is found by Gauss–Newton
steps from coarse to fine: 8, 16 and 32 pixels a side. It begins in all eight orientations and from several crops, so
that an uneven crop, a slight turn or a mirror image is found. Pixels that fit badly weigh less (Cauchy's weights): a
watermark or a dark corner does not lead it astray. ``isch.photos.phash`` numbers the orientations.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from isch import compute
from isch.photos.phash import FREQUENCIES, N_BITS, N_ORIENTATIONS

SIDES = (8, 16, 32)
LEAST_OVERLAP = 0.45
_STEPS = (4, 4, 3)  # Gauss–Newton steps at each size
_KEPT = (4, 2)  # beginnings that go on to the next size
_WORTH = (0.55, 0.65)  # the correlation that a beginning needs to go on
_STRETCH, _SKEW, _SHIFT = 0.5, 0.25, 0.45  # how far from the identity a map may go
_RIDGE = 1e-3
_CROP = 0.16
_AT_ONCE = 256  # pairs in one piece of work


def _starts() -> NDArray[np.float64]:
    """Maps to begin with, (n, 6): none, and one side cropped from either picture."""
    maps = [(1.0, 0.0, 0.0, 0.0, 1.0, 0.0)]
    for scale in (1 - _CROP, 1 / (1 - _CROP)):
        shift = abs(1 - scale)
        maps += [(scale, 0, way * shift, 0, 1, 0) for way in (-1, 1)]
        maps += [(1, 0, 0, 0, scale, way * shift) for way in (-1, 1)]
    return np.array(maps, np.float64)


def _waves() -> NDArray[np.float64]:
    """Cosines over the pixels of the largest size, a row for each frequency."""
    middle = (np.arange(SIDES[-1]) + 0.5) / SIDES[-1]
    return np.asarray(np.cos(np.pi * np.arange(FREQUENCIES)[:, None] * middle))


class _Space(NamedTuple):
    """Memory of one search, made once for many pairs."""

    normal: NDArray[np.float64]  # (8, 8): normal equations of map, gain and offset
    right: NDArray[np.float64]  # (8,)
    row: NDArray[np.float64]  # (8,)
    fit: NDArray[np.float64]  # gain, offset, scale of the residuals (0: all pixels weigh alike)


def distances(
    thumbnails: NDArray[np.uint8], first: NDArray[np.int64], second: NDArray[np.int64]
) -> NDArray[np.float32]:
    """How far pairs of pictures differ once laid over each other, in bits of 144: 0 for copies, about 60 for others.

    Parameters
    ----------
    thumbnails : uint8 (n, 32, 32)
    first, second : rows of the pairs

    Returns
    -------
    float32 (pairs,)
        144 where the pictures could not be laid over each other.
    """
    out = np.empty(len(first), np.float32)
    starts, waves = _starts(), _waves()

    def work(begin: int) -> None:
        some = slice(begin, begin + _AT_ONCE)
        compare_pairs(thumbnails, first[some], second[some], starts, waves, out[some])

    for _ in compute.parallel(work, range(0, len(first), _AT_ONCE), blas=False):
        pass
    return out


@njit(cache=True, nogil=True)
def compare_pairs(thumbnails, first, second, starts, waves, out):  # type: ignore[no-untyped-def]
    """``distances`` in this thread."""
    space = _Space(np.zeros((8, 8)), np.zeros(8), np.zeros(8), np.zeros(3))
    for pair in range(len(first)):
        under = pyramid(thumbnails[first[pair]])
        over = pyramid(thumbnails[second[pair]])
        found, which, affine = lay_over(under, over, starts, space)
        out[pair] = difference(under[2], oriented(over[2], which), affine, waves) if found else N_BITS


@njit(cache=True, nogil=True)
def pyramid(thumbnail):  # type: ignore[no-untyped-def]
    """The picture at 8, 16 and 32 pixels a side."""
    large = thumbnail.astype(np.float64)
    middle = halved(large)
    return halved(middle), middle, large


@njit(cache=True, nogil=True)
def halved(picture):  # type: ignore[no-untyped-def]
    """Means of 2 × 2 pixels."""
    n = len(picture) // 2
    out = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            upper = picture[2 * i, 2 * j] + picture[2 * i, 2 * j + 1]
            out[i, j] = 0.25 * (upper + picture[2 * i + 1, 2 * j] + picture[2 * i + 1, 2 * j + 1])
    return out


@njit(cache=True, nogil=True)
def oriented(picture, which):  # type: ignore[no-untyped-def]
    """A picture in one of the eight orientations, copied."""
    n = len(picture)
    out = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            row = n - 1 - i if which & 2 else i
            column = n - 1 - j if which & 1 else j
            out[i, j] = picture[column, row] if which & 4 else picture[row, column]
    return out


@njit(cache=True, nogil=True)
def lay_over(under, over, starts, space):  # type: ignore[no-untyped-def]
    """(whether one was found, orientation of ``over``, the map) that lays ``over`` best over ``under``."""
    n = N_ORIENTATIONS * len(starts)
    maps, worth = np.empty((n, 6)), np.empty(n)
    for which in range(N_ORIENTATIONS):
        turned = oriented(over[0], which)
        for start in range(len(starts)):
            at = which * len(starts) + start
            maps[at] = starts[start]
            worth[at] = refine(under[0], turned, maps[at], 0, space)
    for level in range(2):
        best = np.argsort(-worth)[: _KEPT[0] if level == 0 else _KEPT[1]]
        for at in range(n):
            if at not in best:
                worth[at] = -1.0
        for at in best:
            turned = oriented(over[level], at // len(starts))
            worth[at] = refine(under[level], turned, maps[at], _STEPS[level], space)
        if worth.max() < _WORTH[level]:
            return False, 0, maps[0]
    chosen = np.argmax(worth)
    turned = oriented(over[2], chosen // len(starts))
    correlation = refine(under[2], turned, maps[chosen], _STEPS[2], space)
    return correlation > 0, chosen // len(starts), maps[chosen]


@njit(cache=True, nogil=True)
def refine(under, over, affine, steps, space):  # type: ignore[no-untyped-def]
    """Improve a map in place by some steps, keeping the best; returns its correlation, −1 without overlap."""
    space.fit[:] = 0
    best, kept = -1.0, affine.copy()
    for step in range(steps + 1):
        correlation = gather(under, over, affine, space)
        if correlation > best:
            best = correlation
            kept[:] = affine
        if step == steps or correlation == -1.0 or not solve(space.normal, space.right):
            break
        affine += space.right[:6]
        space.fit[:2] = space.right[6:]
        if not sensible(affine):
            break
    affine[:] = kept
    return best


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
def look(picture, x, y):  # type: ignore[no-untyped-def]
    """(value, slope across, slope down) between pixels; x and y in pixels, 0 at the middle of the first."""
    n = len(picture)
    x, y = min(max(x, 0.0), n - 1.0), min(max(y, 0.0), n - 1.0)
    column, row = min(int(x), n - 2), min(int(y), n - 2)
    right, down = x - column, y - row
    a, b = picture[row, column], picture[row, column + 1]
    c, d = picture[row + 1, column], picture[row + 1, column + 1]
    across, below = (b - a) * (1 - down) + (d - c) * down, (c - a) * (1 - right) + (d - b) * right
    return (a * (1 - right) + b * right) * (1 - down) + (c * (1 - right) + d * right) * down, across, below


@njit(cache=True, nogil=True)
def place(affine, n, i, j):  # type: ignore[no-untyped-def]
    """(x, y, whether inside) where a map takes pixel i, j; the sides of the picture are at −1 and 1."""
    half = n / 2
    u, v = (j + 0.5) / half - 1, (i + 0.5) / half - 1
    x = affine[0] * u + affine[1] * v + affine[2]
    y = affine[3] * u + affine[4] * v + affine[5]
    return (x + 1) * half - 0.5, (y + 1) * half - 0.5, -1 <= x <= 1 and -1 <= y <= 1


@njit(cache=True, nogil=True)
def gather(under, over, affine, space):  # type: ignore[no-untyped-def]
    """Normal equations of one Gauss–Newton step; returns the correlation over the overlap, −1 if that is too small.

    Unknown are the changes of the map, the gain and the offset: under(map + change) = gain · over + offset. The scale
    of the residuals is left in ``space.fit``.
    """
    n = len(over)
    space.normal[:], space.right[:] = 0, 0
    count, apart, sums = 0, 0.0, np.zeros(5)
    for i in range(n):
        for j in range(n):
            x, y, inside = place(affine, n, i, j)
            if not inside:
                continue
            value, across, below = look(under, x, y)
            other = over[i, j]
            residual = value - space.fit[0] * other - space.fit[1]
            weight = 1.0 / (1.0 + (residual / space.fit[2]) ** 2) if space.fit[2] > 0 else 1.0
            count += 1
            apart += abs(residual)
            add_moments(sums, value, other)
            u, v = (2 * j + 1) / n - 1, (2 * i + 1) / n - 1
            add_equation(space, weight, across * n / 2, below * n / 2, value, other, u, v)
    if count < LEAST_OVERLAP * n * n:
        return -1.0
    space.fit[2] = max(apart / count, 1.0) if space.fit[0] != 0 else 0.0
    return correlation_of(sums, count)


@njit(cache=True, nogil=True)
def add_moments(sums, value, other):  # type: ignore[no-untyped-def]
    """Add a pixel to the sums of both pictures, of their squares and of their product."""
    sums[0] += value
    sums[1] += other
    sums[2] += value * value
    sums[3] += other * other
    sums[4] += value * other


@njit(cache=True, nogil=True)
def correlation_of(sums, count):  # type: ignore[no-untyped-def]
    """The correlation of two pictures from their sums."""
    spread = (sums[2] - sums[0] ** 2 / count) * (sums[3] - sums[1] ** 2 / count)
    return (sums[4] - sums[0] * sums[1] / count) / math.sqrt(max(spread, 1e-9))


@njit(cache=True, nogil=True)
def add_equation(space, weight, across, below, value, other, u, v):  # type: ignore[no-untyped-def]
    """Add one pixel's equation: its slopes times the change of its place, minus gain and offset, make up its value."""
    row = space.row
    row[0], row[1], row[2] = across * u, across * v, across
    row[3], row[4], row[5] = below * u, below * v, below
    row[6], row[7] = -other, -1.0
    for a in range(8):
        weighted = weight * row[a]
        space.right[a] -= weighted * value
        for b in range(a + 1):
            space.normal[a, b] += weighted * row[b]


@njit(cache=True, nogil=True)
def solve(normal, right):  # type: ignore[no-untyped-def]
    """Solve the normal equations in place by Cholesky's method, with a ridge on the map; False if they are singular."""
    n = len(right)
    ridge = _RIDGE * np.diag(normal)[:6].mean() + 1e-6
    for a in range(n):
        normal[a, a] += ridge if a < 6 else 1e-6
        for b in range(a + 1):
            total = normal[a, b]
            for c in range(b):
                total -= normal[a, c] * normal[b, c]
            if a == b and total <= 1e-12:
                return False
            normal[a, b] = math.sqrt(total) if a == b else total / normal[b, b]
    for a in range(n):
        right[a] = (right[a] - np.dot(normal[a, :a], right[:a])) / normal[a, a]
    for a in range(n - 1, -1, -1):
        right[a] = (right[a] - np.dot(normal[a + 1 :, a].copy(), right[a + 1 :])) / normal[a, a]
    return True


@njit(cache=True, nogil=True)
def difference(under, over, affine, waves):  # type: ignore[no-untyped-def]
    """How far two pictures differ where the map lays one over the other, in bits of 144.

    The mean of two views that are blind in different places: how many signs of cosine coefficients differ, and the
    angle between the pictures without their local mean, as bits.
    """
    laid, inside = overlay(under, over, affine)
    differing = np.sum((waves @ laid @ waves.T > 0) != (waves @ over @ waves.T > 0))
    one, other = detail(laid, inside), detail(over, inside)
    product = np.sum(one * other) / math.sqrt(max(np.sum(one * one) * np.sum(other * other), 1e-9))
    return (differing + math.acos(min(max(product, -1.0), 1.0)) / math.pi * N_BITS) / 2


@njit(cache=True, nogil=True)
def overlay(under, over, affine):  # type: ignore[no-untyped-def]
    """(``under`` as the map shows it in the frame of ``over``, where it is inside); outside lies ``over``, adapted."""
    n = len(over)
    laid, inside, sums, count = np.zeros((n, n)), np.zeros((n, n), np.bool_), np.zeros(5), 0
    for i in range(n):
        for j in range(n):
            x, y, inside[i, j] = place(affine, n, i, j)
            if inside[i, j]:
                laid[i, j] = look(under, x, y)[0]
                add_moments(sums, laid[i, j], over[i, j])
                count += 1
    gain = (sums[4] - sums[0] * sums[1] / count) / max(sums[3] - sums[1] ** 2 / count, 1e-9)
    for i in range(n):
        for j in range(n):
            if not inside[i, j]:
                laid[i, j] = sums[0] / count + gain * (over[i, j] - sums[1] / count)
    return laid, inside


@njit(cache=True, nogil=True)
def detail(picture, inside):  # type: ignore[no-untyped-def]
    """The picture minus the mean of 5 × 5 pixels around each, inside; 0 elsewhere."""
    n = len(picture)
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if not inside[i, j]:
                continue
            total, count = 0.0, 0
            for row in range(max(i - 2, 0), min(i + 3, n)):
                for column in range(max(j - 2, 0), min(j + 3, n)):
                    if inside[row, column]:
                        total += picture[row, column]
                        count += 1
            out[i, j] = picture[i, j] - total / count
    return out
