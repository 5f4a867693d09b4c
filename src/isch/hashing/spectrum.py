"""Step 2 of ISCH: the largest eigenvalues and eigenvectors of D Dᵀ (the paper's section "Approximate spectral
decomposition").

Dictionaries are ``atoms`` = Dᵀ (k, d). For a large d, neither D Dᵀ nor U_iᵀ D is ever in memory as a whole: sums run
over slabs of atoms.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch import progress
from isch.fitting import ARRAY, EIGH_FLOPS, SVD_FLOPS, Kept, Run, Sized, Stage, step
from isch.hashing import diagnostics
from isch.lazy import linalg

Atoms = NDArray[np.float32]
Vector = NDArray[np.float64]

EXACT_LIMIT = 4096  # atoms or features up to which all eigenpairs are computed
SLAB_ATOMS = 4096
STRIP = 512  # columns of a product that are made at once
REDRAWS = 20
OVERSAMPLING = 0.1  # additional directions in a randomised solver, as a share of those wanted
POWER_ITERATIONS = 3


@dataclass(frozen=True)
class Spectrum:
    """The r = min(m, rank) largest eigenpairs of D Dᵀ, block after block."""

    eigenvalues: Vector  # (r,)
    eigenvectors: NDArray[np.float32]  # (d, r)
    sizes: tuple[int, ...]  # eigenpairs of each block
    share: float  # of the trace Σλ = k in one block (columns) or in all blocks together (otherwise)
    level: float  # of the whole spectrum, computed or estimated
    rank: int | None  # of D, where the whole spectrum is known

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """All that it is, as arrays; ``of`` makes it from them again."""
        numbers = np.array([self.share, self.level, -1 if self.rank is None else self.rank])
        vectors = self.eigenvectors if self.eigenvectors.flags.forc else np.ascontiguousarray(self.eigenvectors)
        return self.eigenvalues, vectors, np.array(self.sizes), numbers  # in an order of memory that a file keeps, too

    @classmethod
    def of(
        cls, eigenvalues: Vector, eigenvectors: NDArray[np.float32], sizes: NDArray[np.intp], numbers: Vector
    ) -> "Spectrum":
        """From what ``arrays`` gave."""
        share, middle, rank = numbers.tolist()
        found = None if rank < 0 else int(rank)
        return cls(eigenvalues, eigenvectors, tuple(sizes.tolist()), share, middle, found)

    @property
    def blocks(self) -> list[slice]:
        """The columns of each block."""
        return slices(self.sizes)

    def first(self, count: int) -> "Spectrum":
        """The ``count`` largest pairs of one block, or all of them if they are fewer."""
        kept = self.eigenvalues[:count]
        share = self.share * float(kept.sum() / self.eigenvalues.sum())
        vectors = self.eigenvectors[:, :count]
        return replace(self, eigenvalues=kept, eigenvectors=vectors, sizes=(len(kept),), share=share)

    def interleaved(self, n_blocks: int) -> "Spectrum":
        """Give the pairs of one block to several blocks in turn, so that every block has strong and weak ones.

        With fewer pairs than blocks there are fewer blocks.
        """
        parts = self._parts(n_blocks)
        order = np.concatenate(parts)
        sizes = tuple(map(len, parts))
        return replace(self, eigenvalues=self.eigenvalues[order], eigenvectors=self.eigenvectors[:, order], sizes=sizes)

    def interleaved_sizes(self, n_blocks: int) -> "Spectrum":
        """The same in a dry run."""
        return replace(self, sizes=tuple(map(len, self._parts(n_blocks))))

    def _parts(self, n_blocks: int) -> list[NDArray[np.intp]]:
        count = len(self.eigenvalues)
        return [np.arange(first, count, n_blocks) for first in range(min(n_blocks, count))]


@step(gives=lambda pairs, n_blocks: pairs.interleaved_sizes(n_blocks))
def interleaved(pairs: Spectrum, n_blocks: int) -> Spectrum:
    """See ``Spectrum.interleaved``."""
    return pairs.interleaved(n_blocks)


def kind_of(asked: str, shape: tuple[int, int], large: str) -> str:
    """Choose how to find the eigenpairs of a dictionary of this shape: exactly, or the way for ``large`` ones."""
    if asked != "auto":
        return asked
    return "exact" if min(shape) <= EXACT_LIMIT else large


def solve(run: Run, atoms: Atoms, kind: str, n_pairs: int, n_blocks: int) -> Spectrum:
    """Find the largest eigenpairs; in so many blocks if columns are sampled, otherwise in one."""
    if kind == "columns":
        return run(columns, atoms, n_pairs, n_blocks)
    return run(exact if kind == "exact" else randomized, atoms, n_pairs)


def described(run: Run, pairs: Spectrum) -> dict[str, Any]:
    """Return the attributes that a method keeps of eigenpairs."""
    return {
        "eigenvalues_": pairs.eigenvalues,
        "rank_": pairs.rank,
        "spectrum_share_": pairs.share,
        "block_overlap_": run(diagnostics.block_overlap, pairs.eigenvectors, pairs.blocks),
    }


def slices(sizes: Sequence[int]) -> list[slice]:
    """Consecutive parts of these sizes."""
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


KEPT = Kept(Spectrum.arrays, Spectrum.of)


def sizes(atoms: Atoms, n_pairs: int, n_blocks: int = 1) -> Spectrum:
    """As many eigenpairs of a dry run as full rank gives."""
    count = min(n_pairs, *atoms.shape)
    parts = tuple(len(part) for part in np.array_split(np.arange(count), min(n_blocks, count)))
    vectors: Any = Sized((atoms.shape[1], count))
    values: Any = Sized((count,), np.float64)
    return Spectrum(values, vectors, parts, 1.0, 1.0, None)


def _exact_cost(atoms: Atoms, n_pairs: int) -> Stage:
    k, d = atoms.shape
    small = min(k, d)
    return Stage(products=4.0 * k * d * small, solving=EIGH_FLOPS * small**3, memory=32 * small**2)


@step("eigenvectors", cost=_exact_cost, gives=sizes, kept=KEPT)
def exact(atoms: Atoms, n_bits: int) -> Spectrum:
    """The whole spectrum, from the smaller of the two Gram matrices, in double precision."""
    k, d = atoms.shape
    with progress.task("", 1) as advance:
        eigenvalues, vectors = np.linalg.eigh(gram(atoms if d <= k else np.ascontiguousarray(atoms.T)))
        advance(1)
    eigenvalues, vectors = np.maximum(eigenvalues[::-1], 0), vectors[:, ::-1]
    rank = rank_of(eigenvalues, atoms)
    kept, middle = eigenvalues[: min(n_bits, rank)], entropy_level(above_noise(eigenvalues[:rank], atoms))
    vectors = vectors[:, : len(kept)]
    if d > k:
        vectors = atoms.T @ (vectors / np.sqrt(kept))
    return Spectrum(kept, vectors.astype(np.float32), (len(kept),), float(kept.sum()) / k, middle, rank)


def _columns_cost(atoms: Atoms, n_bits: int, n_blocks: int) -> Stage:
    k, d = atoms.shape
    group = min(n_bits, k, d) / n_blocks
    return Stage(
        products=n_blocks * (2.0 * k * d * group + 4.0 * k * group**2),
        solving=n_blocks * (SVD_FLOPS * d * group**2 + EIGH_FLOPS * group**3),
        memory=8 * 3 * d * group + 4 * d * n_bits,
    )


@step("column sampling", cost=_columns_cost, gives=sizes, kept=KEPT, random=True)
def columns(atoms: Atoms, n_bits: int, n_blocks: int, rng: np.random.Generator) -> Spectrum:
    """The paper's column sampling: m atoms in Q groups C_i, and the eigenpairs of D within the span of each group."""
    values, vectors, middle = [], [], 0.0
    with progress.task("", n_blocks, "blocks") as advance:
        for U in sampled_bases(atoms, n_bits, n_blocks, rng):
            ritz, W = ritz_pairs(atoms, U)
            values.append(ritz)
            vectors.append(W.astype(np.float32))
            middle += entropy_level(above_noise(completed(ritz, atoms), atoms))
            advance(1)
    eigenvalues, sizes = np.concatenate(values), tuple(map(len, values))
    share = float(eigenvalues.sum()) / (len(sizes) * len(atoms))
    return Spectrum(eigenvalues, np.concatenate(vectors, axis=1), sizes, share, middle / len(sizes), None)


