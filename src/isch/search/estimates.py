"""Nearest neighbours by 2-norms that are estimated from codes and factors in memory (hashing/recall.py)."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isch.errors import InputError
from isch.hashing import recall
from isch.search.exact import QUERIES_AT_ONCE, CodeTable, asymmetric_distances
from isch.search.intake import check_k

if TYPE_CHECKING:
    from isch.hashing.base import Hasher


def nearest_estimated(
    hasher: "Hasher", queries: Any, codes: ArrayLike | CodeTable, factors: ArrayLike, k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Find the k rows of each query with the least 2-norms, as codes and factors estimate them.

    Parameters
    ----------
    hasher : ISCH
        One that learned with ``objective="neighbours"``.
    queries : feature source
        The queries themselves, one row each.
    codes : array of uint8 (rows, bytes), or CodeTable
        ``hasher.transform(X)``.
    factors : array of float16 (rows, 2)
        ``hasher.factors(X)``.
    k : int
        Neighbours per query.

    Returns
    -------
    squares, rows : arrays (queries, min(k, rows))
        Estimates of the squared 2-norm and row numbers, sorted by (estimate, row). An estimate near zero may be
        negative.
    """
    check_k(k)
    table, kept = codes if isinstance(codes, CodeTable) else CodeTable(codes), np.asarray(factors)
    if kept.dtype.kind != "f" or kept.shape != (len(table), recall.N_FACTORS):
        raise InputError(f"factors must be floats of shape ({len(table)}, 2); got {kept.dtype} of shape {kept.shape}")
    features = recall.checked(hasher)._open_fitted(queries)
    values, lengths = hasher.project(features), recall.Lengths.of(hasher)(features.read(0, len(features)))
    wide, k = kept.astype(np.float32), min(k, len(table))
    squares, rows = np.empty((len(values), k), np.float32), np.empty((len(values), k), np.int64)
    for start in range(0, len(values), QUERIES_AT_ONCE):
        some = slice(start, start + QUERIES_AT_ONCE)
        inner = np.abs(values[some]).sum(axis=1, keepdims=True) - 2 * asymmetric_distances(values[some], table)
        found = recall.squared_distances(hasher, lengths[some], inner, wide)
        squares[some], rows[some] = _least(found, k)
    return squares, rows


def _least(values: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The k least of each row of a matrix, sorted by (value, column)."""
    edge = np.partition(values, k - 1, axis=1)[:, k - 1, None]
    rows = np.stack([_first(row, row <= limit, k) for row, limit in zip(values, edge, strict=True)])
    return np.take_along_axis(values, rows, axis=1), rows


def _first(values: NDArray[np.float32], allowed: NDArray[np.bool_], k: int) -> NDArray[np.int64]:
    columns = np.flatnonzero(allowed)
    return columns[np.argsort(values[columns], kind="stable")[:k]]
