"""Distance hashing: codes and two correction factors per item, from which 2-norms are estimated.

V are the r strongest principal directions, and the rotation R (r × m) is learned as in ITQ. Lengths are measured in
units of u, for which the values z = Rᵀ Vᵀ (x − μ) √m / u have a mean square of 1. R has orthonormal rows, so
⟨z_q, z_x⟩ u² / m is the product of q − μ and x − μ in the r directions. Bits b = sign z estimate it as RaBitQ does
(Gao, Long 2024, *RaBitQ: quantizing high-dimensional vectors with a theoretical error bound*):

    ⟨z_q, z_x⟩ ≈ c ⟨z_q, b⟩,   c = ‖z_x‖² / ⟨z_x, b⟩,

which is exact for q = x. With a = ‖x − μ‖² / u², of all directions,

    ‖q − x‖² ≈ u² (‖q − μ‖² / u² + a − 2 c ⟨z_q, b⟩ / m).

(a, c) are the correction factors of an item, 4 bytes in half precision.

r is the number of directions whose codes find most of the true neighbours in a sample. Fewer directions than bits
describe the strong directions more finely and forget the others: by signs along a tight frame R, or by several
thresholds per direction (thresholds.py), b = sign(z − t). The sample chooses between the two, too. ``project`` gives
z − t.
"""

import math
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isch import compute, fitting
from isch.compute import single_threaded_blas
from isch.errors import ParameterError
from isch.features import Block, Features, dense
from isch.fitting import Run, Sized, Stage, step
from isch.hashing import blocks, pca, rotation, spectrum, thresholds
from isch.hashing.base import LinearHasher
from isch.hashing.blocks import Directions, Learn
from isch.hashing.pca import Principal
from isch.hashing.projecting import Linear, Projecting, Projector, centred
from isch.hashing.spectrum import Spectrum
from isch.lazy import issparse
from isch.learned import Array, Expected, Optional
from isch.parameters import BITS, POSITIVE, Interval

if TYPE_CHECKING:
    from isch.hashing.base import Hasher

Matrix = NDArray[np.float32]
Factors = NDArray[np.float16]  # (n, 2): a and c

N_FACTORS = 2
SHARES = (1.0, 0.75, 0.5, 0.35, 0.25)  # directions per bit that are tried with signs
THRESHOLDS = (2, 3, 4, 6)  # per direction that are tried
WIDTH = 512  # directions in which neighbours are looked for
SAMPLE_ROWS = 10_000
QUERIES = 500
NEIGHBOURS = 10
LEAST_ROWS = 100  # below this, a sample has too few neighbours to choose by
ROUNDS = 8  # of the rotation of a trial
LEAST_COSINE = 0.05  # of z and its bits, as c takes it: rows next to the mean have bits that say nothing of them


class DistanceHash(LinearHasher):
    """Codes and two factors per item from which distances are estimated.

    Take it to find the nearest vectors: an index that keeps ``factors`` puts candidates in the order of estimated
    2-norms. To find the same kind of thing, take ``DiffusionHash``.

    Parameters
    ----------
    n_bits : int
        Bits per code, any number.
    block_size : int, optional
        Bits per rotation block, a divisor of ``n_bits``; by default the largest divisor up to 512, or nearly equal
        blocks where no divisor is large enough.
    n_iter : int
        Iterations of the rotation.
    max_samples : int
        Rows to learn the rotation from, drawn at random when there are more. Principal directions use all rows.
    random_state : int, RandomState or None
        Seed of the random choices.
    """

    name = "distance"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_bits": [BITS],
        "block_size": [POSITIVE, None],
        "n_iter": [POSITIVE],
        "max_samples": [Interval(Integral, 2, None, closed="left")],
        "random_state": ["random_state"],
    }
    _learns: ClassVar[Expected] = {
        "eigenvalues_": Array("float64", "r"),
        "rank_": int,
        "spectrum_share_": float,
        "unit_": float,
        "thresholds_": Optional(Array("float32", "m")),
        **blocks.LEARNS,
    }
    eigenvalues_: NDArray[np.float64]  # variances of the principal directions in use
    rank_: int  # directions that carry variance, of those looked at
    spectrum_share_: float  # of the variance that the directions in use hold
    unit_: float  # u
    thresholds_: NDArray[np.float32]  # t; only where they are not all zero

    def __init__(
        self,
        n_bits: int = 128,
        *,
        block_size: int | None = None,
        n_iter: int = 50,
        max_samples: int = 100_000,
        random_state: Any = 0,
    ) -> None:
        self.n_bits = n_bits
        self.block_size = block_size
        self.n_iter = n_iter
        self.max_samples = max_samples
        self.random_state = random_state

    def factors(self, X: Any) -> Factors:
        """Compute two correction factors per row, from which 2-norms are estimated (``isch.nearest_estimated``).

        Parameters
        ----------
        X : array, sparse matrix, Dask array, path or Features
            As for ``transform``.

        Returns
        -------
        ndarray of float16, (n, 2)
            The squared distance from the mean, and the correction of the product with the code.
        """
        self._check_fitted()
        features = checked(self)._open_fitted(X)
        out = np.empty((len(features), N_FACTORS), np.float16)
        compute.collect(Factoring(self._projecting(features), Lengths.of(self), thresholds_of(self)), features, out)
        return out

    def _fit(self, X: Features, run: Run) -> dict[str, Any]:
        mean, pairs, learn = principal_pairs(run, X, self.n_bits, min(SAMPLE_ROWS, self.max_samples))
        sample = run(fitting.draw, X, self.max_samples)
        n_blocks = blocks.count(self.n_bits, len(pairs.eigenvalues), self.block_size)
        pairs = run(spectrum.interleaved, pairs, n_blocks)
        known = spectrum.described(run, pairs)
        V = Directions(pairs.eigenvectors, pairs.blocks)
        rotated = blocks.rotate(run, V, sample, mean, learn, self.n_iter, self.n_bits)
        learned = {
            "mean_": mean,
            **known,
            "unit_": math.sqrt(self.n_bits) / rotated.scale,
            **rotated.learned(),
        }
        return learned if rotated.thresholds is None else learned | {"thresholds_": rotated.thresholds}

    def _projector(self) -> Projector:
        return Linear(self.mean_, self.projection_, getattr(self, "thresholds_", None))

    def _check_size(self, features: Features) -> None:
        super()._check_size(features)
        blocks.check_size(self.n_bits, self.block_size)


