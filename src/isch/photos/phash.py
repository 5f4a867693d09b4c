"""Perceptual hash: the signs of the 12 × 12 lowest cosine coefficients of a small grey picture, 144 bits.

The coefficients of any box of the picture are integrals over its pixels, so a box may have any borders and nothing is
resampled. A mirror image changes the sign of the odd coefficients, a quarter turn also swaps rows and columns; so the
codes of all eight orientations follow from one by moving and inverting bits.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isch import codes as packed
from isch.codes import Codes

FREQUENCIES = 12
N_BITS = FREQUENCIES**2
N_BYTES = packed.width(N_BITS)
N_ORIENTATIONS = 8

Boxes = NDArray[np.float64]  # (n, 4): top, bottom, left, right, in pixels
Coefficients = NDArray[np.float32]  # (n, 12, 12)


def hashes(squares: NDArray[np.uint8], boxes: ArrayLike) -> Codes:
    """The codes of a box of each picture: uint8 (n, 18).

    Parameters
    ----------
    squares : uint8 (n, height, width), grey
    boxes : (n, 4): top, bottom, left, right of each picture's box, in pixels and parts of them
    """
    return bits(coefficients(squares, boxes))


def coefficients(squares: NDArray[np.uint8], boxes: ArrayLike) -> Coefficients:
    """Mean over the box of the grey value times cos(π u y) cos(π v x), y and x from 0 to 1 within the box."""
    edges = np.asarray(boxes, np.float64).reshape(-1, 4)
    down = waves(edges[:, 0], edges[:, 1], squares.shape[1])
    across = waves(edges[:, 2], edges[:, 3], squares.shape[2])
    out: Coefficients = down @ squares.astype(np.float32) @ across.transpose(0, 2, 1)
    return out


def waves(start: NDArray[np.float64], stop: NDArray[np.float64], n: int) -> NDArray[np.float32]:
    """The integral of cos(π u t) over each of n pixels, t from 0 at ``start`` to 1 at ``stop``: (boxes, 12, n)."""
    low, high = start[:, None, None], stop[:, None, None]
    t = (np.clip(np.arange(n + 1), low, high) - low) / (high - low)
    u = np.arange(1, FREQUENCIES)[:, None]
    primitive = np.concatenate([t, np.sin(np.pi * u * t) / (np.pi * u)], axis=1)
    return np.diff(primitive, axis=2).astype(np.float32)


def bits(values: Coefficients) -> Codes:
    """Codes of coefficients; the first, the mean grey value, is left out."""
    positive = values.reshape(-1, N_BITS) > 0
    positive[:, 0] = False
    return packed.pack(positive)


def cropped(boxes: ArrayLike, share: float) -> Boxes:
    """Boxes without a share of their height and width at each side."""
    top, bottom, left, right = np.asarray(boxes, np.float64).reshape(-1, 4).T
    down, across = share * (bottom - top), share * (right - left)
    return np.stack([top + down, bottom - down, left + across, right - across], axis=1)


def orientations(codes: Codes) -> NDArray[np.uint8]:
    """The codes of the eight orientations of the same pictures, as they are first: uint8 (8, n, 18).

    Orientation 4 · transposed + 2 · upside down + mirrored; transposed first.
    """
    plain = packed.unpack(codes, N_BITS).reshape(-1, FREQUENCIES, FREQUENCIES)
    return np.stack([packed.pack(_orient(plain, which).reshape(-1, N_BITS)) for which in range(N_ORIENTATIONS)])


def _orient(plain: NDArray[np.bool_], which: int) -> NDArray[np.bool_]:
    odd = np.arange(FREQUENCIES) % 2 == 1
    turned = plain.transpose(0, 2, 1) if which & 4 else plain
    return np.asarray(turned ^ (odd[:, None] & bool(which & 2)) ^ (odd & bool(which & 1)))


def oriented(pictures: NDArray[Any], which: int) -> NDArray[Any]:
    """Pictures (..., height, width) in one of the eight orientations."""
    turned = np.swapaxes(pictures, -1, -2) if which & 4 else pictures
    turned = turned[..., ::-1, :] if which & 2 else turned
    return turned[..., ::-1] if which & 1 else turned
