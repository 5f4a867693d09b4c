"""Broken sparse matrices in memory; those in files are in the attack."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

import isch
from isch import features
from isch.errors import InputError
from isch.features.sparse import PARTS, assembled, checked

X: NDArray[np.float32] = np.where(np.arange(24) % 3, np.arange(24), 0).astype(np.float32).reshape(6, 4)


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo", "dia", "lil", "dok"])
@pytest.mark.parametrize("wrap", [sparse.coo_array, sparse.coo_matrix])
def test_every_kind_is_read(kind: str, wrap: Any) -> None:
    np.testing.assert_array_equal(checked(wrap(X).asformat(kind), "x").toarray(), X)


def broken(kind: str, part: str, value: Any) -> Any:
    """A matrix that was changed behind the back of its class."""
    matrix = sparse.csr_matrix(X).asformat(kind)
    array = getattr(matrix, part).copy()
    array[1] = value
    setattr(matrix, part, array)
    return matrix


@pytest.mark.parametrize(
    ("kind", "part", "value", "message"),
    [
        ("csr", "indices", 4, "column index 4 is outside the matrix; expected 0 to 3"),
        ("csr", "indices", -1, "column index -1 is outside"),
        ("csr", "indptr", -5, "indptr must rise"),
        ("csr", "indptr", 2**31 - 1, "indptr must rise"),
        ("csc", "indices", 6, "row index 6 is outside the matrix; expected 0 to 5"),
        ("csc", "indptr", -5, "indptr must rise"),
        ("bsr", "indices", 4, "column index 4 is outside"),
        ("bsr", "indptr", 100, "indptr must rise"),
        ("coo", "row", 6, "row index 6 is outside the matrix"),
        ("coo", "col", -1, "column index -1 is outside the matrix"),
        ("dia", "offsets", 10**9, "offset 1000000000 is outside the matrix; expected -5 to 3"),
    ],
)
def test_broken_indices_are_refused_everywhere(kind: str, part: str, value: int, message: str) -> None:
    matrix = broken(kind, part, value)
    hasher = isch.hasher("lsh", n_bits=4, random_state=0).fit(sparse.csr_array(X))
    for use in (features.open, hasher.transform, isch.hasher("lsh", n_bits=4).fit):
        with pytest.raises(InputError, match=f"the sparse matrix: {message}"):
            use(matrix)


def test_a_shape_smaller_than_the_indices() -> None:
    matrix = sparse.csr_matrix(X)
    matrix._shape = (6, 2)
    with pytest.raises(InputError, match="column index 3 is outside"):
        features.open(matrix)


def test_values_and_indices_of_different_number() -> None:
    matrix = sparse.csr_matrix(X)
    matrix.data = matrix.data[:-2]
    with pytest.raises(InputError, match="as many indices as values; got 14 data, 16 indices"):
        features.open(matrix)


def test_more_than_two_dimensions() -> None:
    with pytest.raises(InputError, match="expected a matrix"):
        features.open(sparse.coo_array(np.ones((2, 2, 2))))


def test_unsorted_and_repeated_indices_are_legal() -> None:
    matrix = sparse.csr_array((np.array([1.0, 2.0, 3.0]), np.array([3, 0, 3]), np.array([0, 3])), shape=(1, 4))
    np.testing.assert_array_equal(features.dense(features.open(matrix).read(0, 1)), [[2, 0, 0, 4]])


@pytest.mark.parametrize("kind", PARTS)
def test_assembled_from_parts(kind: str) -> None:
    matrix = sparse.csr_array(X).asformat(kind)
    parts = {part: getattr(matrix, part) for part in PARTS[kind]}
    np.testing.assert_array_equal(assembled(kind, parts, (6, 4), "x").toarray(), X)
