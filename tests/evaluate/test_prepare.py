"""Matrices of a split: sparse rows are scaled as dense ones are, and stay sparse."""

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse

from isch import features
from isch.evaluate.datasets import Dataset
from isch.evaluate.prepare import Material, material
from isch.evaluate.splits import SplitRule

ROWS = np.random.default_rng(0).random((40, 30), np.float32)
ROWS[ROWS < 0.7] = 0
ROWS[3] = 0


def made(rows: object, folder: Path) -> Material:
    source = features.open(rows)
    data = Dataset("some", 40, np.arange(40) % 4, source)
    return material(data, source, SplitRule(total=10), "l2", 0, 5, folder)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows_get_length_one(dtype: type, tmp_path: Path) -> None:
    given = csr_array(ROWS.astype(dtype))
    before = given.data.copy()
    plain, sparse = made(ROWS, tmp_path / "plain"), made(given, tmp_path / "sparse")
    items = sparse.database.read(0, 30)
    assert issparse(items)
    assert items.dtype == np.float32
    np.testing.assert_allclose(items.toarray(), plain.database.read(0, 30), atol=1e-6)
    np.testing.assert_allclose(sparse.queries.toarray(), plain.queries, atol=1e-6)
    np.testing.assert_array_equal(sparse.truth.neighbours, plain.truth.neighbours)
    np.testing.assert_array_equal(given.data, before)