class Allocation(NamedTuple):
    """How many directions bits describe, and how R is learned."""

    directions: int
    learn: Learn  # rotation.learn: signs; thresholds.learn: thresholds


def principal_pairs(
    run: Run, features: Features, n_bits: int, n_rows: int
) -> tuple[NDArray[np.float64], Spectrum, Learn]:
    """Return (μ, principal directions for ``n_bits`` with their variances, how to learn R), from ``n_rows``."""
    wide = pca.spanning(run, features, max(n_bits, WIDTH))
    Z = run(pca.project, run(fitting.draw, features, n_rows), wide)
    chosen = run(allocation, Z, n_bits)
    return wide.mean, run(_spectrum, wide, chosen.directions), chosen.learn


def _spectrum_sizes(wide: Principal, r: int) -> Spectrum:
    values: Any = Sized((r,), np.float64)
    vectors: Any = Sized((len(wide.directions), r))
    return Spectrum(values, vectors, (r,), 1.0, 1.0, len(wide.variances))


@step(gives=_spectrum_sizes)
def _spectrum(wide: Principal, r: int) -> Spectrum:
    kept, share = wide.variances[:r], float(wide.variances[:r].sum() / wide.variances.sum())
    rank = len(wide.variances)
    return Spectrum(kept, wide.directions[:, :r].astype(np.float32), (r,), share, float(kept.mean()), rank)


