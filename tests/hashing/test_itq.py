"""ITQ: PCA and the rotation of least quantisation error."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.decomposition import PCA

import isch
from isch import codes
from isch.hashing import rotation


@pytest.fixture(scope="module")
def X() -> NDArray[np.float64]:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(30, 24)) * 3
    return np.asarray(centres[rng.integers(30, size=1500)] + rng.normal(size=(1500, 24)))


def plain_itq(V: NDArray[np.float64], R: NDArray[np.float64], n_iter: int) -> NDArray[np.float64]:
    for _ in range(n_iter):
        P, _, Qt = np.linalg.svd(np.where(V @ R >= 0, 1.0, -1.0).T @ V)
        R = Qt.T @ P.T
    return R


@pytest.mark.parametrize("n_iter", [1, 2, 5, 20])
def test_each_iterate_is_that_of_the_plain_algorithm(X: NDArray[np.float64], n_iter: int) -> None:
    V = PCA(12).fit_transform(X)
    start = rotation.random(12, np.random.default_rng(1))
    got = rotation.learn(V, n_iter, np.random.default_rng(2), initial=start, tolerance=-np.inf).matrix
    np.testing.assert_allclose(got, plain_itq(V, start, n_iter), atol=1e-8)


def test_error_never_increases_and_ends_below_that_of_a_random_rotation(X: NDArray[np.float64]) -> None:
    hasher = isch.ITQ(n_bits=12).fit(X)
    assert len(hasher.errors_) > 3
    assert (np.diff(hasher.errors_) <= 1e-7).all()

    def error(projected: NDArray[np.float32]) -> float:
        return float(((np.where(projected >= 0, 1, -1) - projected) ** 2).mean())

    assert error(hasher.project(X)) < error(isch.PCARR(n_bits=12).fit(X).project(X))
    assert error(hasher.project(X)) <= hasher.errors_[-1] * (1 + 1e-4)


def test_the_projection_is_the_top_principal_subspace_turned(X: NDArray[np.float64]) -> None:
    hasher = isch.ITQ(n_bits=12).fit(X)
    peer = PCA(12).fit(X)
    np.testing.assert_allclose(np.linalg.svd(peer.components_ @ hasher.projection_)[1], 1, atol=1e-4)


def test_codes_longer_than_the_dimension_keep_angles_better(X: NDArray[np.float64]) -> None:
    centred = X - X.mean(axis=0)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    angles = np.arccos(np.clip(unit[:200] @ unit[200:].T, -1, 1)).ravel()

    def faithfulness(n_bits: int) -> float:
        hasher = isch.ITQ(n_bits=n_bits).fit(X)
        assert (np.diff(hasher.errors_) <= 1e-7).all()
        bits = np.where(hasher.project(X) >= 0, 1.0, -1.0)
        return float(np.corrcoef((-bits[:200] @ bits[200:].T).ravel(), angles)[0, 1])

    found = [faithfulness(n_bits) for n_bits in (24, 72, 216)]
    assert (np.diff(found) > 0.01).all()


def test_the_rotation_may_be_learned_from_some_rows(X: NDArray[np.float64]) -> None:
    hasher = isch.ITQ(n_bits=12, max_samples=300).fit(X)
    np.testing.assert_allclose(np.linalg.svd(PCA(12).fit(X).components_ @ hasher.projection_)[1], 1, atol=1e-4)
    assert codes.unpack(hasher.transform(X), 12).mean(axis=0) == pytest.approx(0.5, abs=0.3)
