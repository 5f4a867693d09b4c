"""CBE: a circulant projection, learned frequency by frequency."""

import numpy as np
import pytest
import scipy.optimize
from numpy.typing import NDArray
from scipy.linalg import circulant

import isch
from isch import codes, compute
from isch.hashing import cbe


def rows(n: int = 300, d: int = 24, seed: int = 0) -> NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) @ rng.normal(size=(d, d))).astype(np.float32)
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def time_domain(X: NDArray[np.float32], r: NDArray[np.float64], n_bits: int, regularisation: float) -> float:
    """‖B − X circ(r)ᵀ‖² + λ‖circ(r) circ(r)ᵀ − I‖² for the codes B of r itself."""
    matrix = circulant(r)
    projected = X @ matrix.T
    B = np.where(projected >= 0, 1.0, -1.0)
    B[:, n_bits:] = 0
    orthogonality = matrix @ matrix.T - np.eye(len(r))
    return float(((B - projected) ** 2).sum() + regularisation * (orthogonality**2).sum())


@pytest.mark.parametrize("d", [24, 25, 31])
def test_products_equal_those_of_the_explicit_matrix(d: int) -> None:
    X, r = rows(50, d), np.random.default_rng(1).normal(size=d)
    got = cbe.circulant_products(X, np.fft.rfft(r).astype(np.complex64), 17)
    np.testing.assert_allclose(got, (X @ circulant(r).T)[:, :17], atol=1e-5)


@pytest.mark.parametrize("learn", [False, True])
def test_codes_are_signs_of_the_circulant_matrix_times_flipped_rows(learn: bool) -> None:
    X = rows() * 7 + 2
    hasher = isch.CBE(n_bits=17, learn=learn).fit(X)
    want = ((X - hasher.mean_) * hasher.flips_) @ circulant(hasher.column_.astype(np.float64)).T
    np.testing.assert_allclose(hasher.project(X), want[:, :17], atol=1e-4)
    assert set(np.unique(hasher.flips_)) == {-1.0, 1.0}


@pytest.mark.parametrize("d", [24, 25])
@pytest.mark.parametrize("n_bits", [10, 24])
def test_objective_in_the_fourier_domain_equals_that_of_the_matrices(d: int, n_bits: int) -> None:
    X, r = rows(d=d), np.random.default_rng(2).normal(size=d)
    spectrum = np.fft.rfft(r)
    power = compute.run(cbe.Power(d), X)[0] / d
    correlation = compute.run(cbe.Correlation(spectrum.astype(np.complex64), d, n_bits), X)[0] / d
    got = len(X) * n_bits + cbe.objective(spectrum, power, correlation, 0.7, d)
    assert got == pytest.approx(time_domain(X, r, n_bits, 0.7), rel=1e-5)


def test_objective_never_increases() -> None:
    for n_bits in (10, 24):
        _, errors = cbe.learn(rows(), np.random.default_rng(3).normal(size=24), n_bits, 1.0, 50)
        assert len(errors) > 2
        assert (np.diff(errors) <= 1e-6 * np.abs(errors[:-1])).all()


def test_solution_for_given_codes_is_not_beaten_by_bfgs() -> None:
    rng = np.random.default_rng(4)
    X = rows(60, 8)
    start = rng.normal(size=8)
    power = compute.run(cbe.Power(8), X)[0] / 8
    correlation = compute.run(cbe.Correlation(np.fft.rfft(start).astype(np.complex64), 8, 8), X)[0] / 8

    def value(r: NDArray[np.float64]) -> float:
        return cbe.objective(np.fft.rfft(r), power, correlation, 1.0, 8)

    exact = value(np.fft.irfft(cbe.best_spectrum(power, correlation, 1.0), 8))
    found = min(scipy.optimize.minimize(value, rng.normal(size=8)).fun for _ in range(10))
    assert exact <= found + 1e-6 * abs(found)
    assert exact == pytest.approx(found, rel=1e-4)


@pytest.mark.parametrize("regularisation", [1e-3, 1.0, 1e6])
def test_modulus_is_the_largest_root_of_the_cubic(regularisation: float) -> None:
    rng = np.random.default_rng(5)
    power, correlation = rng.exponential(5, 200), rng.normal(size=200) + 1j * rng.normal(size=200)
    power[0], correlation[:2] = 1e-4 * regularisation, 0
    got = cbe.best_spectrum(power, correlation, regularisation)
    for rho, M, C in zip(np.abs(got), power, np.abs(correlation), strict=True):
        roots = np.roots([4 * regularisation, 0, 2 * M - 4 * regularisation, -2 * C])
        assert rho == pytest.approx(roots[np.abs(roots.imag) < 1e-6].real.max(), rel=1e-6, abs=1e-6)
    turned = np.abs(correlation) > 0
    np.testing.assert_allclose(np.angle(got[turned]), np.angle(correlation[turned]), atol=1e-9)


def test_strong_regularisation_makes_the_matrix_orthogonal() -> None:
    column, _ = cbe.learn(rows(), np.random.default_rng(6).normal(size=24), 24, 1e9, 20)
    np.testing.assert_allclose(circulant(column) @ circulant(column).T, np.eye(24), atol=1e-4)


def test_codes_do_not_depend_on_the_scale_of_the_column() -> None:
    X = rows()
    hasher = isch.CBE(n_bits=17).fit(X)
    before = hasher.transform(X)
    hasher.column_ = hasher.column_ * np.float32(16)
    np.testing.assert_array_equal(hasher.transform(X), before)


def test_learning_lowers_the_quantisation_error_of_the_random_column() -> None:
    X = rows(500)
    learned, random = isch.CBE(n_bits=24).fit(X), isch.CBE(n_bits=24, learn=False).fit(X)

    def similarity(hasher: isch.CBE) -> float:
        values = hasher.project(X)
        signs = codes.signs(hasher.transform(X), 24)
        return float((values * signs).sum() / (np.linalg.norm(values) * np.linalg.norm(signs)))

    assert similarity(learned) > similarity(random)
