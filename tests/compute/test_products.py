"""Products of sparse rows: the kernel against SciPy and double precision."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

from isch.compute import products, sparse, times

ROWS = sparse.VALUES // sparse.COLUMNS  # of the tiles of a wide matrix


def rows_of(n: int, d: int, share: float, seed: int = 0) -> csr_array:
    made = random_array((n, d), density=share, rng=np.random.default_rng(seed), dtype=np.float32, format="csr")
    made.sort_indices()
    return csr_array(made)


def matrix_of(d: int, m: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((d, m), dtype=np.float32)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 20),
    st.sampled_from([1, 5, ROWS - 1, ROWS, ROWS + 1, 1000]),
    st.sampled_from([1, 3, sparse.COLUMNS - 1, sparse.COLUMNS, sparse.COLUMNS + 7]),
    st.floats(0, 1),
    st.integers(0, 99),
)
def test_the_kernel_multiplies(n: int, d: int, m: int, share: float, seed: int) -> None:
    block, matrix = rows_of(n, d, share, seed), matrix_of(d, m)
    want = block.toarray().astype(np.float64) @ matrix.astype(np.float64)
    np.testing.assert_allclose(sparse.multiply(block, matrix), want, atol=1e-4)


def test_a_row_has_the_same_product_whatever_rows_are_beside_it() -> None:
    block, matrix = rows_of(9, 1000, 0.2), matrix_of(1000, 70)
    whole = sparse.multiply(block, matrix)
    for i in range(9):
        np.testing.assert_array_equal(sparse.multiply(block[i : i + 1], matrix)[0], whole[i])


def test_parts_of_a_matrix_and_wide_indices_are_taken() -> None:
    block, matrix = rows_of(9, 1000, 0.2), matrix_of(1000, 70)
    wide = csr_array((block.data, block.indices.astype(np.int64), block.indptr.astype(np.int64)), shape=block.shape)
    np.testing.assert_array_equal(sparse.multiply(wide, matrix), sparse.multiply(block, matrix))
    some = np.asfortranarray(matrix)[:, 10:30]
    np.testing.assert_array_equal(sparse.multiply(block, some), sparse.multiply(block, matrix)[:, 10:30])


@pytest.mark.parametrize("large", [1, 1 << 40])
def test_every_block_has_its_product(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "LARGE", large)
    block, matrix = rows_of(30, 300, 0.1), matrix_of(300, 20)
    turned = csr_array((block.data[::-1], block.indices[::-1], [0, *(block.nnz - block.indptr[::-1][1:])]), block.shape)
    assert not turned.has_sorted_indices
    for rows in (block, turned, block.astype(np.float64), block.astype(np.int32), block.toarray(), rows_of(30, 300, 0)):
        got = times(rows, matrix)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, rows @ matrix, atol=1e-5)


def test_the_kernel_takes_what_is_large_and_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    monkeypatch.setattr(products, "LARGE", 1000)
    monkeypatch.setattr(sparse, "multiply", lambda block, matrix: taken.append(block.nnz))
    times(rows_of(40, 300, 0.1), matrix_of(300, 20))
    times(rows_of(40, 300, 0.001), matrix_of(300, 200))
    times(rows_of(1, 300, 0.1), matrix_of(300, 20))
    assert taken == [1200]
