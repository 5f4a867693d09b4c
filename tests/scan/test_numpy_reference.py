"""Search with NumPy alone, against the kernels."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from isch.scan import exact, hamming, measures, numpy_reference
from isch.scan.numpy_reference import costs, half_byte_tables
from isch.scan.source import Source

Array = NDArray[Any]


def sources(codes: Array) -> list[Source]:
    """The codes as rows, and laid out."""
    return [Source.of(codes, *codes.shape), Source.of(hamming.lay_out(codes), *codes.shape)]


def some_codes(n: int, n_bytes: int) -> Array:
    rng = np.random.default_rng(n * n_bytes)
    return rng.integers(0, 256, (n, n_bytes), dtype=np.uint8) & rng.integers(0, 256, (n, n_bytes), dtype=np.uint8)


@pytest.mark.parametrize("n_bytes", [1, 6, 8, 13, 32, 77])
@pytest.mark.parametrize("n", [1, 7, 8, 500])
@pytest.mark.parametrize("share", [None, 0.0, 0.4])
def test_nearest_as_by_kernels(n_bytes: int, n: int, share: float | None) -> None:
    codes = some_codes(n, n_bytes)
    queries = codes[[0, n // 2, n - 1]] ^ np.uint8(1)
    mask = None if share is None else np.random.default_rng(n).random(n) < share
    rows = None if mask is None else np.flatnonzero(mask)
    for source in sources(codes):
        for k in (1, 10, n):
            expected = exact.nearest(queries, codes, k, mask=mask)
            for found, wanted in zip(numpy_reference.nearest(source, queries, k, rows), expected, strict=True):
                assert found.dtype == wanted.dtype
                np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("n_bits", [5, 64, 100, 256])
def test_sums_of_candidates_as_by_kernels_bit_for_bit(n_bits: int) -> None:
    rng = np.random.default_rng(n_bits)
    codes, rows = some_codes(300, -(-n_bits // 8)), rng.integers(0, 300, (4, 50))
    tables = half_byte_tables(*costs(rng.standard_normal((4, n_bits), dtype=np.float32)), -(-n_bits // 64))
    expected = np.empty(rows.shape, np.float32)
    by_rows, laid_out = sources(codes)
    measures.sums_of_candidates(laid_out.data, rows, tables, expected)
    for source in (by_rows, laid_out):
        np.testing.assert_array_equal(numpy_reference.sums_of_candidates(source, rows, tables), expected)


def test_large_tables_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = some_codes(300, 9)
    whole = numpy_reference.hamming(sources(codes)[0], numpy_reference.words_of(codes[:1])[0])
    monkeypatch.setattr(numpy_reference, "AT_ONCE", 5)
    for source in sources(codes):
        np.testing.assert_array_equal(numpy_reference.hamming(source, numpy_reference.words_of(codes[:1])[0]), whole)


def test_the_allowance_is_spent_by_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, numpy_reference.KERNELS)
    allowance = numpy_reference.Allowance(3 * (1_000 + numpy_reference.QUERY_COST))
    assert [allowance.grants(1, 500, 2) for _ in range(5)] == [True, True, True, False, False]
    assert not numpy_reference.Allowance(numpy_reference.QUERY_COST).grants(2, 1, 1)


def test_loaded_kernels_are_used_at_any_size() -> None:
    assert numpy_reference.KERNELS in sys.modules
    assert not numpy_reference.Allowance(numpy_reference.ALLOWANCE).grants(1, 1, 1)


LOADING = """
import sys
import numpy as np
from isch.scan import exact
from isch.scan import numpy_reference
codes = np.random.default_rng(0).integers(0, 256, (2_000, 16), dtype=np.uint8)
small = exact.nearest(codes[:2], codes, 10)
print("numba" in sys.modules)
numpy_reference.allowance = numpy_reference.Allowance(0)
large = exact.nearest(codes[:2], codes, 10)
print("numba" in sys.modules, all((a == b).all() for a, b in zip(small, large)))
"""


def test_kernels_are_loaded_when_there_is_enough_to_do() -> None:
    out = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True, check=True).stdout
    assert out == "False\nTrue True\n"
