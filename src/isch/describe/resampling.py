"""The two steps between a decoded picture and a network, which done plainly cost a tenth of the network's time.

``resampled`` does to the last bit what Pillow's bilinear ``resize`` does along one axis after the other. The axis that
leaves less to do comes first: the height if it shrinks, else the width. ``planes`` makes the input of a network.
"""

import math

import numpy as np
from numba import njit

_PRECISION = 22  # bits behind the point, as in Pillow
_HALF = 1 << (_PRECISION - 1)


@njit(cache=True, nogil=True)
def resampled(image, box, height, width):  # type: ignore[no-untyped-def]
    """A part of a picture at another size, smoothed when it shrinks.

    Parameters
    ----------
    image : uint8 (rows, columns, 3), contiguous
    box : four float32: left, top, right, bottom of the part, in pixels and parts of them
    height, width : int

    Returns
    -------
    uint8 (height, width, 3)
    """
    down = _weights(len(image), box[1], box[3], height)
    across = _weights(image.shape[1], box[0], box[2], width)
    if height < box[3] - box[1]:
        first, last = across[0][0], across[0][-1] + across[1][-1]
        across[0][:] -= first
        return _columns(_rows(image, down, first, last), across, 0, height)
    first, last = down[0][0], down[0][-1] + down[1][-1]
    down[0][:] -= first
    return _rows(_columns(image, across, first, last), down, 0, width)


@njit(cache=True, nogil=True)
def _rows(image, down, first, last):  # type: ignore[no-untyped-def]
    """Some columns of a picture at another height."""
    starts, counts, weights = down
    out = np.empty((len(starts), last - first, 3), np.uint8)
    sums = np.empty(3 * (last - first), np.int32)
    for i in range(len(starts)):
        sums[:] = _HALF
        for k in range(counts[i]):
            weight, row = weights[i, k], image[starts[i] + k].reshape(-1)[3 * first :]
            for j in range(len(sums)):
                sums[j] += weight * np.int32(row[j])
        place = out[i].reshape(-1)
        for j in range(len(sums)):
            place[j] = sums[j] >> _PRECISION
    return out


@njit(cache=True, nogil=True)
def _columns(image, across, first, last):  # type: ignore[no-untyped-def]
    """Some rows of a picture at another width."""
    starts, counts, weights = across
    out = np.empty((last - first, len(starts), 3), np.uint8)
    for i in range(last - first):
        for j in range(len(starts)):
            red = green = blue = np.int32(_HALF)
            for k in range(counts[j]):
                weight, pixel = weights[j, k], starts[j] + k
                red += weight * np.int32(image[first + i, pixel, 0])
                green += weight * np.int32(image[first + i, pixel, 1])
                blue += weight * np.int32(image[first + i, pixel, 2])
            out[i, j, 0], out[i, j, 1], out[i, j, 2] = red >> _PRECISION, green >> _PRECISION, blue >> _PRECISION
    return out


@njit(cache=True, nogil=True)
def _weights(n, low, high, n_out):  # type: ignore[no-untyped-def]
    """(first pixel, how many, their weights as whole numbers) for each pixel of the result along one axis."""
    scale = np.float64(high - low) / n_out
    support = max(scale, 1.0)
    starts, counts = np.empty(n_out, np.int64), np.empty(n_out, np.int64)
    weights = np.zeros((n_out, 2 * math.ceil(support) + 1), np.int32)
    shares = np.empty(weights.shape[1])
    for i in range(n_out):
        centre = low + (i + 0.5) * scale
        starts[i] = max(int(centre - support + 0.5), 0)
        counts[i] = min(int(centre + support + 0.5), n) - starts[i]
        total = 0.0
        for k in range(counts[i]):
            shares[k] = max(1.0 - abs((k + starts[i] - centre + 0.5) * (1.0 / support)), 0.0)
            total += shares[k]
        for k in range(counts[i]):
            weights[i, k] = int(0.5 + shares[k] / total * (1 << _PRECISION))
    return starts, counts, weights


@njit(cache=True, nogil=True)
def planes(squares, gain, offset):  # type: ignore[no-untyped-def]
    """Values times ``gain`` plus ``offset``, channel by channel.

    Parameters
    ----------
    squares : uint8 (n, height, width, 3), contiguous
    gain, offset : float32 (3,)

    Returns
    -------
    float32 (n, 3, height, width)
    """
    n, height, width = squares.shape[:3]
    out, size = np.empty((n, 3, height, width), np.float32), height * width
    for picture in range(n):
        values, place = squares[picture].reshape(-1), out[picture].reshape(-1)
        for i in range(size):
            place[i] = np.float32(values[3 * i]) * gain[0] + offset[0]
            place[size + i] = np.float32(values[3 * i + 1]) * gain[1] + offset[1]
            place[2 * size + i] = np.float32(values[3 * i + 2]) * gain[2] + offset[2]
    return out
