"""Identical pictures: the same bytes, or the same pixels in other bytes.

Pixels are compared once decoded, at full size, turned upright. Only pictures of the same size with about the same
colours in 8 × 8 places need to be decoded for that.
"""

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from isch.describe.images import decode
from isch.files import reading
from isch.photos import twins
from isch.photos.candidates import Matches
from isch.photos.fingerprint import COLOURS, Fingerprints, contents

APART = 4  # levels by which colours of the same pixels may differ, since formats are shrunk differently when described
MOST = 4096  # identical pictures of which each is a pair with each
_BLOCK = 1 << 20


def content_hash(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file's bytes, in hexadecimal: it identifies a picture whatever its folder and name."""
    digest = hashlib.sha256()
    with reading(path) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def same_pixels(first: str | os.PathLike[str], second: str | os.PathLike[str]) -> bool:
    """Whether two pictures show the same pixels once decoded, at full size and turned upright."""
    one, other = decode(first), decode(second)
    return one.shape == other.shape and bool(np.array_equal(one, other))


def pixel_hash(content: bytes) -> str:
    """A hash of what a file's content shows: equal only for the same pixels."""
    pixels = decode(content)
    return hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes()).hexdigest()


def same(hashes: Sequence[Hashable]) -> list[list[int]]:
    """The positions of equal hashes, where there are at least two; in the order of their first positions."""
    places: dict[Hashable, list[int]] = defaultdict(list)
    for position, value in enumerate(hashes):
        places[value].append(position)
    return [rows for rows in places.values() if len(rows) > 1]


def identical(
    fingerprints: Fingerprints, digests: Sequence[str], look: Callable[[Iterable[int]], Mapping[int, str]]
) -> Matches:
    """The pairs of identical pictures, at distance 0.

    Parameters
    ----------
    fingerprints : records of FINGERPRINT, one for each picture
    digests : hashes of the files' contents
    look : from rows to the hash of the pixels of each; rows that cannot be decoded are left out
    """
    first = {digest: row for row, digest in reversed(list(enumerate(digests)))}
    stands = np.array([first[digest] for digest in digests], np.int64)
    own = np.flatnonzero(stands == np.arange(len(stands)))
    known = look(own[may_be_identical(fingerprints[own])].tolist())
    seen = {value: row for row, value in sorted(known.items(), reverse=True)}
    for row, value in known.items():
        stands[row] = seen[value]
    return twins.within(stands[stands], MOST)


def may_be_identical(fingerprints: Fingerprints) -> NDArray[np.bool_]:
    """Which pictures have the size and about the colours of another."""
    colours = contents(fingerprints, "colours").reshape(len(fingerprints), 3 * COLOURS**2)
    brightness = colours.mean(axis=1)
    width, height = fingerprints["size"].T.astype(np.int64)
    order = np.lexsort((brightness, width, height))
    order = order[width[order] > 0]
    out = np.zeros(len(fingerprints), np.bool_)
    out[order] = _like_another(colours[order], brightness[order], width[order], height[order])
    return out


@njit(cache=True, nogil=True)
def _like_another(colours, brightness, width, height):  # type: ignore[no-untyped-def]
    """``may_be_identical`` of pictures sorted by size and brightness."""
    out = np.zeros(len(colours), np.bool_)
    for a in range(len(colours)):
        for b in range(a + 1, len(colours)):
            if width[a] != width[b] or height[a] != height[b] or brightness[b] - brightness[a] > APART:
                break
            if not (out[a] and out[b]) and _alike(colours[a], colours[b]):
                out[a] = out[b] = True
    return out


@njit(cache=True, nogil=True)
def _alike(one, other):  # type: ignore[no-untyped-def]
    place = 0
    while place < len(one) and abs(np.int64(one[place]) - np.int64(other[place])) <= APART:
        place += 1
    return place == len(one)
