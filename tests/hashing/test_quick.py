"""Encoding by 8-bit products: the rounding against a plain twin, and codes against those of single precision."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array

import isch
from isch.errors import InputError
from isch.hashing import quick
from isch.hashing.projecting import Linear

pytest.importorskip("numkong", reason="8-bit products need the extra 'fast'")

LINEAR = (isch.ISCH, isch.ITQ, isch.LSH, isch.PCAH, isch.PCARR)


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.normal(size=(700, 12)) @ rng.normal(size=(12, 90)) + rng.normal(size=(700, 90)) + 3).astype(np.float32)


@pytest.fixture(autouse=True)
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumKong is right on every processor, if not fast."""
    monkeypatch.setattr(quick, "available", lambda: True)


def plain_round_rows(rows: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values = rows - mean
    scales = np.abs(values).max(axis=1, keepdims=True) / np.float32(127)
    return np.rint(values * (1 / np.where(scales > 0, scales, 1))).astype(np.int8), scales


def share(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.bitwise_count(a ^ b).mean() / 8)


@pytest.mark.parametrize("d", [1, 7, 16, 33, 90])
def test_rows_are_rounded_as_plainly_written(d: int) -> None:
    rng = np.random.default_rng(d)
    some, mean = (rng.normal(size=shape).astype(np.float32) for shape in ((40, d), d))
    some[3] = mean
    some[5] *= 1e30
    some[6] = mean + (some[6] - mean) * np.float32(1e-30)
    rounded, scales = np.empty((40, d), np.int8), np.empty((40, 1), np.float32)
    quick.round_rows(some, mean, rounded, scales)
    expected, expected_scales = plain_round_rows(some, mean)
    np.testing.assert_array_equal(rounded, expected)
    np.testing.assert_allclose(scales, expected_scales, rtol=1e-6)


@pytest.mark.parametrize("n_bits", [1, 63, 64, 65, 200])
def test_values_are_those_of_rounded_rows_and_columns(n_bits: int, rows: np.ndarray) -> None:
    rng = np.random.default_rng(n_bits)
    linear = Linear(rows.mean(axis=0, dtype=np.float64), rng.normal(size=(90, n_bits)).astype(np.float32))
    rounded, scales = plain_round_rows(rows, linear.mean.astype(np.float32))
    columns, column_scales = plain_round_rows(linear.projection.T, np.zeros(90, np.float32))
    expected = (rounded.astype(np.int64) @ columns.T) * (scales * column_scales.T)
    np.testing.assert_allclose(quick.ByteLinear(linear)(rows), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", LINEAR)
def test_few_bits_differ_from_single_precision(method: type[isch.Hasher], rows: np.ndarray) -> None:
    hasher = method(n_bits=64).fit(rows)
    assert 0 < share(hasher.transform(rows), hasher.transform(rows, exact=False)) < 0.01


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.uint8])
def test_any_dtype(dtype: type, rows: np.ndarray) -> None:
    X = (rows * 8 + 60).clip(0, 255).astype(dtype)
    hasher = isch.ITQ(n_bits=32).fit(X)
    assert share(hasher.transform(X), hasher.transform(X, exact=False)) < 0.01


def test_blocks_equal_the_whole(rows: np.ndarray) -> None:
    hasher = isch.LSH(n_bits=20).fit(rows)
    parts = np.concatenate(list(hasher.encode(rows, exact=False)))
    np.testing.assert_array_equal(parts, hasher.transform(rows, exact=False))


def test_sparse_rows_and_other_methods_go_the_exact_way(rows: np.ndarray) -> None:
    sparse, linear = csr_array(np.where(rows > 4, rows, 0)), isch.LSH(n_bits=32).fit(rows)
    np.testing.assert_array_equal(linear.transform(sparse, exact=False), linear.transform(sparse))
    other = isch.SH(n_bits=32).fit(rows)
    np.testing.assert_array_equal(other.transform(rows, exact=False), other.transform(rows))


def test_without_a_fast_machine_nothing_changes(rows: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick, "available", lambda: False)
    hasher = isch.LSH(n_bits=32).fit(rows)
    np.testing.assert_array_equal(hasher.transform(rows, exact=False), hasher.transform(rows))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(bad: float, rows: np.ndarray) -> None:
    hasher, broken = isch.LSH(n_bits=32).fit(rows), rows.copy()
    broken[300, 5] = bad
    with pytest.raises(InputError):
        hasher.transform(broken, exact=False)


def test_a_projector_pickles(rows: np.ndarray) -> None:
    hasher = isch.LSH(n_bits=32).fit(rows)
    projector = quick.ByteLinear(Linear(hasher.mean_, hasher.projection_))
    expected = projector(rows)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(projector))(rows), expected)
    exact = hasher.project(rows)
    assert np.abs(expected - exact).max() < 0.02 * np.abs(exact).max()


def test_a_constant_row_or_column_has_the_bits_of_zero(rows: np.ndarray) -> None:
    hasher = isch.LSH(n_bits=8).fit(rows)
    hasher.projection_[:, 2] = 0
    hasher.mean_ = hasher.mean_.astype(np.float32).astype(np.float64)
    codes = hasher.transform(np.stack([hasher.mean_.astype(np.float32), rows[0]]), exact=False)
    assert codes[0, 0] == 255
    assert codes[1, 0] & 0b00100000
