"""A linear method with rounded weights: the same codes but for a few bits, from a model of a fraction of the size."""

from copy import copy
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from isch import compute
from isch.features import Features, Subset
from isch.hashing import pca, rounding
from isch.hashing.base import LinearHasher
from isch.rounded import check_bits

SAMPLE_ROWS = 20_000
ELSEWHERE = 0.1  # variance outside the directions that the weights use, relative to that inside, where no data tell

L = TypeVar("L", bound=LinearHasher)


def compressed(hasher: L, bits: int, data: Any) -> L:
    """See ``Hasher.compressed``."""
    check_bits(bits)
    hasher._check_fitted()
    measured = None if data is None else _measured(hasher._open_fitted(data))
    weights = rounding.rounded(hasher.projection_, bits, _assumed(hasher.projection_) if measured is None else measured)
    small = copy(hasher)
    small.projection_, small.scales_, small.weight_bits_ = weights.values(), weights.scales, bits
    return small


def _assumed(projection: NDArray[np.float32]) -> NDArray[np.float64] | None:
    """A covariance of rows that vary mostly in the directions that the weights use: all that a model tells of them."""
    if len(projection) > pca.EXACT_LIMIT:
        return None
    basis = np.linalg.qr(projection.astype(np.float64))[0]
    return np.asarray(basis @ basis.T + np.eye(len(basis)) * ELSEWHERE)


def _measured(features: Features) -> NDArray[np.float64] | None:
    """The covariance of a sample of the rows; None if there are too many features, or rows that do not vary."""
    if features.shape[1] > pca.EXACT_LIMIT:
        compute.refuse_unfinite(features)
        return None
    rows = compute.sample(features, SAMPLE_ROWS, np.random.default_rng(0))
    found = pca.covariance(Subset(features, rows))[1]
    return found if np.trace(found) > 0 else None
