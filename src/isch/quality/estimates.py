"""Nearest neighbours by 2-norms that are estimated from codes and factors in memory (hashing/recall.py)."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isch.errors import InputError
from isch.features import Features, Subset
from isch.hashing import distance as estimator
from isch.quality.ground_truth import Neighbours
from isch.quality.rank_model import Competition, Floats, Staged
from isch.scan.exact import QUERIES_AT_ONCE, CodeTable, asymmetric_distances, check_k

FACTOR_BYTES = 2 * estimator.N_FACTORS  # per item

if TYPE_CHECKING:
    from isch.hashing.base import Hasher


def nearest_estimated(
    hasher: "Hasher", queries: Any, codes: ArrayLike | CodeTable, factors: ArrayLike, k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Find the k rows of each query with the least 2-norms, as codes and factors estimate them.

    Parameters
    ----------
    hasher : DistanceHash
        A fitted ``DistanceHash``.
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
    if kept.dtype.kind != "f" or kept.shape != (len(table), estimator.N_FACTORS):
        raise InputError(f"factors must be floats of shape ({len(table)}, 2); got {kept.dtype} of shape {kept.shape}")
    features = estimator.checked(hasher)._open_fitted(queries)
    values = hasher.project(features) + estimator.thresholds_of(hasher)
    lengths = estimator.Lengths.of(hasher)(features.read(0, len(features)))
    wide, k = kept.astype(np.float32), min(k, len(table))
    squares, rows = np.empty((len(values), k), np.float32), np.empty((len(values), k), np.int64)
    for start in range(0, len(values), QUERIES_AT_ONCE):
        some = slice(start, start + QUERIES_AT_ONCE)
        inner = np.abs(values[some]).sum(axis=1, keepdims=True) - 2 * asymmetric_distances(values[some], table)
        found = estimator.squared_distances(hasher, lengths[some], inner, wide)
        squares[some], rows[some] = _least(found, k)
    return squares, rows


def ranks(
    hasher: "Hasher", features: Features, neighbours: Neighbours, codes: Competition, first: Floats, weights: Floats
) -> Staged:
    """Where estimates put the rows near each query; ``first`` is the probability that bits made them candidates."""
    rows = np.unique(np.concatenate([neighbours.queries, neighbours.near.ravel(), codes.sample_rows]))
    kept = estimator.checked(hasher).factors(Subset(features, rows)).astype(np.float32)
    at = partial(np.searchsorted, rows)
    asked = hasher._open_fitted(Subset(features, neighbours.queries))
    values = hasher.project(asked) + estimator.thresholds_of(hasher)
    queries = Asked(values, estimator.Lengths.of(hasher)(asked.read(0, len(asked))))
    missing = codes.n_rows - 1 - neighbours.near.shape[1]
    before, table, sampled = np.empty(neighbours.near.shape), CodeTable(codes.sample), kept[at(codes.sample_rows)]
    for i, rows_near in enumerate(neighbours.near):
        near = queries.squares(hasher, i, CodeTable(codes.near[i]), kept[at(rows_near)])
        others = queries.squares(hasher, i, table, sampled)
        known = np.searchsorted(codes.sample_rows, left_out := np.append(rows_near, neighbours.queries[i]))
        known = known[codes.sample_rows[known.clip(0, len(others) - 1)] == left_out]
        others[known] = np.inf  # neither the query nor rows that are counted already
        nearer = np.searchsorted(np.sort(others[others < near.max()]), near)
        before[i] = np.searchsorted(np.sort(near), near) + missing / max(1, len(others) - len(known)) * nearer
    return Staged(before, np.ones_like(before), weights, first)


@dataclass(frozen=True)
class Asked:
    """Real values of queries, and their squared distances from the mean."""

    values: NDArray[np.float32]
    lengths: NDArray[np.float32]

    def squares(self, hasher: "Hasher", i: int, table: CodeTable, factors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Estimated squared 2-norms between a query and all rows of a table."""
        some = self.values[i : i + 1]
        inner = np.abs(some).sum(axis=1, keepdims=True) - 2 * asymmetric_distances(some, table)
        return np.asarray(estimator.squared_distances(hasher, self.lengths[i : i + 1], inner, factors)[0])


def _least(values: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The k least of each row of a matrix, sorted by (value, column)."""
    edge = np.partition(values, k - 1, axis=1)[:, k - 1, None]
    rows = np.stack([_first(row, row <= limit, k) for row, limit in zip(values, edge, strict=True)])
    return np.take_along_axis(values, rows, axis=1), rows


def _first(values: NDArray[np.float32], allowed: NDArray[np.bool_], k: int) -> NDArray[np.int64]:
    columns = np.flatnonzero(allowed)
    return columns[np.argsort(values[columns], kind="stable")[:k]]
