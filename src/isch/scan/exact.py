"""Exact nearest neighbours among codes in memory.

All results are sorted by (distance, row), so ties are never left to chance.
"""

import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isch import codes as packed
from isch.codes import Codes
from isch.distances import HAMMING, Distance, Hamming, ProductAffinity, SphericalHamming, WeightedHamming
from isch.errors import InputError, ParameterError
from isch.lazy import Lazy
from isch.scan import numpy_reference
from isch.scan.numpy_reference import Floats, costs, half_byte_tables
from isch.scan.source import LANES, Source

if TYPE_CHECKING:
    from isch.scan import hamming, measures
    from isch.scan.kernels import selection
    from isch.scan.measures import Measure
else:
    hamming = Lazy("isch.scan.hamming")
    measures = Lazy("isch.scan.measures")
    selection = Lazy("isch.scan.kernels.selection")

Distances = NDArray[np.int32] | NDArray[np.float32]
Ranked = tuple[Distances, NDArray[np.int64]]

QUERIES_AT_ONCE = 128
GATHER_BELOW = 1 / 64  # share of rows per query (up to 8) below which it is faster to copy them than to skip the rest


class Hits(NamedTuple):
    """All rows within a radius: query i found ``rows[offsets[i]:offsets[i + 1]]``, sorted by (distance, row)."""

    offsets: NDArray[np.int64]
    rows: NDArray[np.int64]
    distances: NDArray[np.int32]


