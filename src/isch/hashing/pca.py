"""Principal directions of features that need not fit in memory.

Up to EXACT_LIMIT columns, the covariance is accumulated in one pass and decomposed exactly. Beyond, a randomised
subspace iteration reads the features a few times and never forms a (d, d) matrix
(Halko, Martinsson, Tropp 2011, *Finding structure with randomness*, algorithm 4.4).
"""

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isch import compute, progress
from isch.errors import InputError, IschWarning
from isch.features import Block, Features, Subset, dense
from isch.hashing.projecting import centred
from isch.lazy import issparse, linalg

EXACT_LIMIT = 4096
OVERSAMPLING = 16
PASSES = 5
NOISE = 1e-7  # of the largest variance; a smaller one is lost in single precision


@dataclass(frozen=True)
class Principal:
    """The leading principal directions of some features, largest variance first."""

    mean: NDArray[np.float64]  # (d,)
    directions: NDArray[np.float64]  # (d, c), orthonormal columns
    variances: NDArray[np.float64]  # (c,)


def principal(features: Features, count: int, rng: np.random.Generator) -> Principal:
    """The ``count`` leading principal directions."""
    if features.shape[1] <= EXACT_LIMIT:
        mean, matrix = compute.checkpoint.stage("covariance", None, lambda: covariance(features))
        with progress.task("eigenvectors", 1) as advance:
            directions, variances = leading(matrix, count)
            advance(1)
        return Principal(mean, directions, variances)
    mean = compute.mean(features)
    found = compute.checkpoint.stage("directions", rng, lambda: _subspace_iteration(features, mean, count, rng))
    return Principal(mean, *found)


def work(size: compute.Size, count: int) -> list[compute.Stage]:
    """What ``principal`` costs: one pass for the covariance and its d eigenvectors, or six passes with a basis."""
    n, d, _ = size
    waiting = 3 * compute.n_threads() + 1  # results of blocks that are there at once
    if d <= EXACT_LIMIT:
        held = d**2 * (4 * waiting + 4 * 8)
        covariance = compute.Stage("covariance", 2.0 * n * d**2, read=size.bytes(), memory=held, kept=8 * d**2)
        return [covariance, compute.Stage("eigenvectors", solving=compute.EIGH_FLOPS * d**3, memory=5 * 8 * d**2)]
    width = min(d, count + OVERSAMPLING)
    turn = compute.Stage(
        "principal directions",
        4.0 * n * d * width,
        4.0 * d * width**2,
        size.bytes(),
        memory=d * width * (4 * waiting + 5 * 8),
    )
    return [compute.mean_work(size), *[turn] * (PASSES + 1)]


def spanning(features: Features, n_bits: int, rng: np.random.Generator) -> Principal:
    """The ``n_bits`` leading principal directions, or all that carry variance if those are fewer."""
    basis = principal(features, min(n_bits, features.shape[1]), rng)
    rank = max(1, rank_of(basis))
    return Principal(basis.mean, basis.directions[:, :rank], basis.variances[:rank])


def covariance(features: Features) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(mean, covariance with divisor n), in one pass.

    Rows are shifted by the mean of the first block before they are squared, so that a large common offset costs no
    digits. The products of a block are in single precision; their sum over blocks is in double precision.
    """
    n, d = features.shape
    first = features.read(0, min(n, compute.block_rows(d)))
    shift = compute.row_sum(first) / first.shape[0]
    total, scatter = compute.run(Moments(shift), features)
    if not np.isfinite(scatter).all():
        raise InputError(
            f"{features.where}: squares of values exceed the range of single precision (3.4e38); expected smaller ones"
        )
    offset = total / n
    return shift + offset, scatter / n - np.outer(offset, offset)


@dataclass(frozen=True)
class Moments(compute.Sum):
    """(Σ (x − s), Σ (x − s)(x − s)ᵀ) for a fixed shift s."""

    shift: NDArray[np.float64]

    label = "covariance"

    def zero(self) -> compute.Arrays:
        d = len(self.shift)
        return np.zeros(d), np.zeros((d, d))

    def block(self, block: Block, _: int) -> compute.Arrays:
        shifted = centred(dense(block, np.float64) if issparse(block) else block, self.shift)
        return shifted.sum(axis=0, dtype=np.float64), shifted.T @ shifted


def leading(matrix: NDArray[np.float64], count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(eigenvectors (d, count), eigenvalues), largest eigenvalue first; each vector's largest entry is positive."""
    d = len(matrix)
    values, vectors = linalg.eigh(matrix, subset_by_index=(d - count, d - 1))
    vectors = vectors[:, ::-1]
    peaks = vectors[np.abs(vectors).argmax(axis=0), np.arange(count)]
    return vectors * np.where(peaks < 0, -1.0, 1.0), np.maximum(values[::-1], 0.0)


