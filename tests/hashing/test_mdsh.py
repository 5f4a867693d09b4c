"""MDSH: eigenfunctions of one coordinate each, and an affinity that forms their products."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

import isch
from isch import codes, distances
from isch.errors import InputError, IschWarning
from isch.hashing import mdsh
from isch.scan import exact


@pytest.fixture(scope="module")
def X() -> NDArray[np.float64]:
    rng = np.random.default_rng(0)
    return np.asarray(rng.normal(size=(1200, 6)) * [3, 2, 1.5, 1, 0.5, 0.2] @ np.linalg.qr(rng.normal(size=(6, 6)))[0])


def test_eigenfunctions_solve_the_generalised_problem() -> None:
    shares = np.random.default_rng(1).dirichlet(np.ones(30))
    values, functions = mdsh.eigenfunctions(shares, 2.0, 0.3)
    p = (shares + 0.1) / (shares + 0.1).sum()
    grid = (np.arange(30) + 0.5) * 2 / 30
    A = np.exp(-((grid[:, None] - grid) ** 2) / (2 * 0.3**2))
    P, D3 = np.diag(p), np.diag((np.diag(p) @ A).sum(axis=0))
    A2 = P @ A @ P
    laplacian = np.diag(A2.sum(axis=0)) - A2
    np.testing.assert_allclose(laplacian @ functions, P @ D3 @ functions * values, atol=1e-10)
    assert values[0] == pytest.approx(0, abs=1e-10)
    assert np.ptp(functions[:, 0]) < 1e-6
    assert (np.diff(values) >= 0).all()


def test_projection_interpolates_the_eigenfunctions(X: NDArray[np.float64]) -> None:
    hasher = isch.MDSH(n_bits=20).fit(X)
    Z = ((X - hasher.mean_) @ hasher.projection_).clip(*hasher.limits_)
    got = hasher.project(X)
    for bit in range(20):
        k = hasher.coordinates_[bit]
        grid = hasher.grids_[0, k] + hasher.grids_[1, k] * np.arange(hasher.values_.shape[1])
        inside = (Z[:, k] > grid[0]) & (Z[:, k] < grid[-1])
        want = np.interp(Z[:, k], grid, hasher.values_[bit])
        np.testing.assert_allclose(got[inside, bit], want[inside], atol=2e-3 * np.abs(want).max())
        beyond = Z[:, k] < grid[0]
        slope = (hasher.values_[bit, 1] - hasher.values_[bit, 0]) / hasher.grids_[1, k]
        below = hasher.values_[bit, 0] + slope * (Z[beyond, k] - grid[0])
        np.testing.assert_allclose(got[beyond, bit], below, atol=2e-3 * np.abs(want).max())


def test_affinity_is_the_weighted_sum_over_all_products_of_bits(X: NDArray[np.float64]) -> None:
    hasher = isch.MDSH(n_bits=9).fit(X)
    packed = hasher.transform(X[:12])
    signs = codes.signs(packed, 9).astype(np.float64)
    got = np.sinh(-exact.distances(packed, packed, hasher.distance)) - len(np.unique(hasher.groups_))
    want = np.zeros((12, 12))
    for group in np.unique(hasher.groups_):
        members = [np.flatnonzero((hasher.groups_ == group) & (hasher.coordinates_ == k)) for k in range(6)]
        for choice in product(*[[None, *m] for m in members]):
            bits = [b for b in choice if b is not None]
            if bits:
                function = signs[:, bits].prod(axis=1)
                want += hasher.weights_[bits].prod() * np.outer(function, function)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_a_code_is_nearest_to_itself_and_weights_fall(X: NDArray[np.float64]) -> None:
    hasher = isch.MDSH(n_bits=24).fit(X)
    assert isinstance(hasher.distance, distances.ProductAffinity)
    assert hasher.weights_.max() == pytest.approx(1)
    assert (hasher.weights_ > 0).all()
    packed = hasher.transform(X[:200])
    between = exact.distances(packed, packed, hasher.distance)
    np.testing.assert_allclose(between.min(axis=1), np.diag(between), rtol=1e-5)


def test_few_bits_share_the_median_and_many_get_several_thresholds() -> None:
    values = np.arange(10.0)
    functions = [mdsh.Eigenfunction(k, w, values - k) for k, w in enumerate([1.0, 0.8, 0.5, 0.05])]
    chosen, thresholds = mdsh.assign_bits(functions, 2)
    assert [f.coordinate for f in chosen] == [0, 1]
    assert set(thresholds) == {4.0}
    chosen, thresholds = mdsh.assign_bits(functions, 8)
    assert [f.coordinate for f in chosen] == [0, 1, 2, 0, 1, 2, 0, 1]
    pooled = np.concatenate([values, values - 1, values - 2])
    cuts = np.percentile(pooled, [25, 50, 75], method="hazen")
    np.testing.assert_allclose(thresholds, np.repeat(cuts, [3, 3, 2]))


def test_sigma_is_a_quarter_of_the_mean_distance(X: NDArray[np.float64]) -> None:
    between = np.linalg.norm(X[:400, None] - X[None, 400:800], axis=2)
    assert isch.MDSH(n_bits=8).fit(X).sigma_ == pytest.approx(between.mean() / 4, rel=0.05)


def test_better_than_plain_hamming_on_its_own_codes(X: NDArray[np.float64]) -> None:
    hasher = isch.MDSH(n_bits=32).fit(X)
    packed = hasher.transform(X)
    affinity = np.exp(-((X[:100, None] - X) ** 2).sum(axis=2) / (2 * hasher.sigma_**2)).ravel()

    ours = np.sinh(-exact.distances(packed[:100], packed, hasher.distance)).ravel()
    plain = -exact.distances(packed[:100], packed).ravel()
    assert np.corrcoef(ours, affinity)[0, 1] > np.corrcoef(plain, affinity)[0, 1]


def test_limits_and_degenerate_data_are_told() -> None:
    with pytest.raises(InputError, match="at least 10 rows to learn from; got 9"):
        isch.MDSH(n_bits=4).fit(np.random.default_rng(2).normal(size=(9, 3)))
    one_differs = np.ones((600, 3))
    one_differs[0] = 2
    with pytest.raises(InputError, match="needs rows that differ"):
        isch.MDSH(n_bits=4).fit(one_differs)
    with pytest.warns(IschWarning, match="is narrow for a grid of 50 bins"):
        isch.MDSH(n_bits=4, sigma=0.03).fit(np.random.default_rng(2).normal(size=(600, 3)))
    with pytest.raises(InputError, match="sigma = 1e-05 is far below the spacing"), pytest.warns(IschWarning):
        isch.MDSH(n_bits=4, sigma=1e-5).fit(np.random.default_rng(2).normal(size=(600, 3)))


def test_the_sign_of_a_function_does_not_hang_on_rounding() -> None:
    """Odd functions of an even distribution have their largest modulus at both ends, with opposite signs."""
    even = np.concatenate([np.arange(1, 16), np.arange(15, 0, -1)]) / 240
    _, functions = mdsh.eigenfunctions(even, 3.0, 0.4)
    rng = np.random.default_rng(0)
    for _ in range(20):
        noisy = functions * (1 + 1e-12 * rng.standard_normal(functions.shape))
        np.testing.assert_array_equal(mdsh.signs(noisy), 1)
        np.testing.assert_array_equal(mdsh.signs(-noisy), -1)
    assert (functions[0, 1:4] > 0).all()