class CodeTable:
    """Codes laid out for fast search.

    The layout is uint64 (tile, word, lane), with 8 rows per tile, little-endian bytes and zero padding.

    Parameters
    ----------
    codes : array of uint8 (rows, bytes)
        Packed codes.
    """

    def __init__(self, codes: ArrayLike) -> None:
        rows = packed.check(codes)
        self._source = Source.of(hamming.lay_out(rows), *rows.shape)

    @classmethod
    def from_tiles(cls, tiles: NDArray[np.uint64], n_rows: int, n_bytes: int) -> "CodeTable":
        """A table over existing tiles, such as memory-mapped ones; nothing is read or copied."""
        expected = (-(-n_rows // LANES), -(-n_bytes // 8), LANES)
        if tiles.dtype != np.uint64 or tiles.shape != expected or not tiles.flags.c_contiguous:
            raise InputError(
                f"tiles of {n_rows} codes of {n_bytes} bytes must be C-contiguous uint64 {expected}; "
                f"got {tiles.dtype} {tiles.shape}"
            )
        table = cls.__new__(cls)
        table._source = Source.of(tiles, n_rows, n_bytes)
        return table

    @property
    def tiles(self) -> NDArray[np.uint64]:
        """The tiles themselves, read-only."""
        return self._source.data

    @property
    def n_bytes(self) -> int:
        """Bytes in one code."""
        return self._source.n_bytes

    def __len__(self) -> int:
        return self._source.n_rows

    def codes(self) -> Codes:
        """The codes, one row each."""
        return self._source.rows()


def tiles(codes: ArrayLike) -> NDArray[np.uint64]:
    """Codes laid out as uint64 (tile, word, lane)."""
    return hamming.lay_out(packed.check(codes))


def nearest(
    queries: ArrayLike,
    codes: ArrayLike | CodeTable,
    k: int,
    distance: Distance = HAMMING,
    mask: NDArray[Any] | None = None,
) -> Ranked:
    """Find the k nearest rows of each query, exactly.

    Parameters
    ----------
    queries : array of uint8 (queries, bytes)
        Packed codes; a single code is one query.
    codes : array of uint8 (rows, bytes), or CodeTable
        The codes to search. For repeated searches, make a CodeTable once.
    k : int
        Neighbours per query.
    distance : Distance
        How codes are compared; Hamming by default.
    mask : array, optional
        Which rows may be returned: one boolean per row, or row numbers in ascending order.

    Returns
    -------
    distances, rows : arrays (queries, min(k, rows allowed))
        Sorted by (distance, row).
    """
    source = _source(codes)
    wanted = packed.check(queries, source.n_bytes, "queries")
    if isinstance(distance, Hamming) and numpy_reference.allowance.grants(len(wanted), source.n_rows, source.words):
        return numpy_reference.nearest(source, wanted, _whole("k", k, 1), _numbered(mask, source.n_rows))
    search = _Restricted.to(source, mask, k, len(wanted))
    if search.k == 0 or len(wanted) == 0:
        return _empty(len(wanted), search.k, distance), np.empty((len(wanted), search.k), np.int64)
    if isinstance(distance, Hamming):
        found, rows = hamming.nearest(search.source, wanted, search.k, _lanes(search.mask))
        return found, search.original(rows)
    return search.least(_measure_of(wanted, distance, source.words), len(wanted))


def within(queries: ArrayLike, codes: ArrayLike | CodeTable, radius: int, mask: NDArray[Any] | None = None) -> Hits:
    """Find every row at most ``radius`` bits from each query.

    Parameters
    ----------
    queries : array of uint8 (queries, bytes)
        Packed codes; a single code is one query.
    codes : array of uint8 (rows, bytes), or CodeTable
        The codes to search.
    radius : int
        The largest number of bits that may differ.
    mask : array, optional
        As for ``nearest``.

    Returns
    -------
    Hits
        ``offsets``, ``rows`` and ``distances``: query i found ``rows[offsets[i]:offsets[i + 1]]``, sorted by
        (distance, row).
    """
    source = _source(codes)
    wanted = packed.check(queries, source.n_bytes, "queries")
    radius = min(_whole("radius", radius, 0), 64 * source.words)
    if numpy_reference.allowance.grants(len(wanted), source.n_rows, source.words):
        return Hits(*numpy_reference.within(source, wanted, radius, _numbered(mask, source.n_rows)))
    search = _Restricted.to(source, mask, 1, len(wanted))
    if len(wanted) == 0 or search.k == 0:
        return Hits(np.zeros(len(wanted) + 1, np.int64), np.empty(0, np.int64), np.empty(0, np.int32))
    found = hamming.within(search.source, wanted, radius, _lanes(search.mask))
    hits = Hits(np.empty(len(wanted) + 1, np.int64), np.empty(len(found), np.int64), np.empty(len(found), np.int32))
    selection.sort_hits(found, hits.offsets, radius, hits.rows, hits.distances)
    return hits._replace(rows=search.original(hits.rows))


def distances(queries: ArrayLike, codes: ArrayLike | CodeTable, distance: Distance = HAMMING) -> Distances:
    """The distance of every query to every row: (queries, rows)."""
    source = _source(codes)
    wanted = packed.check(queries, source.n_bytes, "queries")
    if len(wanted) == 0 or source.n_rows == 0:
        return _empty(len(wanted), source.n_rows, distance)
    if isinstance(distance, Hamming):
        return hamming.distances(source, wanted)
    out = np.empty((len(wanted), source.n_rows), np.float32)
    for some, measure in _measure_of(wanted, distance, source.words):
        measures.distances(source, measure, out[some])
    return out


def nearest_asymmetric(
    projections: ArrayLike, codes: ArrayLike | CodeTable, k: int, mask: NDArray[Any] | None = None
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The k rows nearest by the asymmetric distance to each query's real values: (distances, rows)."""
    source = _source(codes)
    values = _check_projections(projections, source.n_bytes)
    search = _Restricted.to(source, mask, k, len(values))
    if search.k == 0 or len(values) == 0:
        return np.empty((len(values), search.k), np.float32), np.empty((len(values), search.k), np.int64)
    parts = ((some, measures.asymmetric(values[some], source.words)) for some in _at_once(len(values)))
    return search.least(parts, len(values))


def asymmetric_distances(
    projections: ArrayLike, table: CodeTable, rows: ArrayLike | None = None
) -> NDArray[np.float32]:
    """Σ |z_i| [sign z_i ≠ b_i] of each query's real values z and its candidate rows: it orders as −Σ z_i b_i does.

    Parameters
    ----------
    projections : array (queries, bits)
        The real values whose signs are the bits of the queries.
    table : CodeTable
        The stored codes.
    rows : array of int, optional
        (queries, candidates), or (candidates,) for all queries alike; by default every row of the table.

    Returns
    -------
    array of float32 (queries, candidates)
    """
    source = table._source
    values = _check_projections(projections, source.n_bytes)
    if rows is None:
        every = np.empty((len(values), source.n_rows), np.float32)
        for some in _at_once(len(values)):
            measures.distances(source, measures.asymmetric(values[some], source.words), every[some])
        return every
    chosen = np.asarray(rows)
    if chosen.dtype.kind not in "iu" or chosen.ndim not in (1, 2) or (chosen.ndim == 2 and len(chosen) != len(values)):
        raise InputError(
            f"rows must be integers of shape ({len(values)}, candidates) or (candidates,); "
            f"got {chosen.dtype} of shape {chosen.shape}"
        )
    if chosen.size and not (chosen.min() >= 0 and chosen.max() < len(table)):
        raise InputError(f"rows must be within 0..{len(table) - 1}; got {chosen.min()}..{chosen.max()}")
    each = np.ascontiguousarray(np.broadcast_to(chosen, (len(values), chosen.shape[-1])), np.int64)
    if numpy_reference.allowance.grants(len(values), chosen.shape[-1], source.words):
        return numpy_reference.sums_of_candidates(source, each, half_byte_tables(*costs(values), source.words))
    out = np.empty(each.shape, np.float32)

    def score(span: tuple[int, int]) -> None:
        some = slice(*span)
        tables = half_byte_tables(*costs(values[some]), source.words)
        measures.sums_of_candidates(source.data, each[some], tables, out[some])

    hamming.on_all_cores(score, hamming.spans(len(values)))
    return out


class _Restricted(NamedTuple):
    """A search among the rows that a mask allows, in the whole source or, if they are few, in a copy of them."""

    source: Source
    mask: NDArray[np.bool_]
    taken: NDArray[np.int64] | None
    k: int

    @classmethod
    def to(cls, source: Source, allowed: NDArray[Any] | None, k: int, n_queries: int) -> "_Restricted":
        k, every = _whole("k", k, 1), np.empty(0, np.bool_)
        if allowed is None:
            return cls(source, every, None, min(k, source.n_rows))
        _check_allowed(allowed, source.n_rows)
        numbered = allowed.dtype != np.bool_
        n = len(allowed) if numbered else int(np.count_nonzero(allowed))
        if n < GATHER_BELOW * min(n_queries, LANES) * source.n_rows:
            taken = allowed if numbered else np.flatnonzero(allowed)
            return cls(source.take(taken) if n else source, every, taken, min(k, n))
        if numbered:
            mask = np.zeros(source.n_rows, np.bool_)
            mask[allowed] = True
            allowed = mask
        return cls(source, allowed, None, min(k, n))

    def original(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of the whole source."""
        return rows if self.taken is None else self.taken[rows]

    def least(self, parts: Iterator[tuple[slice, "Measure"]], n_queries: int) -> tuple[Floats, NDArray[np.int64]]:
        """The k least by the measures of parts of the queries."""
        found, rows = np.empty((n_queries, self.k), np.float32), np.empty((n_queries, self.k), np.int64)
        for some, measure in parts:
            n = len(found[some])
            found[some], rows[some] = measures.nearest(self.source, measure, n, self.k, self.mask)
        return found, self.original(rows)


def _numbered(allowed: NDArray[Any] | None, n_rows: int) -> NDArray[np.int64] | None:
    """The numbers of the rows that a mask allows; None: all."""
    if allowed is None:
        return None
    _check_allowed(allowed, n_rows)
    return np.flatnonzero(allowed) if allowed.dtype == np.bool_ else allowed


def _check_allowed(allowed: NDArray[Any], n_rows: int) -> None:
    """Refuse a mask that is neither one boolean per row nor ascending row numbers."""
    if isinstance(allowed, np.ndarray) and allowed.dtype == np.bool_ and allowed.shape == (n_rows,):
        return
    if isinstance(allowed, np.ndarray) and allowed.dtype == np.int64 and allowed.ndim == 1:
        if not len(allowed) or (allowed[0] >= 0 and allowed[-1] < n_rows and (np.diff(allowed) > 0).all()):
            return
        raise InputError(f"mask must be ascending row numbers within 0..{n_rows - 1}")
    raise InputError(
        f"mask must be a boolean array of shape ({n_rows},) or ascending row numbers; "
        f"got {getattr(allowed, 'dtype', type(allowed).__name__)} of shape {np.shape(allowed)}"
    )


def _measure_of(queries: Codes, distance: Distance, words: int) -> Iterator[tuple[slice, "Measure"]]:
    """The measure of each part of the queries."""
    for some in _at_once(len(queries)):
        match distance:
            case SphericalHamming():
                yield some, measures.spherical(queries[some])
            case WeightedHamming(weights):
                _check_bits("weights", len(weights), queries.shape[1])
                yield some, measures.weighted(queries[some], np.asarray(weights, np.float32), words)
            case ProductAffinity(weights):
                _check_bits("weights", len(weights), queries.shape[1])
                yield some, measures.product_affinity(queries[some], distance)
            case _:
                raise InputError(f"distance must be one of isch.distances; got {distance!r}")


def _empty(n_queries: int, n_rows: int, distance: Distance) -> Distances:
    if isinstance(distance, Hamming):
        return np.empty((n_queries, n_rows), np.int32)
    return np.empty((n_queries, n_rows), np.float32)


def _at_once(n: int) -> Iterator[slice]:
    return (slice(start, start + QUERIES_AT_ONCE) for start in range(0, n, QUERIES_AT_ONCE))


def _source(codes: ArrayLike | CodeTable) -> Source:
    if isinstance(codes, CodeTable):
        return codes._source
    rows = packed.check(codes)
    return Source.of(rows, *rows.shape)


def _lanes(mask: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """A mask of rows as a byte of lanes per tile."""
    return np.packbits(mask, bitorder="little")


def _check_projections(projections: ArrayLike, n_bytes: int) -> NDArray[np.float32]:
    values = np.atleast_2d(np.asarray(projections, np.float32))
    if values.ndim != 2:
        raise InputError(f"projections must be a matrix (queries, bits); got shape {values.shape}")
    _check_bits("projections", values.shape[1], n_bytes)
    if not np.isfinite(values).all():
        raise InputError("projections must be finite; got NaN or infinity")
    return values


def _check_bits(name: str, n_bits: int, n_bytes: int) -> None:
    if packed.width(n_bits) != n_bytes:
        raise InputError(f"{name} must have one value per bit of {n_bytes}-byte codes; got {n_bits} values")


def check_k(k: int) -> None:
    """Refuse a number of hits that is not a positive integer."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ParameterError(f"k must be an integer of at least 1; got {k!r}")


def check_radius(radius: int) -> None:
    """Refuse a radius that is not a whole number."""
    if isinstance(radius, bool) or not isinstance(radius, int | np.integer) or radius < 0:
        raise ParameterError(f"radius must be an integer of at least 0; got {radius!r}")


def _whole(name: str, value: int, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise ParameterError(f"{name} must be a whole number; got {value!r}") from None
    if number < least:
        raise ParameterError(f"{name} must be at least {least}; got {number}")
    return number
