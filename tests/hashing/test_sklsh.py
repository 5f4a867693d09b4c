"""SKLSH: the rate of differing bits is a known function of the kernel."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

import isch
from isch import codes, features
from isch.errors import IschWarning
from isch.hashing.sklsh import neighbour_distances


def expected_rate(distance: NDArray[np.float64], gamma: float, terms: int = 2000) -> NDArray[np.float64]:
    """(8/π²) Σ_q (1 − K(q u)) / (4q² − 1), with the exact tail of the series."""
    q = np.arange(1, terms + 1)
    kernel = np.exp(-gamma * (q * distance[:, None]) ** 2 / 2)
    tail = 1 / (2 * (2 * terms + 1)) * (distance > 0)
    return np.asarray(8 / np.pi**2 * (((1 - kernel) / (4 * q**2 - 1)).sum(axis=1) + tail))


@pytest.mark.parametrize("gamma", [0.02, 0.5])
def test_bits_differ_at_the_rate_of_the_series(gamma: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 10))
    X[20:] = X[:20] + rng.normal(size=(20, 10)) * np.linspace(0.01, 3, 20)[:, None]
    bits = codes.unpack(isch.SKLSH(n_bits=40_000, gamma=gamma).fit(X).transform(X), 40_000)
    rates = (bits[:20] != bits[20:]).mean(axis=1)
    distance = np.linalg.norm(X[:20] - X[20:], axis=1)
    np.testing.assert_allclose(rates, expected_rate(distance, gamma), atol=5 * np.sqrt(0.25 / 40_000))


def test_far_apart_means_four_over_pi_squared() -> None:
    assert expected_rate(np.array([0.0, 1e3]), 1.0) == pytest.approx([0, 4 / np.pi**2], abs=1e-6)
    X = np.random.default_rng(1).normal(size=(2, 5)) * 1000
    bits = codes.unpack(isch.SKLSH(n_bits=40_000, gamma=1.0).fit(X).transform(X), 40_000)
    assert (bits[0] != bits[1]).mean() == pytest.approx(4 / np.pi**2, abs=0.013)


def test_neighbour_distances_equal_scikit_learns() -> None:
    X = np.random.default_rng(2).normal(size=(2500, 7)).astype(np.float32)
    mean = X.mean(axis=0, dtype=np.float64)
    got = neighbour_distances(features.open(X), mean, (X[:30] - mean).astype(np.float32), 50)
    want = NearestNeighbors(n_neighbors=51).fit(X).kneighbors(X[:30])[0][:, 50]
    np.testing.assert_allclose(got, want, rtol=1e-4)


def test_bandwidth_follows_the_scale_of_the_data() -> None:
    X = np.random.default_rng(3).normal(size=(500, 7))
    small, large = isch.SKLSH(n_bits=8).fit(X), isch.SKLSH(n_bits=8).fit(X * 255)
    assert small.gamma_ / large.gamma_ == pytest.approx(255**2, rel=1e-3)
    assert (small.transform(X) == large.transform(X * 255)).mean() > 0.99


def test_coinciding_rows_are_warned_of() -> None:
    with pytest.warns(IschWarning, match="coincide with their neighbours"):
        isch.SKLSH(n_bits=8).fit(np.repeat(np.random.default_rng(0).normal(size=(30, 5)), 100, axis=0))