def _trials_cost(Z: Matrix, n_bits: int) -> list[Stage]:
    """Of one rotation after the other."""
    width = Z.shape[1]
    of_signs = rotation.cost(Z, ROUNDS * len(SHARES), n_bits, min(n_bits, width))
    ranks = [max(1, min(n_bits // k, width)) for k in THRESHOLDS]
    return [of_signs, *(rotation.cost(Z, ROUNDS, rank, rank) for rank in ranks)]


@step(
    "trying directions",
    cost=_trials_cost,
    gives=lambda Z, n_bits: Allocation(min(n_bits, Z.shape[1]), rotation.learn),
    random=True,
)
def allocation(Z: Matrix, n_bits: int, rng: np.random.Generator) -> Allocation:
    """The best for sample rows Z (n, p) in the coordinates of the principal directions, strongest first."""
    n, most = len(Z), int(min(n_bits, Z.shape[1]))
    trials = [Allocation(max(1, round(share * most)), rotation.learn) for share in SHARES]
    if n < LEAST_ROWS or n_bits == 1:
        return trials[0]
    trials += [Allocation(max(1, min(round(n_bits / k), most)), thresholds.learn) for k in THRESHOLDS]
    queries = np.sort(rng.permutation(n)[:QUERIES])
    squares, others = np.einsum("ij,ij->i", Z, Z), rng.spawn(1)[0]
    with single_threaded_blas():  # threads of the matrix product would round differently
        wanted = _nearest(squares - 2 * (Z[queries] @ Z.T), queries)
        found = {}
        for trial in dict.fromkeys(trials):
            source = rng if trial.learn is rotation.learn else others
            inner = _estimated(np.ascontiguousarray(Z[:, : trial.directions]), queries, trial.learn, n_bits, source)
            near = _nearest(squares - 2 * inner, queries)
            found[trial] = sum(len(np.intersect1d(*both)) for both in zip(wanted, near, strict=True))
    return max(found, key=lambda trial: found[trial])


def _nearest(distances: Matrix, queries: NDArray[np.intp]) -> NDArray[np.intp]:
    """The nearest other rows of each query."""
    distances[np.arange(len(queries)), queries] = np.inf
    return np.argpartition(distances, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]


def _estimated(Z: Matrix, queries: NDArray[np.intp], learn: Learn, n_bits: int, rng: np.random.Generator) -> Matrix:
    """c ⟨z_q, b⟩ after a short search for a rotation: about ⟨z_q, z_x⟩."""
    found = learn(Z, ROUNDS, rng, n_bits=n_bits)
    values = Z @ found.matrix.astype(np.float32)
    limits = np.asarray(0 if found.thresholds is None else found.thresholds, np.float32)
    bits = np.where(values >= limits, np.float32(1), np.float32(-1))
    return np.asarray(values[queries] @ bits.T * corrections(values - limits, limits))


def corrections(values: Matrix, limits: Matrix) -> Matrix:
    """c = ‖z‖² / ⟨z, b⟩ of each row, from z − t and t."""
    z = values + limits
    squares = np.minimum(np.einsum("ij,ij->i", z, z), np.finfo(np.float32).max)
    products = np.where(values >= 0, z, -z).sum(axis=1)
    least = np.float32(LEAST_COSINE * math.sqrt(z.shape[1])) * np.sqrt(squares)
    return np.asarray(squares / np.maximum(np.maximum(products, least), np.finfo(np.float32).tiny), np.float32)


def thresholds_of(hasher: "Hasher") -> Matrix:
    """t (m,), or zero where bits are signs. ``project`` gives z − t."""
    found = getattr(hasher, "thresholds_", None)
    return np.asarray(0 if found is None else found, np.float32)


def checked(hasher: "Hasher") -> DistanceHash:
    """The hasher, if it has factors."""
    if not isinstance(hasher, DistanceHash) or not 0 < (hasher.unit_ or 0) < np.inf:
        raise ParameterError(f"{hasher._label} has no factors; expected a model of method distance (isch.DistanceHash)")
    return hasher


@dataclass(frozen=True)
class Lengths:
    """‖x − μ‖² / u² of each row of a block."""

    mean: NDArray[np.float64]
    unit: float  # u

    @classmethod
    def of(cls, hasher: "Hasher") -> "Lengths":
        """Those of a hasher that has factors."""
        known = checked(hasher)
        return cls(known.mean_, float(known.unit_))

    def __call__(self, block: Block) -> Matrix:
        """A sparse block is not made dense."""
        scale = np.float32(1 / self.unit)
        if issparse(block):
            rows, mean = block.astype(np.float32) * scale, self.mean.astype(np.float32) * scale
            squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel() + mean @ mean - 2 * (rows @ mean)
            return np.asarray(np.maximum(squares, 0), np.float32)
        shifted = centred(dense(block, None), self.mean) * scale
        return np.asarray(np.einsum("ij,ij->i", shifted, shifted))


def paired(lengths: Matrix, values: Matrix, limits: Matrix) -> Factors:
    """The factors of rows, from squared lengths, z − t and t; at most what half precision holds."""
    both = np.stack([lengths, corrections(values, limits)], axis=1)
    return np.minimum(both, np.finfo(np.float16).max).astype(np.float16)


@dataclass(frozen=True)
class Factoring(compute.Pass[Factors]):
    """The factors of each row."""

    projecting: Projecting
    lengths: Lengths
    limits: Matrix

    label = "factors"

    def block(self, block: Block, start: int) -> Factors:
        return paired(self.lengths(block), self.projecting.block(block, start), self.limits)


def squared_distances(hasher: "Hasher", lengths: Matrix, inner: Matrix, factors: Matrix) -> Matrix:
    """About ‖q − x‖² for ‖q − μ‖² / u² (queries,), ⟨z_q, b⟩ (queries, items) and factors (…, items, 2).

    Near zero it may be negative: the estimate errs to both sides.
    """
    per_bit = np.float32(2 / hasher.n_bits)
    found = lengths[:, None] + factors[..., 0] - per_bit * factors[..., 1] * inner
    return np.asarray(found * np.float32(Lengths.of(hasher).unit ** 2), np.float32)
