"""Untrusted sparse matrices: checked in full, because SciPy's compiled code trusts their indices."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch import lazy
from isch.errors import InputError
from isch.features.checks import check_matrix, check_memory

COMPRESSED = ("csr", "csc", "bsr")
PARTS = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "bsr": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
    "dia": ("data", "offsets"),
}


def checked(matrix: Any, where: str) -> "lazy.sparse.csr_array":
    """A SciPy sparse matrix of any kind as CSR.

    Parameters
    ----------
    matrix : scipy.sparse matrix or array
        What a user or a file gives.
    where : str
        Its name in messages.

    Raises
    ------
    InputError
        It is not a matrix of real numbers, or it is broken (see ``check_indices``).
    """
    check_matrix(matrix.shape, matrix.dtype, where)
    check_memory(8 * matrix.shape[0], where)  # the row pointers of CSR, whatever the matrix has now
    check_indices(matrix, where)
    return lazy.sparse.csr_array(matrix.tocsr())


def check_indices(matrix: Any, where: str) -> None:
    """Refuse a sparse matrix with an index outside its shape, or with pointers that do not rise.

    Kinds that are not in ``PARTS`` hold Python objects, which check themselves.
    """
    if matrix.ndim != 2:
        raise InputError(f"{where}: expected a matrix (rows, columns); got shape {matrix.shape}")
    if matrix.format in COMPRESSED:
        _check_compressed(matrix, where)
    elif matrix.format == "coo":
        _check_lengths(where, data=matrix.data, row=matrix.row, col=matrix.col)
        _check_range(matrix.row, 0, matrix.shape[0], "row index", where)
        _check_range(matrix.col, 0, matrix.shape[1], "column index", where)
    elif matrix.format == "dia":
        _check_lengths(where, data=matrix.data, offsets=matrix.offsets)
        _check_range(matrix.offsets, 1 - matrix.shape[0], matrix.shape[1], "offset", where)


def parts(matrix: "lazy.sparse.csr_array") -> dict[str, NDArray[Any]]:
    """The arrays that ``scipy.sparse.save_npz`` would store."""
    arrays = {part: getattr(matrix, part) for part in PARTS["csr"]}
    return {"format": np.array(b"csr"), "shape": np.array(matrix.shape), **arrays}


def assembled(kind: str, parts: dict[str, NDArray[Any]], shape: tuple[int, int], where: str) -> "lazy.sparse.csr_array":
    """The CSR matrix of the arrays that ``scipy.sparse.save_npz`` stores (see ``PARTS``)."""
    for name, array in parts.items():
        expected = {"bsr": 3, "dia": 2}.get(kind, 1) if name == "data" else 1
        if array.ndim != expected or (name != "data" and array.dtype.kind not in "iu"):
            raise InputError(
                f"{where}: {name} is {array.dtype} of shape {array.shape}; expected {expected} dimensions"
                + ("" if name == "data" else " of integers")
            )
    data, *indices = (parts[name] for name in PARTS[kind])
    try:
        if kind in COMPRESSED:
            return checked(getattr(lazy.sparse, f"{kind}_array")((data, *indices), shape=shape), where)
        if kind == "dia":
            return checked(lazy.sparse.dia_array((data, indices[0]), shape=shape), where)
        return checked(lazy.sparse.coo_array((data, tuple(indices)), shape=shape), where)
    except ValueError as error:
        raise error if isinstance(error, InputError) else InputError(f"{where}: {error}") from error


def _check_compressed(matrix: Any, where: str) -> None:
    block = matrix.blocksize if matrix.format == "bsr" else (1, 1)
    if min(block) < 1:
        raise InputError(f"{where}: expected blocks of at least one value; got {block}")
    lines, span = matrix.shape[0] // block[0], matrix.shape[1] // block[1]
    if matrix.format == "csc":
        lines, span = span, lines
    borders, indices = matrix.indptr, matrix.indices
    for array, name in ((borders, "indptr"), (indices, "indices")):
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise InputError(f"{where}: {name} must be a list of integers; got {array.dtype} of shape {array.shape}")
    _check_lengths(where, data=matrix.data, indices=indices)
    falling = len(borders) and (borders[1:] < borders[:-1]).any()
    if len(borders) != lines + 1 or borders[0] != 0 or borders[-1] > len(indices) or falling:
        raise InputError(
            f"{where}: indptr must rise from 0 to at most {len(indices)} in {lines + 1} steps; "
            f"got {len(borders)} values from {borders[:1]} to {borders[-1:]}"
        )
    what = "row index" if matrix.format == "csc" else "column index"
    _check_range(indices[: int(borders[-1])], 0, span, what, where)


def _check_range(indices: NDArray[Any], first: int, end: int, what: str, where: str) -> None:
    if len(indices) and (indices.min() < first or indices.max() >= end):
        bad = int(indices.min() if indices.min() < first else indices.max())
        raise InputError(f"{where}: {what} {bad} is outside the matrix; expected {first} to {end - 1}")


def _check_lengths(where: str, **arrays: NDArray[Any]) -> None:
    if len({len(array) for array in arrays.values()}) > 1:
        got = ", ".join(f"{len(array)} {name}" for name, array in arrays.items())
        raise InputError(f"{where}: expected as many indices as values; got {got}")
