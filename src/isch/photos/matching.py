"""Pairs of copies among pictures, and whether the two of each are the same picture or one is an altered copy.

Candidates are found by perceptual hash and by vector; the two of each are then laid over each other and compared place
by place (``differences``). Pictures that are the same share the comparisons with others (``twins``). Pictures that show
too little to be compared have no matches here: they are duplicates only by their pixels (``exact``).
"""

import math
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from isch.errors import InputError, unknown
from isch.photos import candidates, differences, twins
from isch.photos.candidates import Matches, Rows, Vectors
from isch.photos.fingerprint import COLOURS, FINGERPRINT, Fingerprints

VERSION = 2  # raise it when pairs are found differently: those kept are then searched for again
Setting = Literal["identical", "same", "altered"]  # how near copies are; each holds the pairs of those before it
SETTINGS: tuple[Setting, ...] = get_args(Setting)
DEFAULT: Setting = "same"
FURTHEST = 2.0  # the distance of a match; up to 0 identical, up to 1 the same picture, up to 2 an altered copy
RADIUS = 36  # bits: hashes further apart resemble each other by chance
CANDIDATES, LEAST_CANDIDATES = 2_000_000, 8  # pairs that are laid over each other at most, and for each picture
SURE = 18  # bits: pairs with hashes so near are laid over each other, however many there are
SMALL_STAIN = 800  # grey levels per pixel of the smaller side, by which resizing to few pixels stains a picture
LEAST_EVIDENCE, EVIDENCE = 10, 35  # hundredths that each of two pictures must show, and one of them


class Limits(NamedTuple):
    """What a pair of copies must not exceed (bits, shift, stain, colours) and must reach."""

    bits: float = 34
    agreement: float = 0.65
    alike: float = 0.7
    shown: float = 0.4
    shift: float = 0.006  # of the width; and half a pixel of the smaller picture
    stain: float = 6  # grey levels; and more in small pictures
    brightness: float = 8  # grey levels by which one of 8 × 8 places may differ
    tint: float = 10  # the same for colours
    mean_tint: float = 1.4
    aspect: float = 0.01  # and one pixel of the smaller picture


LIMITS = Limits()


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
    n, rows = len(fingerprints), np.flatnonzero(fingerprints["evidence"] >= LEAST_EVIDENCE)
    most = max(LEAST_CANDIDATES, CANDIDATES // max(n, 1))
    hashed = candidates.by_hash(fingerprints, rows, RADIUS)
    sure, unsure = hashed.where(hashed.distance <= SURE), hashed.where(hashed.distance > SURE)
    same, stands = _twins(fingerprints, sure)
    doubtful = [twins.between(sure, stands), candidates.nearest(twins.between(unsure, stands), most)]
    if vectors is not None:
        doubtful.append(candidates.by_vector(vectors, rows[stands[rows] == rows], sure, most))
    compared = compared_pairs(fingerprints, candidates.least(n, doubtful))
    together = twins.within(stands)
    together = together._replace(distance=np.full_like(together.distance, radius_of("same")))
    return candidates.least(n, [same, together, twins.spread(compared, stands)])


def _twins(fingerprints: Fingerprints, sure: Matches) -> tuple[Matches, Rows]:
    """(pairs of the same picture of which one stands for the other, what stands for each picture)."""
    stands = twins.stand_ins(sure, len(fingerprints))
    second = np.flatnonzero(stands != np.arange(len(stands)))
    pairs = Matches(stands[second], second, np.zeros(len(second), np.float32))
    found = compared_pairs(fingerprints, pairs)
    same = found.where(found.distance <= radius_of("same"))
    confirmed = np.arange(len(stands))
    confirmed[same.second] = same.first
    return same, confirmed


def compared_pairs(fingerprints: Fingerprints, pairs: Matches, limits: Limits = LIMITS) -> Matches:
    """The copies among pairs, at their distance: up to 1 for the same picture, up to 2 for altered copies."""
    one, other = fingerprints[pairs.first], fingerprints[pairs.second]
    enough = np.maximum(one["evidence"], other["evidence"]) >= EVIDENCE
    pairs, one, other = pairs.where(enough), one[enough], other[enough]
    seen = differences.compare(fingerprints, pairs.first, pairs.second)
    copies = (
        (seen.bits <= limits.bits)
        & (seen.agreement >= limits.agreement)
        & (seen.alike >= limits.alike)
        & (seen.shown >= limits.shown)
    )
    same = same_picture(one, other, seen, limits)
    distance = np.where(same, 0, 1) + np.clip(seen.bits / limits.bits, 0.01, 1)
    return pairs._replace(distance=distance.astype(np.float32)).where(copies)


def same_picture(
    one: Fingerprints, other: Fingerprints, seen: differences.Comparison, limits: Limits
) -> NDArray[np.bool_]:
    """Which pairs show the same frame in the same colours, whatever their sizes in pixels."""
    sizes = np.stack([one["size"], other["size"]]).astype(np.float64)
    pixel = 1 / np.maximum(sizes.min(axis=(0, 2)), 1)
    across, down = np.moveaxis(sizes, 2, 0)
    aspect = np.abs(across[0] * down[1] / np.maximum(across[1] * down[0], 1) - 1)
    apart = np.abs(one["colours"].astype(np.float64) - other["colours"]).reshape(len(one), COLOURS**2, 3)
    tint = apart[..., 1:]
    same: NDArray[np.bool_] = (
        (aspect <= limits.aspect + pixel)
        & (seen.shift <= limits.shift + pixel / 2)
        & (seen.stain <= limits.stain + SMALL_STAIN * pixel)
        & (apart[..., 0].max(axis=1) <= limits.brightness)
        & (tint.max(axis=(1, 2)) <= limits.tint)
        & (tint.mean(axis=(1, 2)) <= limits.mean_tint)
    )
    return same


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
