"""Step 3 of ISCH: the rotation R with the smallest quantisation error Σ‖b_i − Rᵀ z_i‖² (the paper's equation
"rotation").

Iterative quantisation: for a given R, the best codes are the signs of Z R; for given codes B, the best R is the
orthogonal Procrustes solution. The error never increases. Codes are ±1 here; with {0, 1} and zero-mean Z the update
of R is the same (docs/methods.md).

With more bits than coordinates, R (r × m, r < m) is a tight frame: its rows are orthonormal, R Rᵀ = I. It keeps
lengths, ‖z R‖ = ‖z‖, so the same two steps reduce the same error.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch import progress
from isch.compute import Arrays, Sum, run, single_threaded_blas
from isch.fitting import SVD_FLOPS, Kept, Sized, Stage, step
from isch.lazy import linalg

Matrix = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Rotation:
    """R (r, m) with orthonormal rows, and the mean quantisation error per bit before each update of R."""

    matrix: NDArray[np.float64]
    errors: list[float]
    thresholds: NDArray[np.float64] | None = None  # of the bits, where they are not signs (thresholds.py)

    def arrays(self) -> Arrays:
        """Return all of it as arrays; ``of`` makes it from them again."""
        limits = () if self.thresholds is None else (self.thresholds,)
        return self.matrix, np.array(self.errors, np.float64), *limits

    @classmethod
    def of(
        cls, matrix: NDArray[np.float64], errors: NDArray[np.float64], thresholds: NDArray[np.float64] | None = None
    ) -> "Rotation":
        """Make one from what ``arrays`` gave."""
        return cls(matrix, errors.tolist(), thresholds)


def cost(Z: Matrix, n_iter: int, n_bits: int | None = None, rank: int | None = None) -> Stage:
    """Two products with n rows and a decomposition in each iteration."""
    n_rows = len(Z)
    rank = rank or Z.shape[1]
    n_bits = n_bits or rank
    solving = SVD_FLOPS * min(rank, n_bits) ** 2 * max(rank, n_bits)
    held = 4 * n_rows * rank + 8 * 6 * rank * n_bits
    return Stage(products=4.0 * n_rows * rank * n_bits * n_iter, solving=n_iter * solving, memory=held)


def sizes(Z: Matrix, n_iter: int, n_bits: int | None = None) -> Rotation:
    """R (r, m) of a dry run."""
    shape = (Z.shape[1], n_bits or Z.shape[1])
    return Rotation(Sized(shape, np.float64), [])  # type: ignore[arg-type]


KEPT = Kept(Rotation.arrays, Rotation.of)


@step("rotation", cost=cost, gives=sizes, kept=KEPT, random=True)
def learn(
    Z: Matrix,
    n_iter: int,
    rng: np.random.Generator,
    initial: NDArray[np.float64] | None = None,
    tolerance: float = 1e-6,
    n_bits: int | None = None,
) -> Rotation:
    """Alternate between codes and rotation ``n_iter`` times, or until the error falls by less than ``tolerance``.

    ``n_bits`` is by default the number of columns of Z, and may be larger.
    """
    R = random(Z.shape[1], rng, n_bits) if initial is None else initial
    size = len(Z) * R.shape[1]
    errors: list[float] = []
    squares = float(np.einsum("ij,ij->", Z, Z, dtype=np.float64))
    total = Z.sum(axis=0, dtype=np.float64)
    # these matrices are small: threads would cost more than they save, and round differently
    with single_threaded_blas(), progress.task("", n_iter, "iterations") as advance:
        for _ in range(n_iter):
            BtZ = correlate(Z, R, total)
            errors.append((squares + size - 2 * float(np.sum(BtZ.T * R))) / size)
            R = procrustes(BtZ)
            advance(1)
            if len(errors) > 1 and errors[-2] - errors[-1] < tolerance * errors[-2]:
                break
    return Rotation(R, errors)


@step(gives=lambda W, R: Sized((len(W), R.shape[1])))
def turned(W: Matrix, R: Matrix) -> NDArray[np.float32]:
    """Return W R in single precision."""
    return np.asarray((W @ R).astype(np.float32))


def correlate(Z: Matrix, R: NDArray[np.float64], total: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bᵀ Z for B = sign(Z R) = 2·[Z R ≥ 0] − 1; ``total`` is the sum of the rows of Z."""
    (positive,) = run(Positive(R.astype(Z.dtype)), Z)
    return np.asarray(2 * positive - total)


@dataclass(frozen=True)
class Positive(Sum):
    """[Z R ≥ 0]ᵀ Z."""

    R: Matrix

    def zero(self) -> Arrays:
        return (np.zeros(self.R.shape[::-1]),)

    def block(self, block: Any, _: int) -> Arrays:
        return (np.asarray((block @ self.R >= 0).astype(block.dtype).T @ block),)


def procrustes(BtZ: NDArray[np.float64]) -> NDArray[np.float64]:
    """The R with orthonormal columns (or rows, if it is wide) that maximises tr(Bᵀ Z R).

    If BᵀZ = P S Qᵀ is the thin singular value decomposition, R is Q Pᵀ.
    """
    P, _, Qt = linalg.svd(BtZ, full_matrices=False)
    return np.asarray((P @ Qt).T)


@step(
    gives=lambda rows, columns=None: Sized((rows, columns or rows), np.float64),
    random=True,
)
def random(rows: int, rng: np.random.Generator, columns: int | None = None) -> NDArray[np.float64]:
    """A matrix from the Haar measure with orthonormal columns, or rows if it is wide; square by default."""
    columns = columns or rows
    Q, triangle = linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))), mode="economic")
    Q *= np.where(np.diag(triangle) < 0, -1.0, 1.0)
    return np.asarray(Q.T if columns > rows else Q)
