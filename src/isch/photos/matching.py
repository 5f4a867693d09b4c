"""Pairs of copies among pictures, and how far apart the two of each are.

The distance of two pictures counts the bits of their perceptual hashes (144) that differ, in the orientation, crop and
region with the fewest differences. Only copies differ in few bits. If more differ, or only the vectors are similar, the
two are laid over each other and compared again (``differences``); pictures that are practically the same share this
comparison (``twins``). Copies are usually below 15, different pictures hardly ever below 34.
"""

import numpy as np

from isch.errors import InputError, ParameterError, unknown
from isch.photos import candidates, differences, twins
from isch.photos.candidates import Matches, Rows, Vectors
from isch.photos.fingerprint import FINGERPRINT, FLAT, Fingerprints, contents

VERSION = 1  # raise it when pairs are found differently: those kept are then searched for again
CLOSENESS = {"identical": 2.0, "near": 30.0, "loose": 34.0}  # name: the largest distance
DEFAULT = "near"
LARGEST = 36  # the end of the slider: beyond it pictures resemble each other by chance
CANDIDATES, LEAST_CANDIDATES = 2_000_000, 8  # pairs that are laid over each other at most, and for each picture
SURE = 18  # pairs with hashes so near are copies; others are looked at more closely


def radius_of(closeness: str | float) -> float:
    """The largest distance of a closeness: one of the names, or a number of bits up to 36.

    Raises
    ------
    ParameterError
        For another name, or a number that is not within 0 to 36.
    """
    if isinstance(closeness, str):
        if closeness not in CLOSENESS:
            raise unknown("closeness", closeness, CLOSENESS)
        return CLOSENESS[closeness]
    if not 0 <= closeness <= LARGEST:
        raise ParameterError(f"closeness must be a number from 0 to {LARGEST}; got {closeness!r}")
    return float(closeness)


def find_matches(
    fingerprints: Fingerprints, vectors: Vectors | None = None, closeness: str | float = "loose"
) -> Matches:
    """All pairs of copies.

    Parameters
    ----------
    fingerprints : records of FINGERPRINT, one for each picture
    vectors : (n, d) unit vectors of the same pictures by the default network, in memory or memory-mapped; without
        them, copies cropped unevenly by more than some 5 % are not found
    closeness : how near: "identical", "near", "loose", or a number of bits

    Returns
    -------
    Matches
        first < second, sorted; ``distance`` in bits, float32. Those within a smaller closeness are a part of them, so
        one call with the loosest serves a slider.

    Raises
    ------
    InputError
        Fingerprints are of another kind, or there are not as many vectors.
    """
    radius = radius_of(closeness)
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
    found = [sure, _of_twins(unsure, stands), twins.spread(_laid_over(fingerprints, doubtful, radius), stands)]
    every = candidates.least(n, found)
    return every.where(every.distance <= radius)


def _laid_over(fingerprints: Fingerprints, pairs: Matches, radius: float) -> Matches:
    """The pairs that are near when laid over each other, at the distance they then have."""
    distance = differences.distances(contents(fingerprints, "thumbnail"), pairs.first, pairs.second)
    return pairs._replace(distance=distance).where(distance <= radius)


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
