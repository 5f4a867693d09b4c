import numpy as np
import pytest
from numpy.typing import NDArray

from isch.hashing import rounding
from isch.hashing.rounding import Feedback, nearest, rounded

RNG = np.random.default_rng(0)
W = RNG.standard_normal((30, 8)).astype(np.float32)
MIXED = RNG.standard_normal((30, 30)) * np.linspace(3, 0.1, 30)
COVARIANCE = MIXED @ MIXED.T
LOOSE = np.diag(RNG.uniform(0.5, 2, 30))


def cost(difference: NDArray[np.floating], covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.einsum("ij,ik,kj->j", difference, covariance, difference))


def damped(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    return covariance + np.eye(len(covariance)) * rounding.DAMPING * np.diag(covariance).mean()


@pytest.mark.parametrize("bits", range(2, 9))
def test_integers_stay_in_their_range_and_scales_are_positive(bits: int) -> None:
    for covariance in (None, COVARIANCE):
        found = rounded(W, bits, covariance)
        assert found.integers.min() >= -(2 ** (bits - 1))
        assert found.integers.max() <= 2 ** (bits - 1) - 1
        assert (found.scales > 0).all()


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_the_cost_that_chooses_the_scale_is_the_error_in_the_values(bits: int) -> None:
    scales = np.abs(W).max(axis=0).astype(np.float64) / 2 ** (bits - 1)
    integers, told = Feedback(COVARIANCE).round(W.astype(np.float64), scales, bits)
    np.testing.assert_allclose(told, cost(W - integers * scales, damped(COVARIANCE)), rtol=1e-8)


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_feedback_changes_values_less_than_rounding_each_weight_alone(bits: int) -> None:
    alone, together = rounded(W, bits).values(), rounded(W, bits, COVARIANCE).values()
    assert (cost(W - together, COVARIANCE) < cost(W - alone, COVARIANCE)).all()


def test_features_that_do_not_go_together_are_rounded_alone() -> None:
    scales = np.full(8, 0.3)
    integers, _ = Feedback(LOOSE).round(W.astype(np.float64), scales, 4)
    np.testing.assert_array_equal(integers, nearest(W.astype(np.float64), scales, 4))


def test_rows_rounded_at_once_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    before = rounded(W, 3, COVARIANCE)
    monkeypatch.setattr(rounding, "ROWS_AT_ONCE", 7)
    np.testing.assert_array_equal(rounded(W, 3, COVARIANCE).integers, before.integers)


def test_a_narrower_scale_is_chosen_where_it_costs_less() -> None:
    spiked = np.concatenate([W, np.full((1, 8), 30, np.float32)])
    widest = 30 / (2**3 - 1)
    assert (rounded(W, 4).scales < np.abs(W).max(axis=0) / 7 * 1.001).all()
    np.testing.assert_allclose(rounded(spiked[-1:], 4).scales, widest, rtol=1e-6)


def test_columns_of_zeros_and_features_that_never_vary_are_rounded_too() -> None:
    zero = W.copy()
    zero[:, 2] = 0
    constant = COVARIANCE.copy()
    constant[5] = constant[:, 5] = 0
    found = rounded(zero, 4, constant)
    assert np.isfinite(found.values()).all()
    assert not found.values()[:, 2].any()
