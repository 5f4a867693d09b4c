"""The choice of λ* without labels."""

from dataclasses import replace

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
    in_strong = lambda_star.separating(pairs(), variances, np.where(np.arange(24) < 4, 0.8, 0), 64)
    in_all = lambda_star.separating(pairs(), variances, np.full(24, 0.8), 64)
    in_weak = lambda_star.separating(pairs(), variances, np.where(np.arange(24) > 12, 0.8, 0), 64)
    assert in_strong > in_all > in_weak


@pytest.mark.parametrize("n_bits", [12, 24, 60])
def test_choice_follows_where_the_signal_is(n_bits: int) -> None:
    few, many = (lambda_star.choose(grouped(np.where(np.arange(24) < k, 2.5, 0)), pairs(), n_bits) for k in (4, 24))
    assert few > many


def test_choice_is_repeated_and_hardly_depends_on_rounding_or_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    Z = grouped(np.geomspace(3, 0.1, 24))
    found = []
    for threads, noise in (("1", 0), ("1", 0), ("3", 0), ("1", 1e-6)):
        monkeypatch.setenv("ISCH_NUM_THREADS", threads)
        shaken = Z * (1 + np.float32(noise) * np.random.default_rng(2).standard_normal(Z.shape, np.float32))
        found.append(lambda_star.choose(shaken, pairs(), 32))
    assert len(set(found)) == 1


def test_few_or_equal_rows_get_the_level_of_the_spectrum() -> None:
    few = grouped(np.ones(24), n=99)
    assert lambda_star.choose(few, pairs(), 16) == 7
    assert lambda_star.choose(np.ones((200, 24), np.float32), pairs(), 16) == 7


@pytest.mark.parametrize("r", [1, 2, 3])
def test_one_direction_or_two(r: int) -> None:
    Z = grouped(np.ones(r), n=200)
    star = lambda_star.choose(Z, pairs(EIGENVALUES[:r]), 16)
    assert 0 < star < np.inf


def test_choice_does_not_depend_on_the_size_of_the_dictionary() -> None:
    Z, more = grouped(np.geomspace(3, 0.1, 24)), replace(pairs(EIGENVALUES * 16), level=7.0 * 16)
    assert lambda_star.choose(Z, more, 32) == 16 * lambda_star.choose(Z, pairs(), 32)


def test_long_walks_keep_what_large_groups_share() -> None:
    """Small groups differ along all directions, large ones made of them along the first four only."""
    rng, strong = np.random.default_rng(3), np.arange(24) < 4
    small = 0.8 * rng.standard_normal((40, 24))
    small += 4 * np.eye(4, 24)[np.repeat(np.arange(4), 10)]
    Z = np.asarray(small[rng.integers(40, size=2000)] + rng.standard_normal((2000, 24)), np.float32)
    Z -= Z.mean(axis=0)
    short, long = lambda_star._shared(Z, Z.var(axis=0, dtype=np.float64), 24)
    assert long[strong].sum() / short[strong].sum() > 1.3 * long[~strong].sum() / short[~strong].sum()
