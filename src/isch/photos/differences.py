"""How far pictures differ once one is laid over the other.

distances(thumbnails, first, second)
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from isch import compute
from isch.photos.phash import FREQUENCIES, N_BITS, N_ORIENTATIONS
from isch.photos.registration import Space, lay_over, starting_maps
from isch.photos.sampling import SIDES, add_moments, look, oriented, place, pyramid

_NEAR = 20  # bits: pictures nearer than this need no second look
_COVERED = 10  # bits that a picture is further away if it must be partly covered
_AGREEING = 0.4  # how far the signs of detail agree, without which pictures are not compared as they lie
_AT_ONCE = 256  # pairs in one piece of work


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
    starts, waves = starting_maps(), cosines()

    def work(begin: int) -> None:
        some = slice(begin, begin + _AT_ONCE)
        compare_pairs(thumbnails, first[some], second[some], starts, waves, out[some])

    for _ in compute.parallel(work, range(0, len(first), _AT_ONCE)):
        pass
    return out


def cosines() -> NDArray[np.float64]:
    """Cosines over the pixels of the largest size, a row for each frequency."""
    middle = (np.arange(SIDES[-1]) + 0.5) / SIDES[-1]
    return np.asarray(np.cos(np.pi * np.arange(FREQUENCIES)[:, None] * middle))


@njit(cache=True, nogil=True)
def compare_pairs(thumbnails, first, second, starts, waves, out):  # type: ignore[no-untyped-def]
    """``distances`` in this thread."""
    space = Space(np.zeros((9, SIDES[-1] ** 2)), np.zeros(3))
    for pair in range(len(first)):
        under = pyramid(thumbnails[first[pair]])
        over = pyramid(thumbnails[second[pair]])
        found, which, affine = lay_over(under, over, starts, space)
        out[pair] = difference(under[2], oriented(over[2], which), affine, waves) if found else N_BITS
        if out[pair] > _NEAR:
            out[pair] = min(out[pair], in_place(under, over, starts[0], waves))


@njit(cache=True, nogil=True)
def in_place(under, over, identity, waves):  # type: ignore[no-untyped-def]
    """How far two pictures differ as they lie, in the orientation in which their detail agrees best.

    A covered part misleads the search for a map, but such a copy is usually not changed in other ways.
    """
    everywhere = np.ones(under[1].shape, np.bool_)
    one, other = np.sign(detail(under[1], everywhere)), np.sign(detail(over[1], everywhere))
    fits = np.array([np.mean(one * oriented(other, which)) for which in range(N_ORIENTATIONS)])
    if fits.max() < _AGREEING:
        return float(N_BITS)
    return difference(under[2], oriented(over[2], np.argmax(fits)), identity, waves)


@njit(cache=True, nogil=True)
def difference(under, over, affine, waves):  # type: ignore[no-untyped-def]
    """How far two pictures differ where the map lays one over the other, in bits of 144.

    Where they differ much, they may still be copies of which one is partly covered, by a logo or a bar: they are
    compared again without the worst blocks, for some bits more.
    """
    laid, seen = overlay(under, over, affine)
    adapt(laid, over, seen)
    whole = apart(laid, over, seen, waves)
    if whole < _COVERED or not uncover(laid, over, seen):
        return whole
    adapt(laid, over, seen)
    return min(whole, apart(laid, over, seen, waves) + _COVERED)


@njit(cache=True, nogil=True)
def apart(laid, over, seen, waves):  # type: ignore[no-untyped-def]
    """How far two pictures differ where both are seen, in bits of 144.

    The mean of two views that are blind in different places: how many signs of cosine coefficients differ, and the
    angle between the pictures without their local mean, as bits. Where little is seen, fewer signs can differ.
    """
    differing = np.sum((waves @ laid @ waves.T > 0) != (waves @ over @ waves.T > 0))
    one, other = detail(laid, seen), detail(over, seen)
    product = np.sum(one * other) / math.sqrt(max(np.sum(one * one) * np.sum(other * other), 1e-9))
    angle = math.acos(min(max(product, -1.0), 1.0)) / math.pi
    return (differing / seen.mean() + angle * N_BITS) / 2


@njit(cache=True, nogil=True)
def overlay(under, over, affine):  # type: ignore[no-untyped-def]
    """(``under`` as the map shows it in the frame of ``over``, where it is inside)."""
    n = len(over)
    laid, inside = np.zeros((n, n)), np.zeros((n, n), np.bool_)
    for i in range(n):
        for j in range(n):
            x, y, inside[i, j] = place(affine, n, i, j)
            if inside[i, j]:
                laid[i, j] = look(under, x, y)[0]
    return laid, inside


@njit(cache=True, nogil=True)
def adapt(laid, over, seen):  # type: ignore[no-untyped-def]
    """Where it is not seen, put the other picture in place, with the grey values that suit the rest."""
    sums, count = np.zeros(5), 0
    for i in range(len(over)):
        for j in range(len(over)):
            if seen[i, j]:
                add_moments(sums, laid[i, j], over[i, j])
                count += 1
    gain = (sums[4] - sums[0] * sums[1] / count) / max(sums[3] - sums[1] ** 2 / count, 1e-9)
    for i in range(len(over)):
        for j in range(len(over)):
            if not seen[i, j]:
                laid[i, j] = sums[0] / count + gain * (over[i, j] - sums[1] / count)


@njit(cache=True, nogil=True)
def uncover(laid, over, seen):  # type: ignore[no-untyped-def]
    """Take the worst blocks of 4 × 4 pixels, at most one in six, out of what is seen; returns whether there are some.

    A block is bad if it differs three times as much as most do. Grey values are adapted by medians, which bad blocks do
    not affect.
    """
    n = len(over) // 4
    worst = np.zeros(n * n)
    middle, other_middle = np.median(laid), np.median(over)
    gain = np.median(np.abs(laid - middle)) / max(np.median(np.abs(over - other_middle)), 1e-9)
    for i in range(len(over)):
        for j in range(len(over)):
            worst[i // 4 * n + j // 4] += abs(laid[i, j] - middle - gain * (over[i, j] - other_middle))
    order = np.argsort(-worst)[: n * n // 6]
    limit = 3 * np.median(worst)
    for block in order:
        if worst[block] > limit:
            row, column = 4 * (block // n), 4 * (block % n)
            seen[row : row + 4, column : column + 4] = False
    return worst[order[0]] > limit


@njit(cache=True, nogil=True)
def detail(picture, inside):  # type: ignore[no-untyped-def]
    """The picture minus the mean of 5 × 5 pixels around each, inside; 0 elsewhere."""
    n = len(picture)
    sums, counts, out = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            for column in range(max(j - 2, 0), min(j + 3, n)):
                if inside[i, column]:
                    sums[i, j] += picture[i, column]
                    counts[i, j] += 1
    for i in range(n):
        low, high = max(i - 2, 0), min(i + 3, n)
        for j in range(n):
            if inside[i, j]:
                out[i, j] = picture[i, j] - sums[low:high, j].sum() / counts[low:high, j].sum()
    return out
