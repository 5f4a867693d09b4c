"""Multi-threshold quantisation: the error against known values, and what bits and their distances mean."""

from typing import Any

import numpy as np
import pytest

from isch.hashing import rotation, thresholds
from isch.scan.exact import CodeTable, asymmetric_distances

RNG = np.random.default_rng(0)
NORMAL = RNG.standard_normal((20_000, 12)).astype(np.float32)
MIXED = (NORMAL[:3000] @ RNG.standard_normal((12, 12))).astype(np.float32)


def learned(Z: Any, n_bits: int, n_iter: int = 40) -> rotation.Rotation:
    return thresholds.learn(Z, n_iter, np.random.default_rng(1), n_bits)


def counts(r: int, n_bits: int) -> Any:
    return np.bincount(np.arange(n_bits) % r, minlength=r)


def spelt_out(found: rotation.Rotation, Z: Any) -> tuple[Any, Any, float]:
    """(y, s / √k, β) with the sums s of bits direction by direction."""
    (r, m), t = found.matrix.shape, found.thresholds
    assert t is not None
    bits = np.where(Z @ found.matrix >= t, 1.0, -1.0)
    y, sums = np.empty((len(Z), r)), np.empty((len(Z), r))
    for i, k in enumerate(counts(r, m)):
        y[:, i] = Z @ found.matrix[:, i] * np.sqrt(k)
        sums[:, i] = bits[:, i::r].sum(axis=1) / np.sqrt(k)
    steps = [k * np.diff(np.sort(t[i::r]))[0] / 2 for i, k in enumerate(counts(r, m)) if k > 1]
    return y, sums, float(np.mean(steps))


@pytest.mark.parametrize(("k", "known"), [(1, 0.3634), (2, 0.1902), (3, 0.1188), (4, 0.0822), (6, 0.0469)])
def test_the_error_of_normal_values_is_that_of_the_best_uniform_quantiser(k: int, known: float) -> None:
    error = learned(NORMAL, 12 * k).errors[-1] * len(NORMAL) * 12 * k / float((NORMAL**2).sum())
    assert known * 0.96 < error < known * 1.01  # the rotation finds a little that is not normal


def test_it_is_below_that_of_as_many_signs_along_a_frame() -> None:
    Z = RNG.standard_normal((4000, 60)).astype(np.float32)
    for k in (2, 3, 4):
        frame = rotation.random(60, RNG, 60 * k)
        signs = np.where(Z @ frame >= 0, 1.0, -1.0) @ frame.T
        scale = (Z * signs).sum() / (signs**2).sum()
        left = float(((Z - scale * signs) ** 2).sum() / (Z**2).sum())
        assert left == pytest.approx(0.3634 / (0.6366 * k + 0.3634), rel=0.05)
        assert learned(Z, 60 * k, 10).errors[-1] * k < left


@pytest.mark.parametrize("n_bits", [12, 24, 31, 50, 100])
def test_rows_are_orthonormal_and_the_error_never_increases(n_bits: int) -> None:
    found = learned(MIXED, n_bits)
    np.testing.assert_allclose(found.matrix @ found.matrix.T, np.eye(12), atol=1e-9)
    assert (np.diff(found.errors) <= 1e-9).all()


@pytest.mark.parametrize("n_bits", [24, 31, 50])
def test_bits_say_the_nearest_level(n_bits: int) -> None:
    y, sums, beta = spelt_out(learned(MIXED, n_bits), MIXED)
    for i, k in enumerate(counts(12, n_bits)):
        every = beta * np.arange(-k, k + 1, 2) / np.sqrt(k)
        nearest = every[np.abs(y[:, i, None] - every).argmin(axis=1)]
        np.testing.assert_allclose(beta * sums[:, i], nearest, rtol=1e-6)


def test_the_hamming_distance_is_the_sum_of_differences_of_levels() -> None:
    found = learned(MIXED, 36)
    bits = MIXED[:50] @ found.matrix >= found.thresholds
    reached = np.stack([bits[:, i::12].sum(axis=1) for i in range(12)], axis=1)
    hamming = (bits[:, None] != bits[None]).sum(axis=2)
    np.testing.assert_array_equal(hamming, np.abs(reached[:, None] - reached[None]).sum(axis=2))


def test_asymmetric_distances_are_squared_distances_to_the_levels() -> None:
    """Σ |z − t| over the bits that differ = (‖y − ŷ_x‖² − ‖y − ŷ‖²) / 4β, ŷ being the query's own thresholds."""
    found = learned(MIXED, 40)
    y, sums, beta = spelt_out(found, MIXED)
    values = (MIXED @ found.matrix - found.thresholds).astype(np.float32)
    scores = asymmetric_distances(values[:20], CodeTable(np.packbits(values >= 0, axis=1)))
    to_levels = ((y[:20, None] - beta * sums[None]) ** 2).sum(axis=2)
    own = ((y[:20] - beta * sums[:20]) ** 2).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(scores, (to_levels - own) / (4 * beta), rtol=1e-3, atol=1e-3)


def test_thresholds_near_zero_come_first() -> None:
    for k in range(1, 9):
        places = thresholds.places(np.array([k, k]), 2 * k)[::2]
        np.testing.assert_array_equal(np.sort(places), np.arange(k) - (k - 1) / 2)
        assert (np.diff(np.abs(places)) >= 0).all()


def test_one_direction_and_rows_that_do_not_vary() -> None:
    assert learned(MIXED[:, :1], 9).errors[-1] < 0.05 * float((MIXED[:, :1] ** 2).mean())
    constant = learned(np.zeros((50, 3), np.float32), 7)
    assert np.isfinite(constant.matrix).all()
