"""The choice of λ* without labels."""

import numpy as np
import pytest
from numpy.typing import NDArray

from isch.hashing import lambda_star, spectrum
from isch.hashing.spectrum import Spectrum

EIGENVALUES = np.geomspace(60, 0.2, 24)


def pairs(eigenvalues: NDArray[np.float64] = EIGENVALUES) -> Spectrum:
    r = len(eigenvalues)
    return Spectrum(eigenvalues, np.eye(r, dtype=np.float32), (r,), 1.0, 7.0, r)


def grouped(signal: NDArray[np.float64], n: int = 1500, n_groups: int = 12, seed: int = 0) -> NDArray[np.float32]:
    """Rows whose groups differ by ``signal`` along each direction, with unit noise in all."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((n_groups, len(signal))) * signal
    rows = centres[rng.integers(n_groups, size=n)] + rng.standard_normal((n, len(signal)))
    return np.asarray(rows - rows.mean(axis=0), np.float32)


def test_levelling_makes_the_weights_alike() -> None:
    variances = EIGENVALUES**0.7
    star = lambda_star.levelling(EIGENVALUES, variances)

    def unevenness(value: float) -> float:
        logs = np.log(spectrum.weights(EIGENVALUES, value))
        return float(np.average((logs - np.average(logs, weights=variances)) ** 2, weights=variances))

    assert unevenness(star) < min(unevenness(star * 8), unevenness(star / 8))
    assert lambda_star.levelling(np.full(5, 3.0), np.ones(5)) == pytest.approx(3)


def test_separation_is_that_of_simulated_distances() -> None:
    """Without rounding to bits: the deflection of squared distances of near and of strange pairs."""
    rng = np.random.default_rng(0)
    variances, shared = np.array([3.0, 1.0, 0.5]), np.array([2.0, 0.1, 0.4])
    eigenvalues, star, n = np.array([9.0, 3.0, 1.0]), 2.5, 400_000
    f = spectrum.weights(eigenvalues, star)
    strangers = rng.standard_normal((n, 3)) * np.sqrt(2 * variances) * f
    near = rng.standard_normal((n, 3)) * np.sqrt(2 * (variances - shared)) * f
    strange, close = (strangers**2).sum(axis=1), (near**2).sum(axis=1)
    want = (strange.mean() - close.mean()) / np.sqrt((strange.var() + close.var()) / 2)
    got = lambda_star.separation(eigenvalues, variances, shared, 10**9, star)
    assert got == pytest.approx(want, rel=0.01)
    assert lambda_star.separation(eigenvalues, variances, shared, 8, star) < got


def test_separating_follows_where_the_signal_is() -> None:
    variances = np.ones(24)
    in_strong = lambda_star.separating(EIGENVALUES, variances, np.where(np.arange(24) < 4, 0.8, 0), 64)
    in_all = lambda_star.separating(EIGENVALUES, variances, np.full(24, 0.8), 64)
    in_weak = lambda_star.separating(EIGENVALUES, variances, np.where(np.arange(24) > 12, 0.8, 0), 64)
    assert in_strong > in_all > in_weak


@pytest.mark.parametrize("n_bits", [12, 24, 60])
def test_choice_follows_where_the_signal_is(n_bits: int) -> None:
    few, many = (
        lambda_star.choose(grouped(np.where(np.arange(24) < k, 2.5, 0)), pairs(), n_bits, np.random.default_rng(1))
        for k in (4, 24)
    )
    assert few > many


def test_choice_is_repeated_and_hardly_depends_on_rounding_or_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    Z = grouped(np.geomspace(3, 0.1, 24))
    found = []
    for threads, noise in (("1", 0), ("1", 0), ("3", 0), ("1", 1e-6)):
        monkeypatch.setenv("ISCH_NUM_THREADS", threads)
        shaken = Z * (1 + np.float32(noise) * np.random.default_rng(2).standard_normal(Z.shape, np.float32))
        found.append(lambda_star.choose(shaken, pairs(), 32, np.random.default_rng(1)))
    assert len(set(found)) == 1


def test_few_or_equal_rows_get_the_typical_eigenvalue() -> None:
    few = grouped(np.ones(24), n=99)
    assert lambda_star.choose(few, pairs(), 16, np.random.default_rng(0)) == 7
    assert lambda_star.choose(np.ones((200, 24), np.float32), pairs(), 16, np.random.default_rng(0)) == 7


@pytest.mark.parametrize("r", [1, 2, 3])
def test_one_direction_or_two(r: int) -> None:
    Z = grouped(np.ones(r), n=200)
    star = lambda_star.choose(Z, pairs(EIGENVALUES[:r]), 16, np.random.default_rng(0))
    assert 0 < star < np.inf


def test_found_counts_ties_in_expectation() -> None:
    codes = np.ones((6, 4), np.float32)
    codes[3:, 0] = -1
    wanted = np.array([[1, 3]])
    assert lambda_star.found(codes, np.array([0]), wanted) == pytest.approx((1 + 2 / 3) / 2)
    codes[3:] = 1
    assert lambda_star.found(codes, np.array([0]), wanted) == pytest.approx(4 / 5)


def test_peak_lies_on_the_parabola() -> None:
    positions = np.exp2(np.arange(1.0, 8.0))
    scores = -((np.log2(positions) - 4.3) ** 2)
    assert lambda_star.peak(positions, scores) == pytest.approx(2**4.3)
    assert lambda_star.peak(positions, np.arange(7.0)) == 128
    assert lambda_star.peak(positions, np.zeros(7)) == 2