def project_rows(features: Features, rows: NDArray[np.intp], basis: Principal) -> NDArray[np.float32]:
    """The given (sorted) rows in the coordinates of the principal directions, (len(rows), c)."""
    some = Subset(features, rows)
    out: NDArray[np.float32] = compute.memory.empty((len(rows), basis.directions.shape[1]), np.float32)
    compute.collect(Coordinates(basis.mean, basis.directions.astype(np.float32)), some, out)
    return out


def project_work(size: compute.Size, rows: int, count: int) -> compute.Stage:
    """What ``project_rows`` costs: one pass over s rows."""
    products = 2.0 * rows * size.columns * count
    return compute.Stage("projecting", products, read=size.bytes(rows), array=4 * rows * count)


@dataclass(frozen=True)
class Coordinates(compute.Pass[NDArray[np.float32]]):
    """(x − μ)ᵀ Q of each row."""

    mean: NDArray[np.float64]
    matrix: NDArray[np.float32]

    label = "projecting"

    def block(self, block: Block, _: int) -> NDArray[np.float32]:
        """A sparse block is not made dense."""
        if issparse(block):
            values = compute.times(block.astype(np.float32, copy=False), self.matrix)
            return np.asarray(values - (self.mean @ self.matrix).astype(np.float32))
        return np.asarray(centred(block, self.mean) @ self.matrix)


def check_limit(label: str, n_bits: int, n_features: int) -> None:
    """Refuse more bits than features, for methods that cannot give them."""
    if n_bits > n_features:
        raise InputError(
            f"{label} gives at most one bit per feature: n_bits must be at most {n_features} (the number of features); "
            f"got {n_bits}"
        )


def rank_of(basis: Principal) -> int:
    """How many of the directions carry variance."""
    return int((basis.variances > basis.variances[0] * NOISE).sum())


def warn_rank(label: str, basis: Principal) -> None:
    """Warn if the data has no variance along some of the directions, so that their bits are arbitrary."""
    n_bits, rank = len(basis.variances), rank_of(basis)
    if rank < n_bits:
        warnings.warn(
            f"{label}: the features vary in only {rank} directions; bits beyond them carry no information "
            f"(n_bits = {n_bits})",
            IschWarning,
            stacklevel=4,
        )


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
    """Σ (x − μ)(x − μ)ᵀ Q."""
    (total,) = compute.run(Power(Coordinates(mean, basis.astype(np.float32))), features)
    return np.asarray(total)


@dataclass(frozen=True)
class Power(compute.Sum):
    """Σ (x − μ)(x − μ)ᵀ Q. The factors (x − μ)ᵀ Q sum to zero, so x − μ may be replaced by x in a sparse block."""

    coordinates: Coordinates

    label = "principal directions"

    def zero(self) -> compute.Arrays:
        return (np.zeros(self.coordinates.matrix.shape),)

    def block(self, block: Block, start: int) -> compute.Arrays:
        projected = self.coordinates.block(block, start)
        if issparse(block):
            return (np.asarray(block.T.astype(np.float32) @ projected),)
        return (np.asarray(centred(block, self.coordinates.mean).T @ projected),)
