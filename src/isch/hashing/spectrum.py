"""Step 2 of ISCH: the largest eigenvalues and eigenvectors of D Dᵀ (the paper's section "Approximate spectral
decomposition"), and the weights f(λ).

Dictionaries are ``atoms`` = Dᵀ (k, d). For a large d, neither D Dᵀ nor U_iᵀ D is ever in memory as a whole: sums run
over slabs of atoms.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, qr, svd

from isch import progress
from isch.errors import InputError

Atoms = NDArray[np.float32]
Vector = NDArray[np.float64]

SLAB_ATOMS = 4096
REDRAWS = 20
OVERSAMPLING = 0.1  # additional directions in a randomised solver, as a share of those wanted
POWER_ITERATIONS = 3


@dataclass(frozen=True)
class Spectrum:
    """Eigenpairs of D Dᵀ in blocks of equal size: block j is columns j ℓ to (j + 1) ℓ."""

    eigenvalues: Vector  # (m,)
    eigenvectors: NDArray[np.float32]  # (d, m)
    n_blocks: int
    share: float  # of the trace Σλ = k in one block (columns) or in all blocks together (otherwise)
    typical: float  # eigenvalue of the whole spectrum, computed or estimated
    rank: int | None  # of D, where the whole spectrum is known


def exact(atoms: Atoms, n_bits: int, n_blocks: int) -> Spectrum:
    """The whole spectrum, from the smaller of the two Gram matrices, in double precision."""
    k, d = atoms.shape
    eigenvalues, vectors = np.linalg.eigh(gram(atoms if d <= k else np.ascontiguousarray(atoms.T)))
    eigenvalues, vectors = np.maximum(eigenvalues[::-1], 0), vectors[:, ::-1]
    rank = checked_rank(eigenvalues, atoms, n_bits)
    vectors = vectors[:, :n_bits]
    if d > k:
        vectors = atoms.T @ (vectors / np.sqrt(eigenvalues[:n_bits]))
    order = deal(n_bits, n_blocks)
    kept, middle = eigenvalues[:n_bits], typical(telling(eigenvalues[:rank], atoms))
    return Spectrum(kept[order], vectors[:, order].astype(np.float32), n_blocks, float(kept.sum()) / k, middle, rank)


def columns(atoms: Atoms, n_bits: int, n_blocks: int, rng: np.random.Generator) -> Spectrum:
    """The paper's column sampling: m atoms in Q groups C_i, and the eigenpairs of D within the span of each group."""
    size = n_bits // n_blocks
    if n_bits > min(atoms.shape):
        raise InputError(f"n_bits must be at most the smaller side of the dictionary {atoms.shape}; got {n_bits}")
    values, vectors, middle = [], [], 0.0
    with progress.task("column sampling", n_blocks, "blocks") as advance:
        for U in sampled_bases(atoms, n_blocks, size, rng):
            ritz, W = ritz_pairs(atoms, U)
            values.append(ritz)
            vectors.append(W.astype(np.float32))
            middle += typical(telling(completed(ritz, atoms), atoms)) / n_blocks
            advance(1)
    eigenvalues = np.concatenate(values)
    share = float(eigenvalues.sum()) / (n_blocks * len(atoms))
    return Spectrum(eigenvalues, np.concatenate(vectors, axis=1), n_blocks, share, middle, None)


def sampled_bases(atoms: Atoms, n_blocks: int, size: int, rng: np.random.Generator) -> Iterator[NDArray[np.float64]]:
    """U_i of the thin SVD C_i = U_i S_i V_iᵀ of each group; a group without full rank is drawn again."""
    order = rng.permutation(len(atoms))
    groups, spare = order[: n_blocks * size].reshape(n_blocks, size), order[n_blocks * size :]
    tolerance = max(atoms.shape[1], size) * np.finfo(np.float32).eps
    for group in groups:
        for _ in range(REDRAWS):
            U, s, _ = svd(atoms[group].T.astype(np.float64), full_matrices=False)
            if s[-1] > tolerance * s[0]:
                yield U
                break
            pool = rng.permutation(np.concatenate([group, spare]))
            group, spare = pool[:size], pool[size:]
        else:
            raise InputError(
                f"no {size} linearly independent atoms found in {REDRAWS} draws from {len(atoms)}; "
                "use a smaller n_bits or block_size, or more varied data"
            )