def sampled_bases(atoms: Atoms, n_bits: int, n_blocks: int, rng: np.random.Generator) -> Iterator[NDArray[np.float64]]:
    """U_i of the thin SVD C_i = U_i S_i V_iᵀ of each group.

    A group without full rank is drawn again. If no draw has full rank, the span of the last one is used.
    """
    order, chosen = rng.permutation(len(atoms)), min(n_bits, *atoms.shape)
    spare = order[chosen:]
    for group in np.array_split(order[:chosen], min(n_blocks, chosen)):
        tolerance = max(atoms.shape[1], len(group)) * np.finfo(np.float32).eps
        for _ in range(REDRAWS):
            U, s, _ = linalg.svd(atoms[group].T.astype(np.float64), full_matrices=False)
            if s[-1] > tolerance * s[0]:
                break
            pool = rng.permutation(np.concatenate([group, spare]))
            group, spare = pool[: len(group)], pool[len(group) :]
        yield U[:, s > tolerance * s[0]]


@step("spectrum", kept=KEPT)
def randomized(atoms: Atoms, n_bits: int, *, run: Run) -> Spectrum:
    """Block power iteration (Halko, Martinsson, Tropp 2011). Not in the paper; nearly exact and far cheaper."""
    Q = run(random_directions, atoms, n_bits)
    for _ in range(POWER_ITERATIONS + 1):
        Q = run(powered, atoms, Q)
    return run(settled, atoms, Q, n_bits)


