"""Principal directions of features that need not fit in memory.

Up to EXACT_LIMIT columns, the covariance is accumulated in one pass and decomposed exactly. Beyond, a randomised
subspace iteration reads the features a few times and never forms a (d, d) matrix
(Halko, Martinsson, Tropp 2011, *Finding structure with randomness*, algorithm 4.4).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isch import compute, fitting, progress
from isch.errors import InputError, warn
from isch.features import Block, Features, dense
from isch.fitting import ARRAYS, EIGH_FLOPS, Run, Size, Sized, Stage, step
from isch.hashing.projecting import centred
from isch.lazy import issparse, linalg

Matrix = NDArray[np.float64]

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


def principal(run: Run, features: Features, count: int) -> Principal:
    """Find the ``count`` leading principal directions."""
    if features.shape[1] <= EXACT_LIMIT:
        mean, matrix = run(covariance, features)
        return Principal(mean, *run(eigenvectors, matrix, count))
    mean = run(fitting.mean, features)
    return Principal(mean, *run(subspace, features, mean, count))


def spanning(run: Run, features: Features, n_bits: int) -> Principal:
    """Find the ``n_bits`` leading principal directions, or all that carry variance if those are fewer."""
    return run(of_full_rank, principal(run, features, min(n_bits, features.shape[1])))


@step(gives=lambda basis: Sized(basis.directions.shape))
def single(basis: Principal) -> NDArray[np.float32]:
    """Return the directions in single precision."""
    return basis.directions.astype(np.float32)


@step(gives=lambda basis: basis)
def of_full_rank(basis: Principal) -> Principal:
    """Leave out directions that carry no variance, but keep one."""
    rank = max(1, rank_of(basis))
    return Principal(basis.mean, basis.directions[:, :rank], basis.variances[:rank])


def _covariance_cost(features: Features) -> Stage:
    """One pass; the results of several blocks are there at once."""
    size = Size.of(features)
    d = size.columns
    held = d**2 * (4 * _waiting() + 4 * 8)
    return Stage(products=2.0 * size.rows * d**2, read=size.bytes(), memory=held)


def _waiting() -> int:
    """Results of blocks that are there at once."""
    return 3 * compute.n_threads() + 1


@step(
    "covariance",
    cost=_covariance_cost,
    gives=lambda features: (Sized(features.shape[1:], np.float64), Sized(2 * features.shape[1:], np.float64)),
    kept=ARRAYS,
)
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

    def zero(self) -> compute.Arrays:
        d = len(self.shift)
        return np.zeros(d), np.zeros((d, d))

    def block(self, block: Block, _: int) -> compute.Arrays:
        shifted = centred(dense(block, np.float64) if issparse(block) else block, self.shift)
        return shifted.sum(axis=0, dtype=np.float64), shifted.T @ shifted


@step(
    "eigenvectors",
    cost=lambda matrix, count: Stage(solving=EIGH_FLOPS * len(matrix) ** 3, memory=5 * matrix.nbytes),
    gives=lambda matrix, count: (Sized((len(matrix), count), np.float64), Sized((count,), np.float64)),
)
def eigenvectors(matrix: Matrix, count: int) -> tuple[Matrix, Matrix]:
    """Do the same as ``leading``, and tell of it."""
    with progress.task("", 1) as advance:
        found = leading(matrix, count)
        advance(1)
    return found


def leading(matrix: NDArray[np.float64], count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(eigenvectors (d, count), eigenvalues), largest eigenvalue first; each vector's largest entry is positive."""
    d = len(matrix)
    values, vectors = linalg.eigh(matrix, subset_by_index=(d - count, d - 1))
    vectors = vectors[:, ::-1]
    peaks = vectors[np.abs(vectors).argmax(axis=0), np.arange(count)]
    return vectors * np.where(peaks < 0, -1.0, 1.0), np.maximum(values[::-1], 0.0)


def _projecting_cost(features: Features, basis: Principal) -> Stage:
    size = Size.of(features)
    count = basis.directions.shape[1]
    products = 2.0 * size.rows * size.columns * count
    return Stage(products=products, read=size.bytes(), array=4 * size.rows * count)


@step(
    "projecting",
    cost=_projecting_cost,
    gives=lambda features, basis: Sized((len(features), basis.directions.shape[1])),
)
def project(features: Features, basis: Principal) -> NDArray[np.float32]:
    """Return all rows in the coordinates of the principal directions, (n, c)."""
    out: NDArray[np.float32] = compute.memory.empty((len(features), basis.directions.shape[1]), np.float32)
    compute.collect(Coordinates(basis.mean, basis.directions.astype(np.float32)), features, out)
    return out


@dataclass(frozen=True)
class Coordinates(compute.Pass[NDArray[np.float32]]):
    """(x − μ)ᵀ Q of each row."""

    mean: NDArray[np.float64]
    matrix: NDArray[np.float32]

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


@step(gives=lambda label, basis, n_bits: None)
def warn_rank(label: str, basis: Principal, n_bits: int) -> None:
    """Warn if the data has no variance along some of ``n_bits`` directions, so that their bits are arbitrary."""
    rank = rank_of(basis)
    if rank < n_bits:
        warn(
            f"{label}: the features vary in only {rank} directions; bits beyond them carry no information "
            f"(n_bits = {n_bits})"
        )


@step("directions", kept=ARRAYS)
def subspace(features: Features, mean: Matrix, count: int, *, run: Run) -> tuple[Matrix, Matrix]:
    """Return (directions, variances) by subspace iteration."""
    d = features.shape[1]
    basis = run(random_basis, d, min(d, count + OVERSAMPLING))
    for _ in range(PASSES):
        basis = run(powered, features, mean, basis)
    return run(settled, features, mean, basis, count)


@step(gives=lambda d, width: Sized((d, width), np.float64), random=True)
def random_basis(d: int, width: int, *, rng: np.random.Generator) -> Matrix:
    """Return random orthonormal columns."""
    return np.linalg.qr(rng.standard_normal((d, width)))[0]


def _power_cost(features: Features, mean: Matrix, basis: Matrix, *_: int) -> Stage:
    size = Size.of(features)
    d, width = basis.shape
    return Stage(
        products=4.0 * size.rows * d * width,
        solving=4.0 * d * width**2,
        read=size.bytes(),
        memory=d * width * (4 * _waiting() + 5 * 8),
    )


@step("principal directions", cost=_power_cost, gives=lambda features, mean, basis: basis)
def powered(features: Features, mean: Matrix, basis: Matrix) -> Matrix:
    """Return an orthonormal basis of the covariance times a basis."""
    return np.linalg.qr(_covariance_times(features, mean, basis))[0]


@step(
    "principal directions",
    cost=_power_cost,
    gives=lambda features, mean, basis, count: (Sized((len(basis), count), np.float64), Sized((count,), np.float64)),
)
def settled(features: Features, mean: Matrix, basis: Matrix, count: int) -> tuple[Matrix, Matrix]:
    """Return the eigenvectors and eigenvalues of the covariance within a basis."""
    small = basis.T @ _covariance_times(features, mean, basis) / len(features)
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

    def zero(self) -> compute.Arrays:
        return (np.zeros(self.coordinates.matrix.shape),)

    def block(self, block: Block, start: int) -> compute.Arrays:
        projected = self.coordinates.block(block, start)
        if issparse(block):
            return (np.asarray(block.T.astype(np.float32) @ projected),)
        return (np.asarray(centred(block, self.coordinates.mean).T @ projected),)
