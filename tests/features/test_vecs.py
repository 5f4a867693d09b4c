from pathlib import Path

import numpy as np
import pytest

from isch import features
from isch.errors import FormatError

X = np.arange(24, dtype=np.float32).reshape(6, 4)


@pytest.fixture
def rows() -> np.ndarray:
    made = np.empty(6, [("n", "<i4"), ("x", "<f4", 4)])
    made["n"], made["x"] = 4, X
    return made


@pytest.mark.parametrize("row", [1, 3, 5])
def test_the_length_of_every_row_counts(tmp_path: Path, rows: np.ndarray, row: int) -> None:
    rows["n"][row] = 3
    rows.tofile(tmp_path / "x.fvecs")
    source = features.open(tmp_path / "x.fvecs")
    np.testing.assert_array_equal(source.read(0, row), X[:row])
    message = rf"x\.fvecs: row {row} has 3 values; expected 4, as in the first row"
    for read in (
        lambda: source.read(row, row + 1),
        lambda: source.take(np.array([0, row])),
        lambda: list(source.batches(2)),
        lambda: features.Subset(source, np.array([row])).read(0, 1),
    ):
        with pytest.raises(FormatError, match=message):
            read()


@pytest.mark.parametrize("length", [0, -1, 2**31 - 1])
def test_a_first_length_that_makes_no_sense(tmp_path: Path, rows: np.ndarray, length: int) -> None:
    rows["n"] = length
    rows.tofile(tmp_path / "x.fvecs")
    with pytest.raises(FormatError, match=f"not a whole number of fvecs rows .*first length {length}"):
        features.open(tmp_path / "x.fvecs")