def _width(n_bits: int) -> int:
    """Directions in which a randomised solver looks for ``n_bits`` eigenpairs."""
    return n_bits + max(16, math.ceil(OVERSAMPLING * n_bits))


@step(gives=lambda atoms, n_bits: Sized((atoms.shape[1], min(_width(n_bits), *atoms.shape))), random=True)
def random_directions(atoms: Atoms, n_bits: int, *, rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw the first directions."""
    return rng.standard_normal((atoms.shape[1], min(_width(n_bits), *atoms.shape)), dtype=np.float32)


def _held(Q: NDArray[np.float32]) -> int:
    """Bytes of two arrays of directions and the products of a slab of atoms."""
    d, r = Q.shape
    return int(4 * 2 * d * r + 4 * SLAB_ATOMS * (r + d))


def _power_cost(atoms: Atoms, Q: NDArray[np.float32]) -> Stage:
    (k, d), r = atoms.shape, Q.shape[1]
    return Stage(products=4.0 * k * d * r, solving=4.0 * d * r**2, memory=_held(Q))


@step("power iterations", cost=_power_cost, gives=lambda atoms, Q: Q, kept=ARRAY)
def powered(atoms: Atoms, Q: NDArray[np.float32]) -> NDArray[np.float32]:
    """An orthonormal basis of the span of D Dᵀ Q."""
    with progress.task("", 1) as advance:
        basis = linalg.qr(_power(atoms, Q), mode="economic", overwrite_a=True, check_finite=False)[0]
        advance(1)
    return np.asarray(basis)


def _settled_cost(atoms: Atoms, Q: NDArray[np.float32], n_bits: int) -> Stage:
    (k, d), r = atoms.shape, Q.shape[1]
    products = 2.0 * k * d * r + 4.0 * k * r**2 + 2.0 * d * r**2
    return Stage(products=products, solving=EIGH_FLOPS * r**3, memory=_held(Q))


@step("eigenvectors", cost=_settled_cost, gives=lambda atoms, Q, n_bits: sizes(atoms, n_bits))
def settled(atoms: Atoms, Q: NDArray[np.float32], n_bits: int) -> Spectrum:
    """The eigenpairs within the span of Q."""
    with progress.task("", 1) as advance:
        ritz, vectors = ritz_pairs(atoms, Q)
        advance(1)
    count, middle = min(n_bits, rank_of(ritz, atoms)), entropy_level(above_noise(completed(ritz, atoms), atoms))
    share = float(ritz[:count].sum()) / len(atoms)
    return Spectrum(ritz[:count], vectors[:, :count].astype(np.float32, copy=False), (count,), share, middle, None)


def _power(atoms: Atoms, Q: NDArray[np.float32]) -> NDArray[np.float32]:
    """D Dᵀ Q, column by column in memory, as LAPACK wants it; without a second array of that size."""
    Y = np.zeros(Q.shape, np.float32, order="F")
    for slab in slabs(atoms):
        A = slab @ Q
        for start in range(0, Q.shape[1], STRIP):
            Y[:, start : start + STRIP] += slab.T @ A[:, start : start + STRIP]
    return Y


def ritz_pairs(atoms: Atoms, U: NDArray[Any]) -> tuple[Vector, NDArray[Any]]:
    """Eigenpairs of D Dᵀ within the span of orthonormal U, largest first: those of A Aᵀ for A = Uᵀ D, mapped back."""
    narrow = U.astype(np.float32, copy=False)
    AAt = np.zeros((U.shape[1], U.shape[1]))
    for slab in slabs(atoms):
        A = (slab @ narrow).astype(np.float64)
        AAt += A.T @ A
    eigenvalues, vectors = linalg.eigh(AAt)
    return np.maximum(eigenvalues[::-1], 0), U @ vectors[:, ::-1].astype(U.dtype)


def gram(rows: Atoms) -> NDArray[np.float64]:
    """rowsᵀ rows in double precision."""
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for slab in slabs(rows):
        wide = slab.astype(np.float64)
        total += wide.T @ wide
    return total


def slabs(rows: Atoms) -> Iterator[Atoms]:
    """Consecutive rows, SLAB_ATOMS at a time."""
    return (rows[start : start + SLAB_ATOMS] for start in range(0, len(rows), SLAB_ATOMS))


def rank_of(eigenvalues: Vector, atoms: Atoms) -> int:
    """The number of eigenvalues above the rounding error of the atoms."""
    tolerance = eigenvalues[0] * (max(atoms.shape) * np.finfo(np.float32).eps) ** 2
    return int((eigenvalues > tolerance).sum())


def completed(leading: Vector, atoms: Atoms) -> Vector:
    """The spectrum, estimated from its leading part. Its sum is the number of atoms; the rest is spread evenly."""
    missing = min(atoms.shape) - len(leading)
    rest = max(0.0, len(atoms) - float(leading.sum()))
    return np.concatenate([leading, np.full(missing, rest / max(1, missing))])


def above_noise(eigenvalues: Vector, atoms: Atoms) -> Vector:
    """The eigenvalues above the noise, for a dictionary with fewer atoms than dimensions.

    Few atoms in many dimensions are nearly orthogonal, so most of their spectrum is noise. The eigenvalues of k random
    directions in d dimensions are at most (1 + √(k/d))² (Marchenko and Pastur 1967); only larger ones count.
    """
    k, d = atoms.shape
    told = eigenvalues[eigenvalues > (1 + math.sqrt(k / d)) ** 2]
    return told if k < d and len(told) else eigenvalues


def entropy_level(eigenvalues: Vector) -> float:
    """exp(Σ λ log λ / Σ λ): the geometric mean of the spectrum, each eigenvalue weighted by itself.

    It is the trace over the effective rank (Roy and Vetterli 2007), so the eigenvalue of a spectrum that has the same
    trace and entropy and is flat.
    """
    positive = eigenvalues[eigenvalues > 0]
    return float(np.exp(np.average(np.log(positive), weights=positive)))
