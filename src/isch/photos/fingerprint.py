"""What is kept of a picture to know its copies: 1,481 bytes.

    fingerprint = fingerprint_of(decode(path, side=224))    # one record of FINGERPRINT
    blob = fingerprint.tobytes()                            # to store, np.frombuffer(blob, FINGERPRINT) to read

Two regions of a picture are hashed, the whole of it and what lies inside its uniform borders, each as it is and cropped
in several ways, since a copy may be cropped.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch import compute
from isch.describe.images import Image
from isch.errors import InputError, require
from isch.photos import borders, phash

VERSION = 2  # raise it when fingerprints are made differently: those kept must then be made again
SIDE = 128  # of the grey square from which everything is computed
THUMBNAIL = 32
_SIDE, _CORNER = 0.12, 0.09
CROPS: phash.Crops = (
    *((share, share, share, share) for share in (0.0, 0.05, 0.10, 0.15)),
    *((_SIDE, 0.0, 0.0, 0.0), (0.0, _SIDE, 0.0, 0.0), (0.0, 0.0, _SIDE, 0.0), (0.0, 0.0, 0.0, _SIDE)),
    *((top, _CORNER - top, left, _CORNER - left) for top in (0.0, _CORNER) for left in (0.0, _CORNER)),
)
WHOLE, INSIDE = 0, 1  # regions
_AT_ONCE = 64
FLAT = 3  # a picture with less contrast (standard deviation of its grey values) shows nothing to compare

FINGERPRINT = np.dtype(
    [
        ("codes", np.uint8, (2, len(CROPS), phash.N_BYTES)),  # region, crop
        ("unsure", np.uint8, (2, len(CROPS))),  # the signs of their shelf that are not relied on
        ("thumbnail", np.uint8, (THUMBNAIL, THUMBNAIL)),  # of the region inside the borders, grey
        ("contrast", np.uint8),
    ]
)
Fingerprints = NDArray[np.void]  # records of FINGERPRINT


def fingerprint_of(image: Image) -> np.void:
    """The fingerprint of one decoded picture, uint8 (height, width, 3); at least 128 pixels a side are enough."""
    record: np.void = fingerprints([image])[0]
    return record


def fingerprints(images: Sequence[Image]) -> Fingerprints:
    """The fingerprints of decoded pictures, in this thread."""
    if not len(images):
        return np.empty(0, FINGERPRINT)
    return from_squares(np.stack([grey_square(image) for image in images]))


def grey_square(image: Image) -> NDArray[np.uint8]:
    """The picture in grey, squeezed into a square of ``SIDE`` pixels."""
    pil = require("PIL.Image", "images")
    grey = pil.fromarray(image).convert("L")
    return np.asarray(grey.resize((SIDE, SIDE), pil.Resampling.BOX))


def from_squares(squares: NDArray[np.uint8]) -> Fingerprints:
    """The fingerprints of pictures already made grey and square: uint8 (n, SIDE, SIDE)."""
    if squares.ndim != 3 or squares.shape[1:] != (SIDE, SIDE) or squares.dtype != np.uint8:
        raise InputError(f"expected grey squares uint8 (n, {SIDE}, {SIDE}); got {squares.dtype} {squares.shape}")
    with compute.single_threaded_blas():
        parts = [_from_few(squares[start : start + _AT_ONCE]) for start in range(0, len(squares), _AT_ONCE)]
    return np.concatenate([np.empty(0, FINGERPRINT), *parts])


def _from_few(squares: NDArray[np.uint8]) -> Fingerprints:
    whole = 0, SIDE, 0, SIDE
    inside = borders.contents(squares)
    bordered = (inside != whole).any(axis=1)
    out = np.zeros(len(squares), FINGERPRINT)
    _hash(out, slice(None), [WHOLE, INSIDE], phash.coefficients(squares, whole, CROPS))
    if bordered.any():
        _hash(out, bordered, [INSIDE], phash.coefficients(squares[bordered], inside[bordered], CROPS))
    out["thumbnail"] = thumbnails(squares, inside)
    out["contrast"] = np.minimum(squares.std(axis=(1, 2)), 255)
    return out


def _hash(out: Fingerprints, rows: Any, regions: list[int], values: phash.Coefficients) -> None:
    for region in regions:
        out["codes"][rows, region], out["unsure"][rows, region] = phash.bits(values), phash.unsure(values)


def thumbnails(squares: NDArray[np.uint8], boxes: NDArray[Any]) -> NDArray[np.uint8]:
    """A box of each picture at ``THUMBNAIL`` pixels a side, each the mean of what it covers."""
    edges = np.asarray(boxes, np.float64).tolist()
    down = np.stack([_shares(top, bottom, squares.shape[1]) for top, bottom, _, _ in edges])
    across = np.stack([_shares(left, right, squares.shape[2]) for _, _, left, right in edges])
    return np.asarray(np.rint(down @ squares.astype(np.float32) @ across.transpose(0, 2, 1)), np.uint8)


@lru_cache(maxsize=64)
def _shares(start: float, stop: float, n: int) -> NDArray[np.float32]:
    """The share of each of n pixels in each pixel of the thumbnail: (THUMBNAIL, n)."""
    size = (stop - start) / THUMBNAIL
    low = start + size * np.arange(THUMBNAIL)[:, None]
    pixel = np.arange(n)
    covered = np.minimum(low + size, pixel + 1) - np.maximum(low, pixel)
    return np.asarray(np.clip(covered, 0, None) / size, np.float32)


def contents(record: Fingerprints, field: str) -> NDArray[np.uint8]:
    """One field of fingerprints, contiguous."""
    return np.ascontiguousarray(record[field])
