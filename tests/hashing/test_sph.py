"""SPH: spheres that each hold half of the data."""

import numpy as np
import pytest
from numpy.typing import NDArray

import isch
from isch import codes, distances, features
from isch.errors import InputError, IschWarning
from isch.fitting import Fit
from isch.hashing import sph


@pytest.fixture(scope="module")
def X() -> NDArray[np.float64]:
    return np.random.default_rng(0).normal(size=(1001, 8))


def test_each_sphere_holds_half_of_the_rows(X: NDArray[np.float64]) -> None:
    hasher = isch.SPH(n_bits=16).fit(X)
    inside = codes.unpack(hasher.transform(X), 16).sum(axis=0)
    np.testing.assert_allclose(inside, 500, atol=1)
    rows = (X - hasher.mean_).astype(np.float32)
    exact = sph.halve(rows, np.einsum("ij,ij->i", rows, rows), hasher.pivots_)[1]
    np.testing.assert_array_equal(exact.sum(axis=1), 500)


def test_a_set_bit_means_inside(X: NDArray[np.float64]) -> None:
    hasher = isch.SPH(n_bits=16).fit(X)
    distance = np.linalg.norm((X - hasher.mean_)[:, None] - hasher.pivots_, axis=2)
    np.testing.assert_allclose(hasher.project(X), hasher.radii_ - distance, atol=1e-4)


def test_forces_are_those_of_the_formula_pair_by_pair(X: NDArray[np.float64]) -> None:
    rng = np.random.default_rng(1)
    pivots = rng.normal(size=(5, 8)).astype(np.float32)
    overlaps = rng.integers(100, 400, size=(5, 5)).astype(float)
    overlaps += overlaps.T
    want = pivots.astype(np.float64)
    for i in range(5):
        forces = [0.5 * (overlaps[i, j] - 250) / 250 * (pivots[i] - pivots[j]) for j in range(5) if j != i]
        want[i] += np.sum(forces, axis=0) / 5
    np.testing.assert_allclose(sph.moved(pivots, overlaps, 1000), want, rtol=1e-5)


def test_iterations_bring_overlaps_nearer_to_a_quarter(X: NDArray[np.float64]) -> None:
    def excess(n_iter: int) -> float:
        bits = codes.unpack(isch.SPH(n_bits=24, n_iter=n_iter).fit(X).transform(X), 24).astype(float)
        overlaps = (bits.T @ bits)[np.triu_indices(24, 1)] / len(X)
        return float(np.abs(overlaps - 0.25).mean())

    assert excess(100) < 0.75 * excess(1)


def test_a_common_offset_changes_nothing(X: NDArray[np.float64]) -> None:
    want = isch.SPH(n_bits=16).fit(X).transform(X)
    moved = X + np.arange(8)
    assert np.unpackbits(want ^ isch.SPH(n_bits=16).fit(moved).transform(moved)).mean() < 0.01


def test_codes_are_compared_by_the_spherical_hamming_distance(X: NDArray[np.float64]) -> None:
    assert isinstance(isch.SPH(n_bits=16).fit(X).distance, distances.SphericalHamming)


def test_limits_and_degenerate_data_are_told() -> None:
    with pytest.raises(InputError, match="at least 5 rows to learn from; got 4"):
        isch.SPH(n_bits=4).fit(np.eye(4))
    with pytest.warns(IschWarning, match="4 of 4 spheres hold every row"):
        isch.SPH(n_bits=4)._fit(features.open(np.ones((50, 3))), Fit(np.random.default_rng(0)))
