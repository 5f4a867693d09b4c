import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes, svd

from isch.hashing import rotation

Matrix = NDArray[np.float64]


def data(n: int = 800, c: int = 12) -> Matrix:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, c)) * np.linspace(3, 0.3, c)


def test_random_rotations_are_orthogonal_and_not_biased() -> None:
    R = rotation.random(8, np.random.default_rng(0))
    np.testing.assert_allclose(R.T @ R, np.eye(8), atol=1e-12)
    first = [rotation.random(3, np.random.default_rng(seed))[0, 0] for seed in range(2000)]
    assert abs(np.mean(first)) < 0.05
    assert abs(np.var(first) - 1 / 3) < 0.03


def test_procrustes_beats_any_other_rotation() -> None:
    Z = data()
    B = np.sign(np.random.default_rng(1).standard_normal(Z.shape))
    R = rotation.procrustes(B.T @ Z)
    np.testing.assert_allclose(R.T @ R, np.eye(12), atol=1e-12)
    best = ((B - Z @ R) ** 2).sum()
    singular = np.linalg.svd(B.T @ Z, compute_uv=False)
    np.testing.assert_allclose(best, (B**2).sum() + (Z**2).sum() - 2 * singular.sum())
    for seed in range(20):
        other = rotation.random(12, np.random.default_rng(seed))
        assert ((B - Z @ other) ** 2).sum() > best


def test_correlate_equals_plain_numpy() -> None:
    Z, R = data(3000), rotation.random(12, np.random.default_rng(2))
    B = np.where(Z @ R >= 0, 1.0, -1.0)
    np.testing.assert_allclose(rotation.correlate(Z, R, Z.sum(axis=0)), B.T @ Z)


def test_error_is_the_quantisation_error_and_never_rises() -> None:
    Z, start = data(), rotation.random(12, np.random.default_rng(3))
    learned = rotation.learn(Z, 60, np.random.default_rng(0), start, tolerance=0)
    np.testing.assert_allclose(learned.matrix.T @ learned.matrix, np.eye(12), atol=1e-12)
    assert (np.diff(learned.errors) <= 1e-12).all()
    V = Z @ start
    np.testing.assert_allclose(learned.errors[0], ((np.where(V >= 0, 1, -1) - V) ** 2).mean())


@settings(max_examples=25, deadline=None)
@given(r=st.integers(1, 8), more=st.integers(0, 20), n=st.integers(1, 60), seed=st.integers(0, 99))
def test_a_tight_frame_has_orthonormal_rows_and_the_error_never_rises(r: int, more: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, r)) * rng.uniform(0, 3, r)
    start = rotation.random(r, rng, r + more)
    learned = rotation.learn(Z, 10, rng, start, tolerance=0)
    for R in (start, learned.matrix):
        assert R.shape == (r, r + more)
        np.testing.assert_allclose(R @ R.T, np.eye(r), atol=1e-10)
    assert (np.diff(learned.errors) <= 1e-12).all()
    V = Z @ start
    np.testing.assert_allclose(learned.errors[0], ((np.where(V >= 0, 1, -1) - V) ** 2).mean())


def test_procrustes_beats_any_other_frame() -> None:
    Z = data()
    B = np.sign(np.random.default_rng(1).standard_normal((len(Z), 40)))
    best = ((B - Z @ rotation.procrustes(B.T @ Z)) ** 2).sum()
    for seed in range(20):
        assert ((B - Z @ rotation.random(12, np.random.default_rng(seed), 40)) ** 2).sum() > best


def test_stops_when_little_changes() -> None:
    learned = rotation.learn(data(), 1000, np.random.default_rng(0), tolerance=1e-4)
    assert len(learned.errors) < 1000


@pytest.mark.parametrize("iterations", [1, 2, 5, 20])
def test_equals_scipy_procrustes_iterate_by_iterate(iterations: int) -> None:
    Z, R = data(), rotation.random(12, np.random.default_rng(4))
    ours = rotation.learn(Z, iterations, np.random.default_rng(0), R, tolerance=0)
    for _ in range(iterations):
        R = orthogonal_procrustes(Z, np.where(Z @ R >= 0, 1.0, -1.0))[0]
    np.testing.assert_allclose(ours.matrix, R, atol=1e-10)


def faiss_itq(Z: Matrix, start: Matrix, iterations: int) -> Matrix:
    matrix = faiss.ITQMatrix(Z.shape[1])
    matrix.max_iter = iterations
    faiss.copy_array_to_vector(start.ravel(), matrix.init_rotation)
    matrix.train(Z.astype(np.float32))
    return np.asarray(faiss.vector_to_array(matrix.A).reshape(start.shape).T)


def test_faiss_differs_only_by_its_transposed_factor() -> None:
    """faiss.ITQMatrix updates R to (P Q)ᵀ where Procrustes is Q Pᵀ; with its update our iterate is its iterate."""
    Z, start = data().astype(np.float32).astype(np.float64), rotation.random(12, np.random.default_rng(4))
    P, _, Qt = svd(rotation.correlate(Z, start, Z.sum(axis=0)), lapack_driver="gesvd")
    np.testing.assert_allclose(faiss_itq(Z, start, 1), (P @ Qt.T).T, atol=1e-5)


def test_the_error_ends_below_that_of_faiss() -> None:
    Z, start = data(), rotation.random(12, np.random.default_rng(4))
    ours = rotation.learn(Z, 50, np.random.default_rng(0), start, tolerance=0).matrix

    def error(R: Matrix) -> float:
        return float(((np.where(Z @ R >= 0, 1, -1) - Z @ R) ** 2).mean())

    assert error(ours) < error(faiss_itq(Z, start, 50))


def test_zero_one_codes_give_the_same_update_for_centred_data() -> None:
    Z = data()
    Z -= Z.mean(axis=0)
    B = np.where(Z @ rotation.random(12, np.random.default_rng(5)) >= 0, 1.0, -1.0)
    np.testing.assert_allclose(rotation.procrustes(B.T @ Z), rotation.procrustes(((B + 1) / 2).T @ Z), atol=1e-10)
