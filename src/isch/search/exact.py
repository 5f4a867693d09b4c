"""Exact nearest neighbours among codes in memory.

Everything is sorted by (distance, row): ties are never left to chance.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isch import codes as packed
from isch.codes import Codes
from isch.distances import HAMMING, Distance, Hamming, ProductAffinity, SphericalHamming, WeightedHamming
from isch.errors import InputError, ParameterError

LANES = 8


class Hits(NamedTuple):
    """What lies within a radius: query i found ``rows[offsets[i]:offsets[i + 1]]``, sorted by (distance, row)."""

    offsets: NDArray[np.int64]
    rows: NDArray[np.int64]
    distances: NDArray[np.int32]


class CodeTable:
    """Codes laid out for search: uint64 (tile, word, lane), 8 rows a tile, bytes little-endian, zero padded."""

    def __init__(self, codes: ArrayLike) -> None:
        rows = packed.check(codes)
        self.tiles, self._n_rows, self.n_bytes = tiles(rows), len(rows), rows.shape[1]

    @classmethod
    def from_tiles(cls, tiles: NDArray[np.uint64], n_rows: int, n_bytes: int) -> "CodeTable":
        """A table over tiles that exist already, for example memory-mapped; nothing is read or copied."""
        expected = (-(-n_rows // LANES), -(-n_bytes // 8), LANES)
        if tiles.dtype != np.uint64 or tiles.shape != expected or not tiles.flags.c_contiguous:
            raise InputError(
                f"tiles of {n_rows} codes of {n_bytes} bytes must be C-contiguous uint64 {expected}; "
                f"got {tiles.dtype} {tiles.shape}"
            )
        table = cls.__new__(cls)
        table.tiles, table._n_rows, table.n_bytes = tiles, n_rows, n_bytes
        return table

    def __len__(self) -> int:
        return self._n_rows

    def codes(self) -> Codes:
        """The codes, one row each."""
        words = np.ascontiguousarray(self.tiles.transpose(0, 2, 1)).astype("<u8", copy=False)
        return np.ascontiguousarray(words.view(np.uint8).reshape(-1, words.shape[2] * 8)[: self._n_rows, : self.n_bytes])


def tiles(codes: ArrayLike) -> NDArray[np.uint64]:
    """Codes laid out as uint64 (tile, word, lane)."""
    rows = packed.check(codes)
    n_tiles, words = -(-len(rows) // LANES), -(-rows.shape[1] // 8)
    padded = np.zeros((n_tiles * LANES, words * 8), np.uint8)
    padded[: len(rows), : rows.shape[1]] = rows
    lanes = padded.view("<u8").astype(np.uint64, copy=False).reshape(n_tiles, LANES, words)
    return np.ascontiguousarray(lanes.transpose(0, 2, 1))


def nearest(
    queries: ArrayLike,
    codes: "ArrayLike | CodeTable",
    k: int,
    distance: Distance = HAMMING,
    mask: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.int32] | NDArray[np.float32], NDArray[np.int64]]:
    """The k nearest rows of each query: (distances, rows), each (queries, min(k, rows allowed by the mask)).

    ``mask`` says which rows may be returned.
    """
    _check_k(k)
    dense = distances(queries, codes, distance)
    allowed = _allowed(mask, dense.shape[1])
    order = np.argsort(dense[:, allowed], axis=1, kind="stable")[:, :k]
    rows = allowed[order]
    return np.take_along_axis(dense, rows, axis=1), rows


def within(
    queries: ArrayLike, codes: "ArrayLike | CodeTable", radius: int, mask: NDArray[np.bool_] | None = None
) -> Hits:
    """Every row at most ``radius`` bits from each query."""
    dense = distances(queries, codes)
    allowed = _allowed(mask, dense.shape[1])
    found = [allowed[row[allowed] <= radius] for row in dense]
    ordered = [rows[np.argsort(row[rows], kind="stable")] for row, rows in zip(dense, found, strict=True)]
    offsets = np.cumsum([0, *map(len, ordered)])
    every = [np.empty(0, np.int64), *ordered]
    bits = [np.empty(0, np.int32), *(row[rows] for row, rows in zip(dense, ordered, strict=True))]
    return Hits(offsets.astype(np.int64), np.concatenate(every), np.concatenate(bits))


def distances(
    queries: ArrayLike, codes: "ArrayLike | CodeTable", distance: Distance = HAMMING
) -> NDArray[np.int32] | NDArray[np.float32]:
    """The distance of every query to every row: (queries, rows)."""
    rows = codes.codes() if isinstance(codes, CodeTable) else packed.check(codes)
    wanted = packed.check(queries, rows.shape[1], "queries")
    match distance:
        case Hamming():
            out = np.zeros((len(wanted), len(rows)), np.int32)
            for i, query in enumerate(wanted):
                out[i] = np.bitwise_count(rows ^ query).sum(axis=1, dtype=np.int32)
            return out
        case SphericalHamming() | WeightedHamming() | ProductAffinity():
            return np.stack([_float_distances(query, rows, distance) for query in wanted])


def _float_distances(query: Codes, rows: Codes, distance: Distance) -> NDArray[np.float32]:
    if isinstance(distance, SphericalHamming):
        differ = np.bitwise_count(rows ^ query).sum(axis=1)
        share = np.bitwise_count(rows & query).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(differ == 0, 0, differ / share).astype(np.float32)
    if isinstance(distance, WeightedHamming):
        return (packed.unpack(rows ^ query, len(distance.weights)) @ distance.weights).astype(np.float32)
    if isinstance(distance, ProductAffinity):
        agree = packed.signs(~(rows ^ query), len(distance.weights)) * distance.weights
        affinity = np.zeros(len(rows), np.float32)
        for group in np.unique(distance.groups):
            product = np.ones(len(rows), np.float32)
            for coordinate in np.unique(distance.coordinates[distance.groups == group]):
                bits = (distance.groups == group) & (distance.coordinates == coordinate)
                product *= 1 + agree[:, bits].sum(axis=1)
            affinity += product - 1
        return -affinity
    raise InputError(f"distance must be one of isch.distances; got {distance!r}")


def nearest_asymmetric(
    projections: ArrayLike, codes: "ArrayLike | CodeTable", k: int, mask: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The k rows with the highest score Σ z_i b_i (b = ±1) for each query's real values z: (scores, rows).

    Sorted by (−score, row).
    """
    _check_k(k)
    table = codes if isinstance(codes, CodeTable) else CodeTable(codes)
    allowed = _allowed(mask, len(table))
    scores = asymmetric_scores(projections, table, allowed)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, order, axis=1), allowed[order]


def asymmetric_scores(projections: ArrayLike, table: CodeTable, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Σ z_i b_i (b = ±1) of each query's real values z with its candidate rows (queries, candidates).

    ``rows`` is (queries, candidates), or (candidates,) for all queries alike.
    """
    values = np.atleast_2d(np.asarray(projections, np.float32))
    signs = packed.signs(table.codes(), values.shape[1])
    return np.stack([signs[chosen] @ z for z, chosen in zip(values, _per_query(rows, len(values)), strict=True)])


def _per_query(rows: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    return np.broadcast_to(rows, (n, rows.shape[-1]))


def _allowed(mask: NDArray[np.bool_] | None, n: int) -> NDArray[np.int64]:
    if mask is None:
        return np.arange(n)
    if mask.dtype != np.bool_ or mask.shape != (n,):
        raise InputError(f"mask must be boolean of shape ({n},); got {mask.dtype} of shape {mask.shape}")
    return np.flatnonzero(mask)


def _check_k(k: int) -> None:
    if k < 1:
        raise ParameterError(f"k must be at least 1; got {k}")
