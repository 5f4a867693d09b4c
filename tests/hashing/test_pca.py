"""Principal directions of features that stream."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.decomposition import PCA

from isch import features
from isch.errors import InputError, IschWarning
from isch.features import Subset
from isch.fitting import Fit
from isch.hashing import pca


@pytest.fixture(scope="module")
def X() -> NDArray[np.float32]:
    rng = np.random.default_rng(0)
    return (rng.normal(size=(3000, 40)) @ rng.normal(size=(40, 40)) + 5).astype(np.float32)


def test_covariance_equals_numpys_and_takes_one_pass(X: NDArray[np.float32]) -> None:
    mean, covariance = pca.covariance(features.open(X))
    np.testing.assert_allclose(mean, X.mean(axis=0, dtype=np.float64), rtol=1e-6)
    np.testing.assert_allclose(covariance, np.cov(X.T.astype(np.float64), bias=True), rtol=1e-4, atol=1e-3)


def test_a_large_offset_costs_no_digits(X: NDArray[np.float32]) -> None:
    offset = X.astype(np.float64) + 1e7
    np.testing.assert_allclose(
        pca.covariance(features.open(offset))[1], np.cov(X.T.astype(np.float64), bias=True), rtol=1e-4, atol=1e-3
    )


def test_a_trend_through_the_rows_costs_no_digits() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(5000, 6)) + np.linspace(0, 300, 5000)[:, None]
    got = pca.covariance(features.open(X))[1]
    np.testing.assert_allclose(got, np.cov(X.T, bias=True), rtol=1e-5)


def test_directions_equal_scikit_learns(X: NDArray[np.float32]) -> None:
    basis = pca.principal(Fit(np.random.default_rng(0)), features.open(X), 12)
    peer = PCA(12, svd_solver="full").fit(X.astype(np.float64))
    np.testing.assert_allclose(np.abs(np.diag(peer.components_ @ basis.directions)), 1, atol=1e-5)
    np.testing.assert_allclose(basis.variances, peer.explained_variance_ * 2999 / 3000, rtol=1e-4)


@pytest.mark.parametrize("sparse", [False, True])
def test_randomised_directions_span_the_exact_ones(sparse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(2000, 60)) * 0.8 ** np.arange(60) @ np.linalg.qr(rng.normal(size=(60, 60)))[0] + 1
    exact = pca.principal(Fit(rng), features.open(X), 8)
    monkeypatch.setattr(pca, "EXACT_LIMIT", 10)
    got = pca.principal(Fit(rng), features.open(csr_array(X) if sparse else X), 8)
    np.testing.assert_allclose(got.directions.T @ got.directions, np.eye(8), atol=1e-6)
    np.testing.assert_allclose(got.variances, exact.variances, rtol=1e-4)
    np.testing.assert_allclose(np.linalg.svd(exact.directions.T @ got.directions)[1], 1, atol=1e-3)


def test_rows_are_projected(X: NDArray[np.float32]) -> None:
    basis = pca.principal(Fit(np.random.default_rng(0)), features.open(X), 5)
    rows = np.array([0, 7, 1024, 2999])
    want = (X[rows] - basis.mean) @ basis.directions
    np.testing.assert_allclose(pca.project(Subset(features.open(X), rows), basis), want, atol=1e-3)
    np.testing.assert_allclose(pca.project(Subset(features.open(csr_array(X)), rows), basis), want, atol=1e-3)


def test_limits_and_lost_rank_are_told() -> None:
    with pytest.raises(InputError, match="n_bits must be at most 5 .* got 6"):
        pca.check_limit("PCAH", 6, 5)
    flat = np.random.default_rng(3).normal(size=(100, 2)) @ np.ones((2, 5)) * [1, 2, 3, 4, 5]
    with pytest.warns(IschWarning, match="vary in only 1 directions"):
        pca.warn_rank("PCAH", pca.principal(Fit(np.random.default_rng(0)), features.open(flat), 3), 3)


def test_values_too_large_to_square_are_refused() -> None:
    rows = np.random.default_rng(0).standard_normal((50, 4)) * 1e30
    with pytest.raises(InputError, match="squares of values exceed the range"):
        pca.covariance(features.open(rows))
