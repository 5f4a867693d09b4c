"""What is kept of a picture to know its copies: 4,757 bytes.

    fingerprint = fingerprint_of(decode(path, side=224))    # one record of FINGERPRINT
    blob = fingerprint.tobytes()                            # to store, np.frombuffer(blob, FINGERPRINT) to read

Two regions of a picture are hashed, the whole of it and what lies inside its uniform borders, each as it is and cropped
in several ways, since a copy may be cropped. A hash says something only of a picture that shows enough: the signs of a
white page with a few lines are those of every such page. ``evidence`` says how much it shows.
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

VERSION = 3  # raise it when fingerprints are made differently: those kept must then be made again
SIDE = 128  # of the square from which everything is computed
THUMBNAIL = 64
COLOURS = 8
_SIDE, _CORNER = 0.12, 0.09
CROPS: phash.Crops = (
    *((share, share, share, share) for share in (0.0, 0.05, 0.10, 0.15)),
    *((_SIDE, 0.0, 0.0, 0.0), (0.0, _SIDE, 0.0, 0.0), (0.0, 0.0, _SIDE, 0.0), (0.0, 0.0, 0.0, _SIDE)),
    *((top, _CORNER - top, left, _CORNER - left) for top in (0.0, _CORNER) for left in (0.0, _CORNER)),
)
WHOLE, INSIDE = 0, 1  # regions
_AT_ONCE = 64
_BLOCK = 4  # pixels a side of the blocks of the thumbnail that have texture or none
_TEXTURE = 8  # grey levels between the darkest and the brightest pixel of a block with texture
_PLAIN = 16  # grey levels: plain pictures have hardly any others

FINGERPRINT = np.dtype(
    [
        ("codes", np.uint8, (2, len(CROPS), phash.N_BYTES)),  # region, crop
        ("unsure", np.uint8, (2, len(CROPS))),  # the signs of their shelf that are not relied on
        ("thumbnail", np.uint8, (THUMBNAIL, THUMBNAIL)),  # of the region inside the borders, grey
        ("colours", np.uint8, (COLOURS, COLOURS, 3)),  # of the whole: brightness, blueness, redness
        ("box", np.uint8, (4,)),  # top, bottom, left, right of the region inside the borders
        ("size", "<u4", (2,)),  # width, height of the picture
        ("evidence", np.uint8),  # how much the region inside the borders shows, in hundredths
    ]
)
Fingerprints = NDArray[np.void]  # records of FINGERPRINT
Size = tuple[int, int]  # width, height


def fingerprint_of(image: Image, size: Size | None = None) -> np.void:
    """The fingerprint of one decoded picture, uint8 (height, width, 3); at least 128 pixels a side are enough.

    ``size`` is the width and height of the picture if it was shrunk while it was decoded.
    """
    record: np.void = fingerprints([image], None if size is None else [size])[0]
    return record


def fingerprints(images: Sequence[Image], sizes: Sequence[Size] | None = None) -> Fingerprints:
    """The fingerprints of decoded pictures, in this thread."""
    if not len(images):
        return np.empty(0, FINGERPRINT)
    known = [(image.shape[1], image.shape[0]) for image in images] if sizes is None else sizes
    return from_squares(np.stack([square(image) for image in images]), known)


def square(image: Image) -> NDArray[np.uint8]:
    """The picture squeezed into a square of ``SIDE`` pixels."""
    pil = require("PIL.Image", "images")
    return np.asarray(pil.fromarray(image).resize((SIDE, SIDE), pil.Resampling.BOX))


def from_squares(squares: NDArray[np.uint8], sizes: Sequence[Size]) -> Fingerprints:
    """The fingerprints of pictures already squeezed into squares, uint8 (n, SIDE, SIDE, 3), and their sizes."""
    if squares.ndim != 4 or squares.shape[1:] != (SIDE, SIDE, 3) or squares.dtype != np.uint8:
        raise InputError(f"expected squares uint8 (n, {SIDE}, {SIDE}, 3); got {squares.dtype} {squares.shape}")
    with compute.single_threaded_blas():
        parts = [_from_few(squares[start : start + _AT_ONCE]) for start in range(0, len(squares), _AT_ONCE)]
    out = np.concatenate([np.empty(0, FINGERPRINT), *parts])
    out["size"] = np.reshape(np.asarray(sizes, np.uint32), (len(out), 2))
    return out


def _from_few(squares: NDArray[np.uint8]) -> Fingerprints:
    colours = _colours(squares)
    grey = np.ascontiguousarray(colours[..., 0])
    whole = 0, SIDE, 0, SIDE
    inside = borders.contents(grey)
    bordered = (inside != whole).any(axis=1)
    out = np.zeros(len(grey), FINGERPRINT)
    _hash(out, slice(None), [WHOLE, INSIDE], phash.coefficients(grey, whole, CROPS))
    if bordered.any():
        _hash(out, bordered, [INSIDE], phash.coefficients(grey[bordered], inside[bordered], CROPS))
    out["thumbnail"] = thumbnails(grey, inside)
    out["colours"] = np.rint(_blocks(colours, SIDE // COLOURS).mean(axis=(2, 4)))
    out["box"] = inside
    out["evidence"] = np.rint(100 * evidence(grey, inside, out["thumbnail"]))
    return out


def _colours(squares: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Brightness, blueness and redness (YCbCr) of each pixel."""
    pil = require("PIL.Image", "images")
    tall = pil.fromarray(squares.reshape(-1, SIDE, 3)).convert("YCbCr")
    return np.asarray(tall).reshape(squares.shape)


def _blocks(pictures: NDArray[Any], side: int) -> NDArray[Any]:
    """Pictures (n, height, width, …) cut into blocks: (n, rows, side, columns, side, …)."""
    n, height, width = pictures.shape[:3]
    return pictures.reshape(n, height // side, side, width // side, side, *pictures.shape[3:])


def _hash(out: Fingerprints, rows: Any, regions: list[int], values: phash.Coefficients) -> None:
    for region in regions:
        out["codes"][rows, region], out["unsure"][rows, region] = phash.bits(values), phash.unsure(values)


def evidence(grey: NDArray[np.uint8], boxes: NDArray[Any], inside: NDArray[np.uint8]) -> NDArray[np.float64]:
    """How much pictures show in a box, from 0 to 1: the share that has texture, of the share that is not plain.

    Documents, screens, drawings and night skies have a few grey levels almost everywhere: paper, panels, darkness. In
    photographs hardly any two places are equal, whatever they show. Grey levels are counted before the picture is
    shrunk further, which would mix ink and paper.
    """
    blocks = _blocks(inside, _BLOCK)
    textured = (blocks.max(axis=(2, 4)).astype(np.int64) - blocks.min(axis=(2, 4)) >= _TEXTURE).mean(axis=(1, 2))
    plain = []
    for picture, (top, bottom, left, right) in zip(grey, boxes.tolist(), strict=True):
        counts = np.bincount(picture[top:bottom, left:right].ravel(), minlength=_PLAIN)
        plain.append(np.sort(counts)[-_PLAIN:].sum() / counts.sum())
    return np.asarray(textured * (1 - np.array(plain)), np.float64)


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
