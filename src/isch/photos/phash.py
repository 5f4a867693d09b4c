"""Perceptual hash: the signs of the 12 × 12 lowest cosine coefficients of a small grey picture, 144 bits.

The coefficients of any box of the picture are integrals over its pixels, so a box may have any borders and nothing is
resampled. A mirror image changes the sign of the odd coefficients, a quarter turn also swaps rows and columns; so the
codes of all eight orientations follow from one by moving and inverting bits.

The signs of the eight lowest coefficients put a code on one of 256 shelves. Copies lie on the same shelf, or on one
that differs in signs which are unsure; so a search looks at few shelves.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isch import codes as packed
from isch.codes import Codes

FREQUENCIES = 12
N_BITS = FREQUENCIES**2
N_BYTES = packed.width(N_BITS)
N_ORIENTATIONS = 8

SHELF = ((0, 1), (1, 0), (0, 2), (2, 0), (1, 1), (1, 2), (2, 1), (2, 2))  # coefficients; transposed the same ones
UNSURE = 0.3  # of the usual size of low coefficients: below it a sign is not relied on

Coefficients = NDArray[np.float32]  # (..., 12, 12)
Crops = Sequence[tuple[float, float, float, float]]  # shares left out: top, bottom, left, right
WHOLE: Crops = ((0.0, 0.0, 0.0, 0.0),)


def coefficients(squares: NDArray[np.uint8], boxes: ArrayLike, crops: Crops = WHOLE) -> Coefficients:
    """Mean over the box of the grey value times cos(π u y) cos(π v x), y and x from 0 to 1 within the box.

    Parameters
    ----------
    squares : uint8 (n, height, width), grey
    boxes : (n, 4): top, bottom, left, right of each picture's box, in pixels and parts of them; or (4,), of all alike
    crops : shares of the box to leave out at the top, bottom, left and right

    Returns
    -------
    float32 (n, crops, 12, 12)
    """
    edges = np.asarray(boxes, np.float64).reshape(-1, 4).tolist()
    rows = sorted({crop[:2] for crop in crops})
    columns = sorted({crop[2:] for crop in crops})
    down = np.stack([waves(top, bottom, tuple(rows), squares.shape[1]) for top, bottom, _, _ in edges])
    across = np.stack([waves(left, right, tuple(columns), squares.shape[2]) for _, _, left, right in edges])
    every = down @ squares.astype(np.float32) @ across.transpose(0, 2, 1)
    blocks = every.reshape(len(squares), len(rows), FREQUENCIES, len(columns), FREQUENCIES)
    row_of, column_of = [rows.index(crop[:2]) for crop in crops], [columns.index(crop[2:]) for crop in crops]
    return np.moveaxis(blocks[:, row_of, :, column_of], 0, 1)


@lru_cache(maxsize=64)
def waves(start: float, stop: float, cuts: tuple[tuple[float, float], ...], n: int) -> NDArray[np.float32]:
    """Integrals over each of n pixels of cos(π u t), t from 0 to 1 within a span: (cuts · 12, n).

    From the span, in pixels, each cut leaves out a share at its start and its stop.
    """
    shares = np.array(cuts)
    low = (start + shares[:, 0] * (stop - start))[:, None, None]
    high = (stop - shares[:, 1] * (stop - start))[:, None, None]
    t = (np.clip(np.arange(n + 1), low, high) - low) / (high - low)
    u = np.arange(1, FREQUENCIES)[:, None]
    primitive = np.concatenate([t, np.sin(np.pi * u * t) / (np.pi * u)], axis=1)
    return np.diff(primitive, axis=2).astype(np.float32).reshape(len(cuts) * FREQUENCIES, n)


def bits(values: Coefficients) -> NDArray[np.uint8]:
    """Codes of coefficients, uint8 (..., 18); the first coefficient, the mean grey value, is left out."""
    positive = values.reshape(*values.shape[:-2], N_BITS) > 0
    positive[..., 0] = False
    return np.packbits(positive, axis=-1)


def orientations(codes: Codes) -> NDArray[np.uint8]:
    """The codes of the eight orientations of the same pictures, as they are first: uint8 (8, n, 18).

    Orientation 4 · transposed + 2 · upside down + mirrored; transposed first.
    """
    plain = packed.unpack(codes, N_BITS).reshape(-1, FREQUENCIES, FREQUENCIES)
    turned = packed.pack(plain.transpose(0, 2, 1).reshape(-1, N_BITS))
    return np.stack([(turned if which & 4 else codes) ^ _inverted(which) for which in range(N_ORIENTATIONS)])


def _inverted(which: int) -> Codes:
    """The bits that turning upside down and mirroring invert."""
    odd = np.arange(FREQUENCIES) % 2 == 1
    return packed.pack(((odd[:, None] & bool(which & 2)) ^ (odd & bool(which & 1))).reshape(1, N_BITS))


def oriented(pictures: NDArray[Any], which: int) -> NDArray[Any]:
    """Pictures (..., height, width) in one of the eight orientations."""
    turned = np.swapaxes(pictures, -1, -2) if which & 4 else pictures
    turned = turned[..., ::-1, :] if which & 2 else turned
    return turned[..., ::-1] if which & 1 else turned


def shelves(codes: Codes) -> NDArray[np.uint8]:
    """The shelf of each code: its eight bits of ``SHELF`` as a number."""
    out = np.zeros(codes.shape[:-1], np.uint8)
    for bit, (u, v) in enumerate(SHELF):
        place = u * FREQUENCIES + v
        out |= (codes[..., place // 8] >> np.uint8(7 - place % 8) & np.uint8(1)) << np.uint8(7 - bit)
    return out


def unsure(values: Coefficients) -> NDArray[np.uint8]:
    """The bits of the shelf that a copy may well have otherwise, since their coefficients are near zero."""
    low = np.add.outer(np.arange(FREQUENCIES), np.arange(FREQUENCIES))
    scale = np.sqrt(np.mean(values[..., (low >= 1) & (low <= 3)] ** 2, axis=-1, keepdims=True))
    chosen = np.stack([values[..., u, v] for u, v in SHELF], axis=-1)
    return np.packbits(np.abs(chosen) < UNSURE * scale, axis=-1)[..., 0]


def unsure_orientations(masks: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The same for the eight orientations of pictures: uint8 (8, n)."""
    places = [SHELF.index((v, u)) for u, v in SHELF]
    turned = np.packbits(np.unpackbits(masks[:, None], axis=1)[:, places], axis=1)[:, 0]
    return np.stack([turned if which & 4 else masks for which in range(N_ORIENTATIONS)])