def randomized(atoms: Atoms, n_bits: int, n_blocks: int, rng: np.random.Generator) -> Spectrum:
    """Block power iteration (Halko, Martinsson, Tropp 2011). Not in the paper; nearly exact and far cheaper."""
    size = min(n_bits + max(16, math.ceil(OVERSAMPLING * n_bits)), *atoms.shape)
    if n_bits > size:
        raise InputError(f"n_bits must be at most the smaller side of the dictionary {atoms.shape}; got {n_bits}")
    Q = rng.standard_normal((atoms.shape[1], size), dtype=np.float32)
    with progress.task("power iterations", POWER_ITERATIONS + 1, "iterations") as advance:
        for _ in range(POWER_ITERATIONS + 1):
            Y = np.zeros_like(Q)
            for slab in slabs(atoms):
                Y += slab.T @ (slab @ Q)
            Q = qr(Y, mode="economic", overwrite_a=True)[0]
            advance(1)
    ritz, vectors = ritz_pairs(atoms, Q)
    checked_rank(ritz, atoms, n_bits)
    order = deal(n_bits, n_blocks)
    share, middle = float(ritz[:n_bits].sum()) / len(atoms), typical(telling(completed(ritz, atoms), atoms))
    return Spectrum(ritz[order], vectors[:, order].astype(np.float32), n_blocks, share, middle, None)


def ritz_pairs(atoms: Atoms, U: NDArray[Any]) -> tuple[Vector, NDArray[Any]]:
    """Eigenpairs of D Dᵀ within the span of orthonormal U, largest first: those of A Aᵀ for A = Uᵀ D, mapped back."""
    narrow = U.astype(np.float32)
    AAt = np.zeros((U.shape[1], U.shape[1]))
    for slab in slabs(atoms):
        A = (slab @ narrow).astype(np.float64)
        AAt += A.T @ A
    eigenvalues, vectors = eigh(AAt)
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


def checked_rank(eigenvalues: Vector, atoms: Atoms, n_bits: int) -> int:
    """The number of eigenvalues above the rounding error of the atoms; refuses more bits than that."""
    tolerance = eigenvalues[0] * (max(atoms.shape) * np.finfo(np.float32).eps) ** 2
    rank = int((eigenvalues > tolerance).sum())
    if rank < n_bits:
        raise InputError(f"n_bits must be at most the rank of the dictionary, {rank}; got {n_bits}")
    return rank


def deal(n_bits: int, n_blocks: int) -> NDArray[np.intp]:
    """Deal eigenvectors to the blocks in turn, so that every block has strong and weak ones."""
    return np.arange(n_bits).reshape(-1, n_blocks).T.ravel()


def completed(leading: Vector, atoms: Atoms) -> Vector:
    """The spectrum, estimated from its leading part. Its sum is the number of atoms; the rest is spread evenly."""
    missing = min(atoms.shape) - len(leading)
    rest = max(0.0, len(atoms) - float(leading.sum()))
    return np.concatenate([leading, np.full(missing, rest / max(1, missing))])


def telling(eigenvalues: Vector, atoms: Atoms) -> Vector:
    """The eigenvalues above the noise, for a dictionary with fewer atoms than dimensions.

    Few atoms in many dimensions are nearly orthogonal, so most of their spectrum is noise. The eigenvalues of k random
    directions in d dimensions are at most (1 + √(k/d))² (Marchenko and Pastur 1967); only larger ones count.
    """
    k, d = atoms.shape
    told = eigenvalues[eigenvalues > (1 + math.sqrt(k / d)) ** 2]
    return told if k < d and len(told) else eigenvalues


def typical(eigenvalues: Vector) -> float:
    """(Σ √λ λ^¾ / Σ √λ)^(4/3): the power mean of the spectrum, each eigenvalue weighted by its singular value.

    Used as λ*, where f peaks. It lies well above the mean, which the many small eigenvalues pull down, and well below
    the largest. docs/methods.md shows how it was found and how well it works.
    """
    roots = np.sqrt(eigenvalues)
    return float((np.sum(roots * eigenvalues**0.75) / np.sum(roots)) ** (4 / 3))


def weights(eigenvalues: Vector, lambda_star: float) -> Vector:
    """f(λ) = √λ / (λ + λ*), the paper's equation (f) with λ* = σ²/(2τ²) = η/(2τ), up to a factor that signs ignore."""
    return np.asarray(np.sqrt(eigenvalues) / (eigenvalues + lambda_star))
