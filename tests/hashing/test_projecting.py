"""Values that cannot be used show in every product, so encoding need not look for them before it multiplies."""

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import isch
from isch import features
from isch.errors import InputError
from isch.hashing.projecting import Linear, Projecting

D = 37


def weights(n_bits: int) -> Linear:
    L = np.random.default_rng(0).standard_normal((D, n_bits), dtype=np.float32)
    L[:, ::2] = 0  # 0 · NaN and 0 · ∞ are NaN, too
    return Linear(np.full(D, 0.5), L)


@pytest.mark.parametrize("n_bits", [1, 3, 64])
@pytest.mark.parametrize("n_rows", [1, 2, 17, 1024])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@np.errstate(over="ignore", invalid="ignore")  # as around the work of every pass
def test_no_product_hides_what_is_not_finite(bad: float, dtype: str, n_rows: int, n_bits: int) -> None:
    block = np.random.default_rng(1).standard_normal((n_rows, D)).astype(dtype)
    for row, column in ((0, 0), (n_rows - 1, D - 1), (n_rows // 2, 20)):
        broken = block.copy()
        broken[row, column] = bad
        sparse = [] if dtype == "float16" else [csr_array(broken)]  # SciPy has no half precision
        for rows in (broken, np.asfortranarray(broken), *sparse):
            values = weights(n_bits)(rows)
            assert not np.isfinite(values[row]).any()
            assert np.isfinite(np.delete(values, row, axis=0)).all()
            with pytest.raises(InputError, match="NaN, infinity"):
                Projecting(weights(n_bits), "x").block(rows, 0)


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
@pytest.mark.parametrize("what", [("nan", "1 value is NaN"), ("1e300", "exceed the range of single precision")])
def test_the_row_is_named(what: tuple[str, str], kind: Any) -> None:
    rows = np.random.default_rng(2).standard_normal((3000, D))
    hasher = isch.LSH(16).fit(rows)
    rows[2500, 3] = float(what[0])
    with pytest.raises(InputError, match=rf"{what[1]}.*, the first in row 2500"):
        hasher.transform(kind(rows))


def test_a_product_that_is_too_large_is_not_called_nan() -> None:
    hasher = isch.LSH(16).fit(np.random.default_rng(3).standard_normal((100, D)).astype(np.float32))
    with pytest.raises(InputError, match=r"the array: values exceed the range of single precision .*; expected"):
        hasher.transform(features.open(np.full((5, D), 3e38, np.float32)))
