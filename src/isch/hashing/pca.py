"""Principal directions of features that need not fit in memory.

Up to EXACT_LIMIT columns the covariance is accumulated in one pass and decomposed exactly; beyond, a randomised
subspace iteration goes over the features a few times and never forms a (d, d) matrix
(Halko, Martinsson, Tropp 2011, *Finding structure with randomness*, algorithm 4.4).
"""

import warnings
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import issparse

from isch import compute
from isch.errors import InputError, IschWarning
from isch.features import Block, Features, dense
from isch.hashing.base import centred

EXACT_LIMIT = 4096
OVERSAMPLING = 16
PASSES = 5
NOISE = 1e-7  # of the largest variance: below it single precision sees none


@dataclass(frozen=True)
class Principal:
    """The leading principal directions of some features, of largest variance first."""

    mean: NDArray[np.float64]  # (d,)
    directions: NDArray[np.float64]  # (d, c), orthonormal columns
    variances: NDArray[np.float64]  # (c,)


def principal(features: Features, count: int, rng: np.random.Generator) -> Principal:
    """The ``count`` leading principal directions."""
    if features.shape[1] <= EXACT_LIMIT:
        mean, matrix = covariance(features)
        return Principal(mean, *leading(matrix, count))
    mean = compute.mean(features)
    return Principal(mean, *_subspace_iteration(features, mean, count, rng))


def covariance(features: Features) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(mean, covariance with divisor n), in one pass.

    Rows are shifted by the mean of the first block before they are squared, so that a large common offset costs no
    digits; single-precision products of a block are added up in double precision.
    """
    n, d = features.shape
    first = features.read(0, min(n, compute.block_rows(d)))
    shift = compute.dense_sum(first) / first.shape[0]

    def moments(block: Block) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        shifted = centred(dense(block, np.float64) if issparse(block) else block, shift)
        return shifted.sum(axis=0, dtype=np.float64), shifted.T @ shifted

    total, scatter = np.zeros(d), np.zeros((d, d))
    for row_sum, products in compute.map_blocks(features, moments, "covariance"):
        total += row_sum
        scatter += products
    offset = total / n
    return shift + offset, scatter / n - np.outer(offset, offset)


def leading(matrix: NDArray[np.float64], count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(eigenvectors (d, count), eigenvalues) of largest eigenvalue first; each vector's largest entry is positive."""
    d = len(matrix)
    values, vectors = scipy.linalg.eigh(matrix, subset_by_index=(d - count, d - 1))
    vectors = vectors[:, ::-1]
    peaks = vectors[np.abs(vectors).argmax(axis=0), np.arange(count)]
    return vectors * np.where(peaks < 0, -1.0, 1.0), np.maximum(values[::-1], 0.0)


def project_rows(features: Features, rows: NDArray[np.intp], basis: Principal) -> NDArray[np.float32]:
    """The given (sorted) rows in the coordinates of the principal directions, (len(rows), c)."""
    directions = basis.directions.astype(np.float32)
    step = compute.block_rows(features.shape[1])
    taken = (features.take(rows[start : start + step]) for start in range(0, len(rows), step))
    return np.concatenate(list(compute.parallel(lambda block: _centred_product(block, basis.mean, directions), taken)))


def check_limit(label: str, n_bits: int, n_features: int) -> None:
    """Refuse more bits than features, for methods that cannot give them."""
    if n_bits > n_features:
        raise InputError(
            f"{label} gives at most one bit a feature: n_bits must be at most {n_features} (the number of features); "
            f"got {n_bits}"
        )


def warn_rank(label: str, basis: Principal) -> None:
    """Say when some of the directions asked for carry no variance, so that their bits are arbitrary."""
    n_bits = len(basis.variances)
    rank = int((basis.variances > basis.variances[0] * NOISE).sum()) if basis.variances[0] > 0 else 0
    if rank < n_bits:
        warnings.warn(
            f"{label}: the features vary in {rank} directions only; bits beyond them carry no information "
            f"(n_bits = {n_bits})",
            IschWarning,
            stacklevel=4,
        )


def _centred_product(block: Block, mean: NDArray[np.float64], matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """(block − mean) @ matrix, without making a sparse block dense."""
    if issparse(block):
        return np.asarray(np.asarray(block.astype(np.float32) @ matrix) - (mean @ matrix).astype(np.float32))
    return np.asarray(centred(block, mean) @ matrix)


def _subspace_iteration(
    features: Features, mean: NDArray[np.float64], count: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    n, d = features.shape
    width = min(d, count + OVERSAMPLING)
    basis = np.linalg.qr(rng.standard_normal((d, width)))[0]
    for _ in range(PASSES):
        basis = np.linalg.qr(_covariance_times(features, mean, basis))[0]
    small = basis.T @ _covariance_times(features, mean, basis) / n
    vectors, values = leading((small + small.T) / 2, count)
    return basis @ vectors, values


def _covariance_times(features: Features, mean: NDArray[np.float64], basis: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ (x − μ)(x − μ)ᵀ Q. The projections (x − μ)ᵀ Q sum to zero, so the first factor need not be centred."""
    narrow = basis.astype(np.float32)

    def products(block: Block) -> NDArray[np.float32]:
        projected = _centred_product(block, mean, narrow)
        if issparse(block):
            return np.asarray(block.T.astype(np.float32) @ projected)
        return np.asarray(centred(block, mean).T @ projected)

    total = np.zeros_like(basis)
    for part in compute.map_blocks(features, products, "principal directions"):
        total += part
    return total
