"""Exact duplicates: the same bytes, or the same pixels in other bytes."""

import hashlib
import os
from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np

from isch.describe.images import decode
from isch.files import reading

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


def same(hashes: Sequence[Hashable]) -> list[list[int]]:
    """The positions of equal hashes, where there are at least two; in the order of their first positions."""
    places: dict[Hashable, list[int]] = defaultdict(list)
    for position, value in enumerate(hashes):
        places[value].append(position)
    return [rows for rows in places.values() if len(rows) > 1]
