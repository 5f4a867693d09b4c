"""Pairs of copies among pictures, and how far apart the two of each are.

The distance of two pictures counts the bits of their perceptual hashes (144) that differ, in the orientation, crop and
region with the fewest differences. Only copies differ in few bits. If more differ, or only the vectors are similar, the
two are laid over each other and compared again (``differences``); pictures that are practically the same share this
comparison (``twins``). Copies are usually below 15, different pictures hardly ever below 34.
"""

import math
from typing import Literal, get_args

import numpy as np

from isch.errors import InputError, unknown
from isch.photos import candidates, differences, twins
from isch.photos.candidates import Matches, Rows, Vectors
from isch.photos.fingerprint import FINGERPRINT, FLAT, Fingerprints, contents

VERSION = 2  # raise it when pairs are found differently: those kept are then searched for again
Setting = Literal["identical", "same", "altered"]  # how near copies are; each holds the pairs of those before it
SETTINGS: tuple[Setting, ...] = get_args(Setting)
DEFAULT: Setting = "same"
FURTHEST = 2.0  # the distance of a match; up to 0 identical, up to 1 the same picture, up to 2 an altered copy
LARGEST = 36  # bits: beyond it pictures resemble each other by chance
CANDIDATES, LEAST_CANDIDATES = 2_000_000, 8  # pairs that are laid over each other at most, and for each picture
_BITS = (30.0, 34.0)  # the largest number of bits of the same picture and of altered copies
SURE = 18  # pairs with hashes so near are copies; others are looked at more closely


def radius_of(closeness: str) -> float:
    """The largest distance of a match at a setting.

    Raises
    ------
    ParameterError
        There is no such setting.
    """
    if closeness not in SETTINGS:
        raise unknown("closeness", closeness, SETTINGS)
    return float(SETTINGS.index(closeness))


def setting_of(distance: float) -> Setting:
    """The first setting that holds matches of this distance."""
    return SETTINGS[math.ceil(min(distance, FURTHEST))]


def find_matches(fingerprints: Fingerprints, vectors: Vectors | None = None) -> Matches:
    """All pairs of copies.

    Parameters
    ----------
    fingerprints : records of FINGERPRINT, one for each picture
    vectors : (n, d) unit vectors of the same pictures by the default network, in memory or memory-mapped; without
        them, copies cropped unevenly by more than some 5 % are not found

    Returns
    -------
    Matches
        first < second, sorted; ``distance`` is 0 for identical pictures, at most 1 for the same picture, and at most 2
        for altered copies. One call serves all settings.

    Raises
    ------
    InputError
        Fingerprints are of another kind, or there are not as many vectors.
    """
    _check(fingerprints, vectors)
    n, rows = len(fingerprints), np.flatnonzero(fingerprints["contrast"] >= FLAT)
    most = max(LEAST_CANDIDATES, CANDIDATES // max(n, 1))
    hashed = candidates.by_hash(fingerprints, rows, LARGEST)
    sure, unsure = hashed.where(hashed.distance <= SURE), hashed.where(hashed.distance > SURE)
    stands = twins.stand_ins(sure, n)
    doubtful = candidates.nearest(twins.between(unsure, stands), most)
    if vectors is not None:
        alike = candidates.by_vector(vectors, rows[stands[rows] == rows], sure, most)
        doubtful = candidates.least(n, [doubtful, alike])
    found = [sure, _of_twins(unsure, stands), twins.spread(_laid_over(fingerprints, doubtful), stands)]
    every = candidates.least(n, found)
    every = every.where(every.distance <= _BITS[-1])
    return every._replace(distance=np.interp(every.distance, (0, *_BITS), (0.01, 1, 2)).astype(np.float32))


def _laid_over(fingerprints: Fingerprints, pairs: Matches) -> Matches:
    """The pairs that are near when laid over each other, at the distance they then have."""
    distance = differences.distances(contents(fingerprints, "thumbnail"), pairs.first, pairs.second)
    return pairs._replace(distance=distance).where(distance <= _BITS[-1])


def _of_twins(pairs: Matches, stands: Rows) -> Matches:
    """The pairs for which the same picture stands: no further apart than both are from it."""
    same = pairs.where(stands[pairs.first] == stands[pairs.second])
    return same._replace(distance=np.full_like(same.distance, 2 * twins.TWINS))


def _check(fingerprints: Fingerprints, vectors: Vectors | None) -> None:
    if fingerprints.dtype != FINGERPRINT or fingerprints.ndim != 1:
        raise InputError(
            f"expected a list of fingerprints of {FINGERPRINT.itemsize} bytes; "
            f"got shape {fingerprints.shape} of {fingerprints.dtype.itemsize} bytes"
        )
    if vectors is not None and (vectors.ndim != 2 or len(vectors) != len(fingerprints)):
        raise InputError(
            f"expected a matrix with one vector for each of {len(fingerprints)} pictures; got shape {vectors.shape}"
        )
