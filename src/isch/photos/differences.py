"""How far pictures differ once one is laid over the other, and whether they are alike place by place.

    compare(fingerprints, first, second)

A pair is compared twice. At 32 pixels a side, the map that lays one over the other is found, and bits of difference are
counted. Then the two must be alike block by block at 64 pixels: hashes and layouts of different documents can be the
same, but not where their ink is.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from isch import compute
from isch.photos.fingerprint import SIDE, Fingerprints, contents
from isch.photos.phash import FREQUENCIES, N_BITS, N_ORIENTATIONS
from isch.photos.registration import lay_over, refine, space, starting_maps
from isch.photos.sampling import FINE, SIDES, add_moments, look, oriented, place, pyramid

_NEAR = 14  # bits: pictures nearer than this need no second look
_COVERED = 10  # bits that a picture is further away if it must be partly covered
_AGREEING = 0.4  # how far the signs of detail agree, without which pictures are not compared as they lie
_AT_ONCE = 256  # pairs in one piece of work
_FAR = 40  # bits beyond which pictures are not compared place by place
_SAME_BOX = 0.06  # of the picture: borders cut off alike
_STEPS = 3  # by which a map is refined at 64 pixels
_TEXTURED = 3.0  # grey levels (standard deviation) of a block that shows something
_BLOCK, _SMALL = 8, 4  # pixels a side
_ALIKE = 0.5  # agreement of two blocks that show the same


class Comparison(NamedTuple):
    """What was measured of pairs of pictures, float32 each."""

    bits: NDArray[np.float32]  # of 144 that differ; 144 where the pictures could not be laid over each other
    agreement: NDArray[np.float32]  # of the blocks that show something: 1 for copies, about 0 for others
    alike: NDArray[np.float32]  # the share of those blocks that agree
    shown: NDArray[np.float32]  # the share of all blocks that show something
    shift: NDArray[np.float32]  # how far a corner of the frame lies from that of the other, in widths; 9 if turned
    stain: NDArray[np.float32]  # the most that a small block is brighter or darker, in grey levels


def compare(fingerprints: Fingerprints, first: NDArray[np.int64], second: NDArray[np.int64]) -> Comparison:
    """Compare pairs of pictures, given as rows."""
    out = np.empty((len(first), len(Comparison._fields)), np.float32)
    starts, waves = starting_maps(), cosines()
    thumbnails, boxes = contents(fingerprints, "thumbnail"), contents(fingerprints, "box").astype(np.float64)

    def work(begin: int) -> None:
        some = slice(begin, begin + _AT_ONCE)
        compare_pairs(thumbnails, boxes, first[some], second[some], starts, waves, space(), out[some])

    for _ in compute.parallel(work, range(0, len(first), _AT_ONCE)):
        pass
    return Comparison(*np.ascontiguousarray(out.T))


def cosines() -> NDArray[np.float64]:
    """Cosines over the pixels of the size at which pictures are laid over each other, a row for each frequency."""
    middle = (np.arange(SIDES[-1]) + 0.5) / SIDES[-1]
    return np.asarray(np.cos(np.pi * np.arange(FREQUENCIES)[:, None] * middle))


@njit(cache=True, nogil=True)
def compare_pairs(thumbnails, boxes, first, second, starts, waves, space, out):  # type: ignore[no-untyped-def]
    """``compare`` in this thread."""
    for pair in range(len(first)):
        under = pyramid(thumbnails[first[pair]])
        over = pyramid(thumbnails[second[pair]])
        frame = same_frame(boxes[first[pair]], boxes[second[pair]])
        bits, which, affine = laid(under, over, frame, starts, waves, space)
        out[pair] = 0
        out[pair, 0], out[pair, 4] = bits, 9
        if bits <= _FAR:
            turned = oriented(over[3], which)
            refine(under[3], turned, affine, _STEPS, space)
            out[pair, 1:4] = agreement(under[3], turned, affine)
            out[pair, 5] = stain(under[3], turned, affine)
            if which == 0:
                out[pair, 4] = shift(affine, frame, boxes[first[pair]])


@njit(cache=True, nogil=True)
def same_frame(one, other):  # type: ignore[no-untyped-def]
    """The map between the regions of two pictures that lays their frames over each other; boxes are in pixels."""
    affine = np.zeros(6)
    for axis in range(2):
        low, high = one[2 - 2 * axis], one[3 - 2 * axis]
        other_low, other_high = other[2 - 2 * axis], other[3 - 2 * axis]
        affine[4 * axis] = (other_high - other_low) / (high - low)
        affine[2 + 3 * axis] = (other_high + other_low - high - low) / (high - low)
    return affine


@njit(cache=True, nogil=True)
def laid(under, over, frame, starts, waves, space):  # type: ignore[no-untyped-def]
    """(bits, orientation of ``over``, the map) with which two pictures differ least.

    Most copies have the same frame; else a map is searched for; and at last the pictures are compared as they lie.
    """
    bits, which, affine = float(N_BITS), 0, frame.copy()
    if np.abs(frame - starts[0]).max() < _SAME_BOX:
        bits = difference(under[2], over[2], frame, waves)
    if bits > _NEAR:
        found, turn, other = lay_over(under, over, starts, space)
        here = difference(under[2], oriented(over[2], turn), other, waves) if found else float(N_BITS)
        if here < bits:
            bits, which, affine = here, turn, other
    if bits > _NEAR:
        turn = best_orientation(under[1], over[1])
        here = difference(under[2], oriented(over[2], turn), starts[0], waves) if turn >= 0 else float(N_BITS)
        if here < bits:
            bits, which, affine = here, turn, starts[0].copy()
    return bits, which, affine


@njit(cache=True, nogil=True)
def best_orientation(under, over):  # type: ignore[no-untyped-def]
    """The orientation in which the detail of two pictures agrees best as they lie; −1 if it agrees in none.

    A covered part misleads the search for a map, but such a copy is usually not changed in other ways.
    """
    everywhere = np.ones(under.shape, np.bool_)
    one, other = np.sign(detail(under, everywhere)), np.sign(detail(over, everywhere))
    fits = np.array([np.mean(one * oriented(other, which)) for which in range(N_ORIENTATIONS)])
    return np.argmax(fits) if fits.max() >= _AGREEING else -1


@njit(cache=True, nogil=True)
def shift(affine, frame, box):  # type: ignore[no-untyped-def]
    """How far a map is from laying the frames of two pictures over each other, at the corner where it is most."""
    apart = np.abs(affine - frame)
    across = apart[:3].sum() * (box[3] - box[2])
    return max(across, apart[3:].sum() * (box[1] - box[0])) / (2 * SIDE)


@njit(cache=True, nogil=True)
def agreement(under, over, affine):  # type: ignore[no-untyped-def]
    """(mean agreement, share that agrees, share of all) of the blocks that show something in either picture.

    Two blocks agree by 2 cov(a, b) / (var(a) + var(b)): 1 if they are equal but for their brightness, 0 if unrelated or
    if only one of them shows something. A gain common to all blocks is taken out first.
    """
    laid, seen = overlay(under, over, affine)
    n = len(over) // _BLOCK
    found, count = np.zeros((3, n * n)), 0
    for block in range(n * n):
        row, column = _BLOCK * (block // n), _BLOCK * (block % n)
        part = seen[row : row + _BLOCK, column : column + _BLOCK]
        if part.sum() < 0.75 * _BLOCK**2:
            continue
        sums = np.zeros(5)
        for i in range(_BLOCK):
            for j in range(_BLOCK):
                if part[i, j]:
                    add_moments(sums, laid[row + i, column + j], over[row + i, column + j])
        sums /= part.sum()
        found[:, count] = sums[2] - sums[0] ** 2, sums[3] - sums[1] ** 2, sums[4] - sums[0] * sums[1]
        count += 1
    return summary(found[:, :count])


@njit(cache=True, nogil=True)
def summary(found):  # type: ignore[no-untyped-def]
    """``agreement`` from the variances and covariances of the blocks that both pictures cover."""
    gain = math.sqrt(max(found[0].sum(), 1e-9) / max(found[1].sum(), 1e-9))
    total, alike, shown = 0.0, 0, 0
    for one, other, both in found.T:
        scaled = gain**2 * other
        if max(one, scaled) >= _TEXTURED**2:
            here = 2 * gain * both / (one + scaled)
            total += here
            alike += here >= _ALIKE
            shown += 1
    return np.array([total / max(shown, 1), alike / max(shown, 1), shown / max(found.shape[1], 1)])


@njit(cache=True, nogil=True)
def stain(under, over, affine):  # type: ignore[no-untyped-def]
    """The most that the mean of a small block differs, in grey levels as they are."""
    laid, seen = overlay(under, over, affine)
    worst = 0.0
    for row in range(0, FINE, _SMALL):
        for column in range(0, FINE, _SMALL):
            total, count = 0.0, 0
            for i in range(row, row + _SMALL):
                for j in range(column, column + _SMALL):
                    if seen[i, j]:
                        total += laid[i, j] - over[i, j]
                        count += 1
            if 2 * count >= _SMALL**2:
                worst = max(worst, abs(total) / count)
    return worst


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
