"""DistanceHash: the factors against their formula, and the estimates against true distances."""

from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.datasets import load_digits

import isch
from isch.errors import ParameterError
from isch.hashing import distance, rotation, thresholds

DIGITS: NDArray[np.float32] = load_digits().data.astype(np.float32)


def learned(n_bits: int, X: Any = DIGITS, **options: Any) -> isch.DistanceHash:
    return isch.DistanceHash(n_bits, n_iter=10, **options).fit(X)


@pytest.fixture(scope="module", params=["signs", "levels"])
def fitted(request: pytest.FixtureRequest) -> isch.DistanceHash:
    """Bits are signs, or several thresholds per direction."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distance, "SHARES" if request.param == "levels" else "THRESHOLDS", ())
        patch.setattr(distance, "LEAST_ROWS", 2)
        hasher = learned(96)
    assert hasattr(hasher, "thresholds_") == (request.param == "levels")
    return hasher


def unshifted(hasher: isch.DistanceHash) -> Any:
    """z of the digits, from z − t."""
    return hasher.project(DIGITS) + distance.thresholds_of(hasher)


def squared(A: Any, B: Any) -> Any:
    return ((A[:, None].astype(np.float64) - B[None]) ** 2).sum(axis=2)


def found(near: Any, squares: Any) -> float:
    true = np.argsort(squares, axis=1, kind="stable")[:, :10]
    return float(np.mean([np.isin(t, n).mean() for t, n in zip(true, near, strict=True)]))


def test_values_keep_products_of_the_directions_used(fitted: isch.DistanceHash) -> None:
    """L Lᵀ is a projection onto r directions, times m / u²."""
    P = fitted.projection_.astype(np.float64)
    values = np.linalg.eigvalsh(P @ P.T)[::-1]
    r, scale = len(fitted.eigenvalues_), 96 / (fitted.unit_ or 0) ** 2
    np.testing.assert_allclose(values[:r], scale, rtol=1e-4)
    np.testing.assert_allclose(values[r:], 0, atol=1e-4 * scale)
    np.testing.assert_allclose((unshifted(fitted) ** 2).mean(), 1, rtol=1e-4)


def test_factors_follow_their_formula(fitted: isch.DistanceHash) -> None:
    factors, z = fitted.factors(DIGITS), unshifted(fitted)
    bits = np.unpackbits(fitted.transform(DIGITS), axis=1) * 2.0 - 1
    assert (factors.dtype, factors.shape) == (np.float16, (len(DIGITS), 2))
    lengths = ((DIGITS - fitted.mean_) ** 2).sum(axis=1) / (fitted.unit_ or 0) ** 2
    np.testing.assert_allclose(factors[:, 0], lengths, rtol=1e-3)
    np.testing.assert_allclose(factors[:, 1], (z * z).sum(axis=1) / (z * bits).sum(axis=1), rtol=1e-3)


def test_estimates_are_near_the_distances_and_a_row_is_near_itself(fitted: isch.DistanceHash) -> None:
    codes, factors = fitted.transform(DIGITS), fitted.factors(DIGITS)
    estimates, rows = isch.nearest_estimated(fitted, DIGITS[:50], codes, factors, len(DIGITS))
    true = np.take_along_axis(squared(DIGITS[:50], DIGITS), rows, axis=1)
    assert (np.diff(estimates, axis=1) >= 0).all()
    assert np.corrcoef(estimates.ravel(), true.ravel())[0, 1] > 0.97
    assert abs(float((estimates - true).mean() / true.mean())) < 0.02
    itself = np.take_along_axis(estimates, np.argsort(rows, axis=1), axis=1)[np.arange(50), np.arange(50)]
    left_out = ((DIGITS[:50] - fitted.mean_) ** 2).sum(axis=1) * (1 - fitted.spectrum_share_)
    assert itself.mean() < 3 * left_out.mean() + 0.01 * true.mean()


def test_it_finds_more_neighbours_than_codes_alone_and_than_the_same_kind() -> None:
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((3000, 40)) * np.linspace(3, 0.3, 40) * rng.uniform(0.5, 2, (3000, 1))).astype(np.float32)
    base, queries = X[200:], X[:200]
    true = squared(queries, base)
    hasher = learned(64, base)
    codes = hasher.transform(base)
    by_factors = found(isch.nearest_estimated(hasher, queries, codes, hasher.factors(base), 10)[1], true)
    by_codes = found(isch.nearest(hasher.transform(queries), codes, 10)[1], true)
    meaning = isch.DiffusionHash(64).fit(base)
    by_meaning = found(isch.nearest(meaning.transform(queries), meaning.transform(base), 10)[1], true)
    assert by_factors > by_codes + 0.1
    assert by_factors > by_meaning + 0.1


def test_directions_and_thresholds_follow_the_sample() -> None:
    """Where all neighbourhoods are in 8 of 64 directions, few are chosen, finely; where in all, all are, by signs."""
    rng = np.random.default_rng(0)
    steep = (rng.standard_normal((1500, 64)) * np.r_[np.full(8, 5.0), np.full(56, 0.2)]).astype(np.float32)
    level = rng.standard_normal((1500, 64)).astype(np.float32)
    assert distance.allocation(steep, 64, rng).directions <= 16
    assert distance.allocation(steep, 64, rng).learn is thresholds.learn
    assert distance.allocation(level, 64, rng) == (64, rotation.learn)
    assert distance.allocation(level[:99], 64, rng) == (64, rotation.learn)


def test_trying_thresholds_changes_no_codes_that_are_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).standard_normal((500, 40)).astype(np.float32)
    hasher = learned(32, X)
    assert not hasattr(hasher, "thresholds_")
    monkeypatch.setattr(distance, "THRESHOLDS", ())
    np.testing.assert_array_equal(hasher.projection_, learned(32, X).projection_)


def test_thresholds_find_more_neighbours_than_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((3000, 40)) * 0.9 ** np.arange(40)).astype(np.float32)
    base, queries = X[200:], X[:200]
    true, by = squared(queries, base), {}
    for name in ("levels", "signs"):
        hasher = learned(96, base)
        assert hasattr(hasher, "thresholds_") == (name == "levels")
        factors = hasher.factors(base)
        by[name] = found(isch.nearest_estimated(hasher, queries, hasher.transform(base), factors, 10)[1], true)
        monkeypatch.setattr(distance, "THRESHOLDS", ())
    assert by["levels"] > by["signs"] + 0.03


def test_sparse_rows_and_files_have_the_factors_of_the_array(fitted: isch.DistanceHash, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", DIGITS)
    expected = fitted.factors(DIGITS)
    np.testing.assert_array_equal(fitted.factors(tmp_path / "x.npy"), expected)
    np.testing.assert_allclose(fitted.factors(csr_array(DIGITS)), expected, rtol=2e-3)


def test_models_are_saved_with_the_unit(fitted: isch.DistanceHash, tmp_path: Path) -> None:
    fitted.save(tmp_path / "m")
    again: Any = isch.load(tmp_path / "m")
    np.testing.assert_array_equal(again.factors(DIGITS), fitted.factors(DIGITS))
    np.testing.assert_array_equal(again.transform(DIGITS), fitted.transform(DIGITS))


def test_a_rounded_model_keeps_thresholds(fitted: isch.DistanceHash, tmp_path: Path) -> None:
    fitted.compressed(4, DIGITS).save(tmp_path / "m")
    small: Any = isch.load(tmp_path / "m")
    assert np.unpackbits(small.transform(DIGITS) ^ fitted.transform(DIGITS)).mean() < 0.05
    both = [isch.nearest_estimated(h, DIGITS[:99], h.transform(DIGITS), h.factors(DIGITS), 10) for h in (small, fitted)]
    rounded, whole = (found(near, squared(DIGITS[:99], DIGITS)) for _, near in both)
    assert rounded > whole - 0.03


def test_bits_are_the_signs_of_values_for_every_kind_of_rows(fitted: isch.DistanceHash, tmp_path: Path) -> None:
    import dask.array

    np.save(tmp_path / "x.npy", DIGITS)
    codes = fitted.transform(DIGITS)
    np.testing.assert_array_equal(np.packbits(fitted.project(DIGITS) >= 0, axis=1), codes)
    np.testing.assert_array_equal(fitted.transform(tmp_path / "x.npy"), codes)
    np.testing.assert_array_equal(fitted.transform(dask.array.from_array(DIGITS, chunks=(500, 64))), codes)
    for other in (csr_array(DIGITS), DIGITS.astype(np.float64)):
        assert np.unpackbits(fitted.transform(other) ^ codes).mean() < 1e-4
    assert np.unpackbits(fitted.transform(DIGITS, exact=False) ^ codes).mean() < 0.02


def test_another_fit_forgets_thresholds(fitted: isch.DistanceHash) -> None:
    again = copy(fitted).fit(DIGITS[:99])  # too few rows to choose thresholds by
    assert not hasattr(again, "thresholds_")
    assert hasattr(fitted, "projection_")


@pytest.mark.parametrize("n_bits", [1, 5, 64, 200, 600])
def test_any_number_of_bits(n_bits: int) -> None:
    hasher = learned(n_bits, DIGITS[:300])
    assert hasher.factors(DIGITS[:9]).shape == (9, 2)
    assert len(hasher.eigenvalues_) <= min(n_bits, hasher.rank_ or 0)


def test_blocks_of_bits_have_thresholds_of_their_own() -> None:
    hasher = learned(96, block_size=24)
    assert hasher.thresholds_.shape == (96,)
    values = np.linalg.eigvalsh(hasher.projection_.astype(np.float64) @ hasher.projection_.T)[::-1]
    np.testing.assert_allclose(values[: len(hasher.eigenvalues_)], 96 / (hasher.unit_ or 0) ** 2, rtol=1e-4)
    near = isch.nearest_estimated(hasher, DIGITS[:99], hasher.transform(DIGITS), hasher.factors(DIGITS), 10)[1]
    assert found(near, squared(DIGITS[:99], DIGITS)) > 0.6


def test_far_rows_and_the_mean_itself_have_finite_factors(fitted: isch.DistanceHash) -> None:
    extreme = fitted.mean_ + np.array([0, 1e9, 1e25, 1e-9])[:, None]
    factors = fitted.factors(extreme)
    assert np.isfinite(factors).all()
    assert factors[0, 0] == 0


def test_other_methods_have_no_factors() -> None:
    hasher = isch.DiffusionHash(8).fit(DIGITS[:200])
    with pytest.raises(ParameterError, match="has no factors; expected a model of method distance"):
        isch.nearest_estimated(hasher, DIGITS, hasher.transform(DIGITS), np.zeros((len(DIGITS), 2)), 3)


@pytest.mark.parametrize("unit", [0.0, -1.0, float("nan"), float("inf"), None])
def test_a_model_with_an_impossible_unit_has_no_factors(fitted: isch.DistanceHash, unit: float | None) -> None:
    strange = copy(fitted)
    strange.unit_ = unit
    with pytest.raises(ParameterError, match="has no factors"):
        strange.factors(DIGITS)


def test_the_same_seed_gives_the_same_model() -> None:
    one, two = (learned(32, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(one.projection_, two.projection_)
