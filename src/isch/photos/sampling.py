"""Small pictures at several sizes, in eight orientations, and seen through a map.

A map (6,) takes the place (u, v) to (m0 u + m1 v + m2, m3 u + m4 v + m5); the sides of a picture are at −1 and 1.
``isch.photos.phash`` numbers the orientations.
"""

import math

import numpy as np
from numba import njit

SIDES = (8, 16, 32)  # at which pictures are laid over each other
FINE = 64  # at which they are then compared


@njit(cache=True, nogil=True)
def pyramid(thumbnail):  # type: ignore[no-untyped-def]
    """The picture at 8, 16, 32 and 64 pixels a side."""
    fine = thumbnail.astype(np.float64)
    large = halved(fine)
    middle = halved(large)
    return halved(middle), middle, large, fine


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
def add_moments(sums, value, other):  # type: ignore[no-untyped-def]
    """Add a pixel to the sums of both pictures, of their squares and of their product."""
    sums[0] += value
    sums[1] += other
    sums[2] += value * value
    sums[3] += other * other
    sums[4] += value * other


@njit(cache=True, nogil=True)
def correlated(sums, count):  # type: ignore[no-untyped-def]
    """The correlation of two pictures from their moments."""
    spread = (sums[2] - sums[0] ** 2 / count) * (sums[3] - sums[1] ** 2 / count)
    return (sums[4] - sums[0] * sums[1] / count) / math.sqrt(max(spread, 1e-9))
