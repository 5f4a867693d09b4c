"""SP: a sparse projection near an orthogonal one."""

from math import ceil

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

import isch
from isch import features
from isch.errors import IschWarning
from isch.fitting import Fit
from isch.hashing import pca, sp
from isch.hashing.sp import LANES, keep_largest, sparse_products


@pytest.fixture(scope="module")
def X() -> NDArray[np.float64]:
    rng = np.random.default_rng(0)
    return np.asarray(rng.normal(size=(500, 20)) @ rng.normal(size=(20, 20)) + 1)


def surrogate(X: NDArray[np.float64], n_bits: int, sparsity: float = 0.9, beta: float = 1.0) -> NDArray[np.float64]:
    opened = features.open(X)
    basis = pca.principal(Fit(np.random.default_rng(0)), opened, min(n_bits, 20))
    Z = pca.project(opened, basis)
    return sp.learn(Z, basis, np.random.default_rng(1).normal(size=(n_bits, 20)), sparsity, beta, 10)


@pytest.mark.parametrize(("n_bits", "sparsity"), [(8, 0.9), (8, 0.5), (20, 0.75), (50, 0.9)])
def test_share_of_zeros_is_as_asked(X: NDArray[np.float64], n_bits: int, sparsity: float) -> None:
    hasher = isch.SP(n_bits=n_bits, sparsity=sparsity).fit(X)
    assert isinstance(hasher.sparse_projection_, csr_array)
    assert hasher.sparse_projection_.shape == (n_bits, 20)
    assert hasher.sparse_projection_.nnz == ceil(round((1 - sparsity) * n_bits * 20, 6))


def test_the_largest_entries_are_kept_and_ties_too() -> None:
    matrix = np.array([[3.0, -1.0, 0.5], [-2.0, 2.0, 0.1]])
    np.testing.assert_array_equal(keep_largest(matrix, 4 / 6), [[3, 0, 0], [-2, 2, 0]])
    np.testing.assert_array_equal(keep_largest(matrix, 0.0), matrix)


@pytest.mark.parametrize("n_bits", [8, 20, 50])
def test_the_surrogate_is_orthogonal(X: NDArray[np.float64], n_bits: int) -> None:
    T = surrogate(X, n_bits)
    product = T @ T.T if n_bits <= 20 else T.T @ T
    np.testing.assert_allclose(product, np.eye(len(product)), atol=1e-8)


def test_rounds_are_those_of_the_plain_algorithm_with_full_rank(X: NDArray[np.float64]) -> None:
    """m ≥ d: no principal directions, R and B kept as they are in the paper's alternation."""
    centred, R = X - X.mean(axis=0), np.random.default_rng(1).normal(size=(50, 20))
    B = np.where(centred @ R.T >= 0, 1.0, -1.0)
    for _ in range(10):
        U, _, Vt = np.linalg.svd(centred.T @ (B + centred @ R.T) / 2, full_matrices=False)
        T = Vt.T @ U.T
        R = keep_largest(T, 0.9)
        B = np.where(centred @ T.T >= 0, 1.0, -1.0)
    np.testing.assert_allclose(surrogate(X, 50), T, atol=1e-3)


def test_without_zeros_it_quantises_like_itq(X: NDArray[np.float64]) -> None:
    def error(projected: NDArray[np.float32]) -> float:
        return float(((np.where(projected >= 0, 1, -1) - projected) ** 2).mean())

    dense, peer = isch.SP(n_bits=8, sparsity=0.0, beta=0.0).fit(X), isch.ITQ(n_bits=8).fit(X)
    R = dense.sparse_projection_.toarray()
    np.testing.assert_allclose(R @ R.T, np.eye(8), atol=1e-5)
    assert error(dense.project(X)) == pytest.approx(error(peer.project(X)), rel=0.05)


def test_sparse_products_equal_dense_ones(X: NDArray[np.float64]) -> None:
    hasher = isch.SP(n_bits=30).fit(X)
    want = (X - hasher.mean_) @ hasher.sparse_projection_.toarray().T
    np.testing.assert_allclose(hasher.project(X), want, atol=1e-4)
    np.testing.assert_allclose(hasher.project(csr_array(X)), want, atol=1e-3)


@pytest.mark.parametrize("columns", [1, 5, 2047, 2048, 2049, 5000])
def test_compiled_products_equal_those_of_scipy(columns: int) -> None:
    rng = np.random.default_rng(2)
    matrix = csr_array(np.where(rng.random((7, columns)) < 0.3, rng.normal(size=(7, columns)), 0).astype(np.float32))
    lanes, out = rng.normal(size=(columns, LANES)).astype(np.float32), np.full((7, LANES), np.nan, np.float32)
    sparse_products(matrix.data, matrix.indices, matrix.indptr, lanes, out)
    np.testing.assert_allclose(out, matrix @ lanes, rtol=1e-4, atol=1e-4)


def test_empty_rows_are_warned_of() -> None:
    X = np.random.default_rng(3).normal(size=(300, 16)) * np.r_[[100.0, 60.0], np.full(14, 1e-3)]
    with pytest.warns(IschWarning, match=r"\d+ of 16 rows of the projection are all zero"):
        isch.SP(n_bits=16, sparsity=0.99).fit(X)
