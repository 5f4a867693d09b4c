"""Sparse projections (Xia, He, Kohli, Sun 2015, *Sparse projections for high-dimensional binary codes*).

Like ITQ, but the projection is a sparse matrix R that stays close to an orthogonal matrix T:
min ‖B − X Tᵀ‖² + β‖X Tᵀ − X Rᵀ‖² with T orthogonal and a fixed share of zeros in R.
"""

import math
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from isch import fitting, progress
from isch.errors import warn
from isch.features import Block, Features
from isch.fitting import SVD_FLOPS, Run, Size, Sized, Stage, step
from isch.hashing import pca
from isch.hashing.base import Hasher
from isch.hashing.projecting import Projector, centred
from isch.hashing.rotation import correlate, procrustes
from isch.learned import Array, Expected
from isch.parameters import BITS, POSITIVE, Interval

LANES = 64  # rows that are multiplied together
COLUMNS = 2048  # of the projection handled at a time, so that their values of these rows stay in a core's cache


class SP(Hasher):
    """Signs of a learned sparse projection.

    Parameters
    ----------
    n_bits : int
        Bits per code; may exceed the number of features.
    sparsity : float
        Share of zeros in the projection.
    beta : float
        β, the weight of the sparse matrix in the objective.
    n_iter : int
        Rounds of learning.
    max_samples : int
        Rows to learn from, drawn at random when there are more. The principal directions use all rows.
    random_state : int, RandomState or None
        Seed of the random choices.
    """

    name = "sp"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_bits": [BITS],
        "sparsity": [Interval(Real, 0, 1, closed="left")],
        "beta": [Interval(Real, 0, None, closed="left")],
        "n_iter": [POSITIVE],
        "max_samples": [POSITIVE],
        "random_state": ["random_state"],
    }
    _learns: ClassVar[Expected] = {
        "mean_": Array("float64", "d"),
        "sparse_projection_": Array("float32", "m", "d", sparse=True),
    }
    mean_: NDArray[np.float64]
    sparse_projection_: csr_array  # R

    def __init__(
        self,
        n_bits: int = 128,
        sparsity: float = 0.9,
        beta: float = 1.0,
        n_iter: int = 50,
        max_samples: int = 50_000,
        random_state: Any = 0,
    ) -> None:
        self.n_bits = n_bits
        self.sparsity = sparsity
        self.beta = beta
        self.n_iter = n_iter
        self.max_samples = max_samples
        self.random_state = random_state

    def _encoding_work(self, size: Size) -> Stage:
        stage = super()._encoding_work(size)
        return replace(stage, products=stage.products * (1 - self.sparsity))

    def _fit(self, features: Features, run: Run) -> dict[str, Any]:
        d = features.shape[1]
        basis = pca.principal(run, features, min(self.n_bits, d))
        sample = run(fitting.draw, features, self.max_samples)
        start = run(random_projection, self.n_bits, d)
        Z = run(pca.project, sample, basis)
        surrogate = run(learn, Z, basis, start, self.sparsity, self.beta, self.n_iter)
        return {"mean_": basis.mean, "sparse_projection_": run(sparse_matrix, surrogate, self.sparsity)}

    def _projector(self) -> Projector:
        return SparseProducts(self.mean_, self.sparse_projection_)


@dataclass(frozen=True)
class SparseProducts:
    """R (x − μ) of each row, for a sparse R (m, d)."""

    mean: NDArray[np.float64]
    R: csr_array

    def __call__(self, block: Block) -> NDArray[np.floating[Any]]:
        R = self.R
        if issparse(block):
            offset = (R @ self.mean).astype(np.float32)
            return np.asarray((block.astype(np.float32) @ R.T).toarray() - offset)
        rows = centred(block, self.mean)
        out = np.empty((len(rows), R.shape[0]), np.float32)
        lanes, products = np.zeros((rows.shape[1], LANES), np.float32), np.empty((R.shape[0], LANES), np.float32)
        for start in range(0, len(rows), LANES):
            part = rows[start : start + LANES]
            lanes[:, : len(part)] = part.T
            sparse_products(R.data, R.indices, R.indptr, lanes, products)
            out[start : start + LANES] = products[:, : len(part)].T
        return out


