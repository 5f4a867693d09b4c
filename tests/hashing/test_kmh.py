"""KMH: centres whose distances follow the Hamming distances of their indices."""

import numpy as np
import pytest
import scipy.optimize
from numpy.typing import NDArray

import isch
from isch import codes, kmeans
from isch.hashing import kmh


@pytest.fixture(scope="module")
def X() -> NDArray[np.float32]:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(20, 16)) * 2
    return np.asarray(centres[rng.integers(20, size=900)] + rng.normal(size=(900, 16)), np.float32)


def test_codes_are_the_index_bits_of_the_nearest_centres(X: NDArray[np.float32]) -> None:
    hasher = isch.KMH(n_bits=10, bits_per_subspace=4, n_iter=5).fit(X)
    assert hasher.bits_ == [4, 4, 2]
    got = codes.unpack(hasher.transform(X), 10)
    Z = (X - hasher.mean_.astype(np.float32)) @ hasher.projection_
    column = start = bit = 0
    for bits, width in zip(hasher.bits_, hasher.widths_, strict=True):
        centres = hasher.centres_[start : start + width * 2**bits].reshape(2**bits, width)
        squares = ((Z[:, None, column : column + width] - centres) ** 2).sum(axis=2)
        want = (squares.argmin(axis=1)[:, None] >> np.arange(bits)[::-1]) & 1
        assert (got[:, bit : bit + bits] == want).mean() > 0.9999
        column, start, bit = column + width, start + width * 2**bits, bit + bits


def some_centres(X: NDArray[np.float32]) -> tuple[NDArray[np.float64], ...]:
    """(centres, means of their rows, shares of the rows) in a plane of five dimensions."""
    centres = np.random.default_rng(1).normal(size=(8, 5))
    return centres, *kmh.averaged(np.ascontiguousarray(X[:, :5]), centres)


def test_averages_are_those_of_a_round_of_k_means(X: NDArray[np.float32]) -> None:
    centres, *_ = some_centres(X)
    centres[5] = 100.0
    averages, shares = kmh.averaged(np.ascontiguousarray(X[:, :5]), centres)
    narrow = centres.astype(np.float32)
    wanted, sizes = kmeans.means(X[:, :5], kmeans.assign(X[:, :5], narrow), narrow)
    np.testing.assert_allclose(shares * len(X), sizes)
    np.testing.assert_allclose(averages, wanted, rtol=1e-5)
    assert shares[5] == 0


def wanted_distances(bits: int, side: float) -> NDArray[np.float64]:
    index = np.arange(1 << bits)
    hamming = np.array([[bin(i ^ j).count("1") for j in index] for i in index])
    return np.asarray(2 * side * np.sqrt(hamming))


def test_a_centre_goes_down_to_the_minimum_of_its_energy(X: NDArray[np.float32]) -> None:
    centres, averages, shares = some_centres(X)
    wanted = wanted_distances(3, 1.0)

    def total(c: NDArray[np.float64]) -> float:
        return kmh.energy(np.vstack([c, centres[1:]]), averages, shares, wanted, 10.0)

    pulls = np.where(np.arange(8) == 0, 0.0, 20 * shares)
    path = [kmh.lowered(centres[0], centres, averages[0], pulls, wanted[0], steps) for steps in (0, 1, 2, 5, 10, 400)]
    energies = [total(c) for c in path]
    assert (np.diff(energies) <= 1e-9).all()
    assert energies[-1] == pytest.approx(scipy.optimize.minimize(total, path[-1]).fun, rel=1e-5)


def test_rounds_over_all_centres_lower_the_energy_and_leave_empty_ones(X: NDArray[np.float32]) -> None:
    centres, averages, shares = some_centres(X)
    shares[3] = 0.0
    wanted = wanted_distances(3, 1.0)
    energies = [kmh.energy(centres, averages, shares, wanted, 10.0)]
    for _ in range(10):
        moved = kmh.update_centres(centres, averages, shares, wanted, 10.0)
        np.testing.assert_array_equal(moved[3], centres[3])
        centres = moved
        energies.append(kmh.energy(centres, averages, shares, wanted, 10.0))
    assert (np.diff(energies) <= 1e-6).all()


def test_coinciding_centres_are_no_obstacle(X: NDArray[np.float32]) -> None:
    centres, averages, shares = some_centres(X)
    centres[1] = centres[0]
    assert np.isfinite(kmh.update_centres(centres, averages, shares, wanted_distances(3, 1.0), 10.0)).all()


def test_energy_of_a_fit_never_increases(X: NDArray[np.float32]) -> None:
    hasher = isch.KMH(n_bits=8, bits_per_subspace=4, n_iter=20).fit(X)
    assert len(hasher.errors_) == 20
    assert (np.diff(hasher.errors_) <= 1e-5 * hasher.errors_[:-1]).all()
    assert hasher.errors_[-1] < hasher.errors_[0]


def test_first_codes_are_those_of_pcah_when_a_subspace_has_as_many_directions_as_bits(X: NDArray[np.float32]) -> None:
    bits, width = 3, 3
    Z = (X - X.mean(axis=0))[:, :width]
    centres = kmh.index_signs(bits) * float(np.abs(Z[:, :bits]).mean())
    np.testing.assert_array_equal(kmh.margins(Z, centres.astype(np.float32), bits) >= 0, Z >= 0)


def test_one_bit_in_one_dimension_splits_at_the_middle() -> None:
    Z = np.r_[np.full(50, -3.0), np.full(50, 3.0)].astype(np.float32)[:, None]
    hasher = isch.KMH(n_bits=1).fit(Z)
    np.testing.assert_array_equal(codes.unpack(hasher.transform(Z), 1)[:, 0], (Z[:, 0] * hasher.projection_[0, 0]) >= 0)


def test_directions_are_dealt_out_evenly() -> None:
    variances = np.exp(-np.arange(12.0))
    order = kmh.allocate(variances, [4, 4, 4])
    assert sorted(order) == list(range(12))
    products = np.log(variances[order]).reshape(3, 4).sum(axis=1)
    assert np.ptp(products) < np.ptp(np.log(variances).reshape(3, 4).sum(axis=1)) / 4
    np.testing.assert_array_equal(kmh.allocate(variances, [4, 4, 4])[[0, 4, 8]], [0, 1, 2])


def test_index_bits_most_significant_first() -> None:
    np.testing.assert_array_equal(kmh.index_signs(2), [[-1, -1], [-1, 1], [1, -1], [1, 1]])
