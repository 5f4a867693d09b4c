"""What learned attributes must look like."""

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from isch import learned
from isch.errors import InputError
from isch.learned import Array, Optional

EXPECTED: learned.Expected = {
    "mean_": Array("float64", "d"),
    "axes_": Array("float32", "d", "c"),
    "few_": Array("int32", 2, "c"),
    "sparse_": Array("float32", "m", "d", sparse=True),
    "rank_": Optional(int),
    "share_": float,
    "kind_": str,
}
GOOD: dict[str, Any] = {
    "mean_": np.zeros(5),
    "axes_": np.zeros((5, 3), np.float32),
    "few_": np.zeros((2, 3), np.int32),
    "sparse_": csr_array(np.eye(4, 5, dtype=np.float32)),
    "rank_": None,
    "share_": 1,
    "kind_": "flat",
}
SIZES = {"d": 5, "m": 4}


def test_letters_stand_for_one_number_throughout() -> None:
    assert learned.check(EXPECTED, GOOD, SIZES) == {"d": 5, "m": 4, "c": 3}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("mean_", np.zeros(6), r"mean_ must be float64 of shape \(5,\); got float64 of shape \(6,\)"),
        ("mean_", np.zeros(5, np.float32), "mean_ must be float64 of shape"),
        ("mean_", np.zeros((5, 1)), "mean_ must be float64 of shape"),
        ("mean_", np.array(0.0), "mean_ must be float64 of shape"),
        ("mean_", np.full(5, np.nan), "mean_ holds NaN or infinity"),
        ("mean_", [0.0] * 5, "mean_ must be an array; got"),
        ("mean_", None, "mean_ must be an array; got None"),
        ("few_", np.zeros((2, 4), np.int32), r"few_ must be int32 of shape \(2, 3\)"),
        ("sparse_", np.eye(4, 5, dtype=np.float32), "sparse_ must be a sparse matrix"),
        ("sparse_", csr_array(np.eye(5, dtype=np.float32)), r"sparse_ must be float32 of shape \(4, 5\)"),
        ("rank_", "7", "rank_ must be of type int"),
        ("rank_", -1, "rank_ must be of type int"),
        ("rank_", 1 << 80, "rank_ must be of type int"),
        ("rank_", True, "rank_ must be of type int"),
        ("share_", "much", "share_ must be of type float"),
        ("kind_", 3, "kind_ must be of type str"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        learned.check(EXPECTED, {**GOOD, name: value}, SIZES)


def test_missing_and_unknown_attributes_are_named() -> None:
    with pytest.raises(InputError, match="axes_ is missing"):
        learned.check(EXPECTED, {k: v for k, v in GOOD.items() if k != "axes_"}, SIZES)
    with pytest.raises(InputError, match="transform is not something this method learns"):
        learned.check(EXPECTED, {**GOOD, "transform": 3}, SIZES)


def test_numbers_that_choose_are_within_range() -> None:
    learned.check_range("x_", np.array([0, 4]), 5)
    for bad in ([-1, 0], [0, 5]):
        with pytest.raises(InputError, match="x_ must hold numbers from 0 to 4"):
            learned.check_range("x_", np.array(bad), 5)
