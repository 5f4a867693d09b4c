"""``objective="neighbours"`` of ISCH: codes and two numbers per item, from which 2-norms are estimated.

ISCH's weights f(λ) bring together what belongs together and thereby change who is whose neighbour. Here f ≡ 1: V are
the r strongest principal directions, and R (r × m) is learned as always. Lengths are measured in units of u, for which
the values z = Rᵀ Vᵀ (x − μ) √m / u have a mean square of 1. R has orthonormal rows, so ⟨z_q, z_x⟩ u² / m is the product
of q − μ and x − μ in the r directions. Bits b = sign z estimate it as RaBitQ does (Gao, Long 2024, *RaBitQ: quantizing
high-dimensional vectors with a theoretical error bound*):

    ⟨z_q, z_x⟩ ≈ c ⟨z_q, b⟩,   c = ‖z_x‖² / ⟨z_x, b⟩,

which is exact for q = x. With a = ‖x − μ‖² / u², of all directions,

    ‖q − x‖² ≈ u² (‖q − μ‖² / u² + a − 2 c ⟨z_q, b⟩ / m).

(a, c) are the factors of an item, 4 bytes in half precision.

r is the number of directions whose codes find most of the true neighbours in a sample. Fewer directions than bits
describe the strong directions more finely and forget the others: by signs along a tight frame R, or by several
thresholds per direction (levels.py), b = sign(z − t). The sample chooses between the two, too. ``project`` gives z − t.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isch import compute, fitting
from isch.compute import single_threaded_blas
from isch.errors import ParameterError
from isch.features import Block, Features, dense
from isch.fitting import Run, Sized, Stage, step
from isch.hashing import levels, pca, rotation
from isch.hashing.base import LinearHasher
from isch.hashing.blocks import Learn
from isch.hashing.pca import Principal
from isch.hashing.projecting import Projecting, centred
from isch.hashing.spectrum import Spectrum
from isch.lazy import issparse

if TYPE_CHECKING:
    from isch.hashing.base import Hasher

Matrix = NDArray[np.float32]
Factors = NDArray[np.float16]  # (n, 2): a and c

N_FACTORS = 2
SHARES = (1.0, 0.75, 0.5, 0.35, 0.25)  # directions per bit that are tried with signs
THRESHOLDS = (2, 3, 4, 6)  # per direction that are tried
WIDTH = 512  # directions in which neighbours are looked for
SAMPLE_ROWS, QUERIES, NEIGHBOURS = 10_000, 500, 10
LEAST_ROWS = 100  # fewer have no neighbourhoods to speak of
ROUNDS = 8  # of the rotation of a trial
LEAST_COSINE = 0.05  # of z and its bits, as c takes it: rows next to the mean have bits that say nothing of them


class Allocation(NamedTuple):
    """How many directions bits describe, and how R is learned."""

    directions: int
    learn: Learn  # rotation.learn: signs; levels.learn: thresholds


def principal_pairs(run: Run, features: Features, n_bits: int) -> tuple[NDArray[np.float64], Spectrum, Learn]:
    """(μ, the principal directions that ``n_bits`` bits use, with the variances as eigenvalues, how to learn R)."""
    wide = pca.spanning(run, features, max(n_bits, WIDTH))
    Z = run(pca.project, run(fitting.draw, features, SAMPLE_ROWS), wide)
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
    trials += [Allocation(max(1, min(round(n_bits / k), most)), levels.learn) for k in THRESHOLDS]
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


def thresholds(hasher: "Hasher") -> Matrix:
    """t (m,), or zero where bits are signs. ``project`` gives z − t."""
    found = getattr(hasher, "thresholds_", None)
    return np.asarray(0 if found is None else found, np.float32)


def factors(hasher: "Hasher", X: Any) -> Factors:
    """See ``ISCH.factors``."""
    hasher._check_fitted()
    features = checked(hasher)._open_fitted(X)
    out = np.empty((len(features), N_FACTORS), np.float16)
    compute.collect(Factoring(hasher._projecting(features), Lengths.of(hasher), thresholds(hasher)), features, out)
    return out


def checked(hasher: "Hasher") -> LinearHasher:
    """The hasher, if it has factors."""
    if not isinstance(hasher, LinearHasher) or not 0 < (getattr(hasher, "unit_", None) or 0) < np.inf:
        raise ParameterError(f"{hasher._label} has no factors; expected isch that learned with objective='neighbours'")
    return hasher


@dataclass(frozen=True)
class Lengths:
    """‖x − μ‖² / u² of each row of a block."""

    mean: NDArray[np.float64]
    unit: float  # u

    @classmethod
    def of(cls, hasher: "Hasher") -> "Lengths":
        """Those of a hasher that has factors."""
        return cls(checked(hasher).mean_, float(getattr(hasher, "unit_", 1.0)))

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