@step(gives=lambda m, d: Sized((m, d), np.float64), random=True)
def random_projection(m: int, d: int, *, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw the first R."""
    return rng.standard_normal((m, d))


def _cost(
    Z: NDArray[np.float32],
    basis: pca.Principal,
    sparse: NDArray[np.float64],
    sparsity: float,
    beta: float,
    n_iter: int,
) -> Stage:
    d, count = basis.directions.shape
    m = len(sparse)
    return Stage(
        products=n_iter * (4.0 * len(Z) * count * m + 8.0 * d * count * m),
        solving=n_iter * SVD_FLOPS * count**2 * m,
        memory=8 * d * (5 * m + 2 * count),
    )


@step("sparse projection", cost=_cost, gives=lambda Z, basis, sparse, *_: sparse)
def learn(
    Z: NDArray[np.float32],
    basis: pca.Principal,
    sparse: NDArray[np.float64],
    sparsity: float,
    beta: float,
    n_iter: int,
) -> NDArray[np.float64]:
    """T, from the data Z = X P in the coordinates of the principal directions P.

    P has full rank (m ≥ d) or holds the top m directions (m < d). The Procrustes step then needs only PᵀXᵀY, and
    PᵀXᵀX Rᵀ = n Λ Pᵀ Rᵀ, so X itself is not needed again.
    """
    P = basis.directions
    scale = len(Z) * basis.variances[:, None]
    total = Z.sum(axis=0, dtype=np.float64)
    turned = P.T @ sparse.T  # the first codes are signs of the part of X Rᵀ in the span of P
    with progress.task("", n_iter, "iterations") as advance:
        for _ in range(n_iter):
            ZtY = (correlate(Z, turned, total).T + beta * scale * (P.T @ sparse.T)) / (1 + beta)
            turned = procrustes(ZtY).T
            surrogate = turned.T @ P.T
            sparse = keep_largest(surrogate, sparsity)
            advance(1)
    return surrogate


def _values(matrix: NDArray[np.float64], sparsity: float) -> Sized:
    """The numbers and their places that are kept of a matrix."""
    m, d = matrix.shape
    return Sized((math.ceil((1 - sparsity) * m * d), 2))


@step(gives=_values)
def sparse_matrix(matrix: NDArray[np.float64], sparsity: float) -> csr_array:
    """Return the largest entries of T as a sparse matrix; warns of rows without any."""
    found = csr_array(keep_largest(matrix, sparsity).astype(np.float32))
    empty = int((np.diff(found.indptr) == 0).sum())
    if empty:
        warn(
            f"SP: {empty} of {len(matrix)} rows of the projection are all zero, so their bits are constant; use a "
            f"sparsity below {sparsity}"
        )
    return found


def keep_largest(matrix: NDArray[np.float64], sparsity: float) -> NDArray[np.float64]:
    """The matrix with all but its ⌈(1 − s) m d⌉ entries of largest modulus set to zero; ties at the cut are kept."""
    keep = int(np.ceil((1 - sparsity) * matrix.size - 1e-9))
    if keep >= matrix.size:
        return matrix
    modulus = np.abs(matrix)
    cut = np.partition(modulus, matrix.size - keep, axis=None)[matrix.size - keep]
    return np.where(modulus >= cut, matrix, 0.0)


@njit(cache=True, nogil=True, fastmath=True)  # type: ignore[untyped-decorator]
def sparse_products(data: Any, indices: Any, indptr: Any, lanes: Any, out: Any) -> None:
    """The product of a CSR matrix (m, d) with sorted indices and ``lanes`` (d, LANES), into ``out`` (m, LANES).

    scipy.sparse reads and writes a whole row of the result for each entry of the matrix. Here four entries at a time
    add to a sum that stays in registers and the first-level cache.
    """
    position = indptr[:-1].copy()
    total = np.zeros(LANES, np.float32)
    out[:] = 0
    for limit in range(COLUMNS, len(lanes) + COLUMNS, COLUMNS):
        for i in range(len(position)):
            p, end = position[i], position[i]
            while end < indptr[i + 1] and indices[end] < limit:
                end += 1
            for lane in range(LANES):
                total[lane] = out[i, lane]
            while p + 4 <= end:
                a, b, c, d = data[p], data[p + 1], data[p + 2], data[p + 3]
                j, k, l, m = indices[p], indices[p + 1], indices[p + 2], indices[p + 3]  # noqa: E741
                for lane in range(LANES):
                    total[lane] += a * lanes[j, lane] + b * lanes[k, lane] + c * lanes[l, lane] + d * lanes[m, lane]
                p += 4
            while p < end:
                for lane in range(LANES):
                    total[lane] += data[p] * lanes[indices[p], lane]
                p += 1
            for lane in range(LANES):
                out[i, lane] = total[lane]
            position[i] = end
