"""Distances that are not integers, for blocks of rows, and the k smallest of them with ties by row, on all cores.

Weighted Hamming distances and asymmetric scores are sums over bits, hence over half-bytes. Each half-byte and query has
a table of 16 values; the tables of 16 queries are side by side, so that one vector addition serves 16 queries.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from isch.codes import Codes, unpack
from isch.distances import ProductAffinity
from isch.scan import hamming
from isch.scan.numpy_reference import Floats, costs, half_byte_tables
from isch.scan.source import LANES, Source

BLOCK_TILES = 128

Measure = Callable[[Source], Floats]
"""The distances (queries, rows) of some queries to all rows of a block."""

SIDE_BY_SIDE = 16
AFFINITIES = 256  # rows whose affinities to a query are computed side by side


@intrinsic(prefer_literal=True)
def _add_tables(typing, tables, words, rows, out, n_rows):  # type: ignore[no-untyped-def]
    """Sum the tables of 16 queries over the half-bytes of ``n_rows`` (a literal) neighbouring lanes of a tile."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        _emit_sums(builder, arguments[:4], signature.args[-1].literal_value)

    return types.void(types.int64, types.int64, types.int64, types.int64, n_rows), codegen


def _emit_sums(build: Any, arguments: Any, n_rows: int) -> None:
    tables, words, rows, out = arguments
    word_type, vector = ir.IntType(64), ir.VectorType(ir.FloatType(), SIDE_BY_SIDE)
    table = build.inttoptr(tables, vector.as_pointer())
    codes, into = build.inttoptr(rows, word_type.as_pointer()), build.inttoptr(out, vector.as_pointer())
    before, loop, done = build.block, build.append_basic_block("sum.loop"), build.append_basic_block("sum.done")
    build.branch(loop)
    build.position_at_end(loop)
    word, totals = build.phi(word_type), [build.phi(vector) for _ in range(n_rows)]
    sums = []
    for lane, total in enumerate(totals):
        at = build.add(build.mul(word, word_type(LANES)), word_type(lane))
        bits, added = build.load(build.gep(codes, [at]), align=8), total
        for half in range(16):
            shift = 8 * (half // 2) + (4 if half % 2 == 0 else 0)
            value = build.and_(build.lshr(bits, word_type(shift)), word_type(15))
            place = build.add(
                build.mul(build.add(build.mul(word, word_type(16)), word_type(half)), word_type(16)), value
            )
            added = build.fadd(added, build.load(build.gep(table, [place]), align=4))
        sums.append(added)
    following = build.add(word, word_type(1))
    build.cbranch(build.icmp_signed("<", following, words), loop, done)
    word.add_incoming(word_type(0), before)
    word.add_incoming(following, loop)
    for total, added in zip(totals, sums, strict=True):
        total.add_incoming(ir.Constant(vector, [0.0] * SIDE_BY_SIDE), before)
        total.add_incoming(added, loop)
    build.position_at_end(done)
    for lane, added in enumerate(sums):
        build.store(added, build.gep(into, [word_type(lane)]), align=4)


@njit(cache=True, nogil=True)
def _sum_tables(tiles, tables, out):  # type: ignore[no-untyped-def]
    """Sums (query, row) of tables (group, half-byte, value, 16 queries) over the codes of the tiles."""
    n_queries, n_rows = out.shape
    sums = np.empty((LANES, SIDE_BY_SIDE), np.float32)
    for group in range(len(tables)):
        at, lookups = group * SIDE_BY_SIDE, tables[group].ctypes.data
        for tile in range(len(tiles)):
            codes, row = tiles[tile].ctypes.data, tile * LANES
            _add_tables(lookups, tiles.shape[1], codes, sums.ctypes.data, 4)
            _add_tables(lookups, tiles.shape[1], codes + 32, sums[4:].ctypes.data, 4)
            for q in range(at, min(at + SIDE_BY_SIDE, n_queries)):
                for lane in range(min(LANES, n_rows - row)):
                    out[q, row + lane] = sums[lane, q - at]


def sums_over_bits(unset: Floats, is_set: Floats, words: int) -> Measure:
    """The measure that adds what each bit (query, bit) contributes when 0 and when 1."""
    n, width = len(unset), SIDE_BY_SIDE
    lookups = np.zeros((-(-n // width) * width, 16 * words, 16), np.float32)
    lookups[:n] = half_byte_tables(unset, is_set, words)
    tables = np.ascontiguousarray(lookups.reshape(-1, width, 16 * words, 16).transpose(0, 2, 3, 1))

    def measure(block: Source) -> Floats:
        out = np.empty((n, block.n_rows), np.float32)
        _sum_tables(block.data, tables, out)
        return out

    return measure


def asymmetric(projections: Floats, words: int) -> Measure:
    """Σ |z_i| [sign z_i ≠ b_i]."""
    return sums_over_bits(*costs(projections), words)


def weighted(queries: Codes, weights: Floats, words: int) -> Measure:
    """Σ w_i [a_i ≠ b_i]."""
    bits = unpack(queries, len(weights))
    return sums_over_bits(bits * weights, ~bits * weights, words)


def spherical(queries: Codes) -> Measure:
    """|a ⊕ b| / |a ∧ b|, where |a ∧ b| = (|a| + |b| − |a ⊕ b|) / 2."""
    ones, nothing = np.bitwise_count(queries).sum(axis=1, dtype=np.int32), np.zeros_like(queries[:1])

    def measure(block: Source) -> Floats:
        differ = hamming.distances_here(block, np.concatenate([queries, nothing]))
        out = np.empty((len(queries), block.n_rows), np.float32)
        _spherical(differ[:-1], ones, differ[-1], out)
        return out

    return measure


@njit(cache=True, nogil=True)
def _spherical(differ, query_ones, row_ones, out):  # type: ignore[no-untyped-def]
    for q in range(len(differ)):
        for row in range(differ.shape[1]):
            bits = differ[q, row]
            shared = (query_ones[q] + row_ones[row] - bits) // 2
            out[q, row] = np.float32(bits) / np.float32(shared) if shared else np.inf if bits else 0.0


def product_affinity(queries: Codes, distance: ProductAffinity) -> Measure:
    """−asinh Σ_groups Π_k (1 + Σ_{i of coordinate k} w_i a_i b_i).

    Bits are dealt into slots of at most 8: whole coordinates of one group, or a part of a coordinate with more bits.
    What a slot gives depends only on which of its bits differ, and is looked up.
    """
    slots, tables, ends = _slots(distance)
    n_bits, slotted = len(distance.weights), _slotted(queries, len(distance.weights), slots)

    def measure(block: Source) -> Floats:
        out = np.empty((len(queries), block.n_rows), np.float32)
        rows = np.ascontiguousarray(_slotted(block.rows(), n_bits, slots).T)
        _product_affinity(slotted, rows, tables, ends, out)
        return out

    return measure


def _slots(distance: ProductAffinity) -> tuple[NDArray[np.intp], Floats, NDArray[np.int8]]:
    """The bits of each slot (slot, 8), −1 where fewer; their tables (slot, 256); and where factors and groups end.

    The factor of a slot's coordinates is the sum of its table and those of the slots before it that end nothing (0);
    1 ends a factor, 2 also the group.
    """
    slots: list[list[int]] = []
    tables: list[NDArray[np.float64]] = []
    ends: list[int] = []
    for group in np.unique(distance.groups):
        joins = False
        for coordinate in np.unique(distance.coordinates[distance.groups == group]):
            bits = np.flatnonzero((distance.groups == group) & (distance.coordinates == coordinate))
            if joins and len(slots[-1]) + len(bits) <= 8:
                slots[-1] += bits.tolist()
                tables[-1] = tables[-1] * (1 + _agreement(distance.weights[bits], 8 - len(slots[-1])))
                continue
            for start in range(0, len(bits), 8):
                part = bits[start : start + 8]
                slots.append(part.tolist())
                tables.append((start == 0) + _agreement(distance.weights[part], 8 - len(part)))
                ends.append(0)
            ends[-1], joins = 1, len(bits) <= 8
        ends[-1] = 2
    padded = np.array([slot + [-1] * (8 - len(slot)) for slot in slots])
    return padded, np.array(tables, np.float32), np.array(ends, np.int8)


def _agreement(weights: Floats, after: int) -> NDArray[np.float64]:
    """Σ w_i a_i b_i for each of the 256 ways to differ, where ``after`` places follow these bits in their slot."""
    places = np.arange(len(weights) - 1 + after, after - 1, -1)
    signs = 1 - 2 * (np.arange(256)[:, None] >> places & 1)
    return np.asarray(signs @ weights, np.float64)


def _slotted(codes: Codes, n_bits: int, slots: NDArray[np.intp]) -> Codes:
    bits = unpack(codes, n_bits)[:, slots.ravel()] & (slots.ravel() >= 0)
    return np.packbits(bits, axis=1)


@njit(cache=True, nogil=True)
def _product_affinity(queries, rows, tables, ends, out):  # type: ignore[no-untyped-def]
    """−asinh of the affinity of queries (query, slot) and rows (slot, row), a few rows side by side."""
    n_rows = rows.shape[1]
    total, product, factor = np.empty(AFFINITIES), np.empty(AFFINITIES), np.empty(AFFINITIES)
    for start in range(0, n_rows, AFFINITIES):
        n = min(AFFINITIES, n_rows - start)
        for q in range(len(queries)):
            total[:], product[:], factor[:] = 0.0, 1.0, 0.0
            for slot in range(len(ends)):
                table, differ, part = tables[slot], queries[q, slot], rows[slot, start : start + n]
                for i in range(n):
                    factor[i] += table[differ ^ part[i]]
                if ends[slot]:
                    for i in range(n):
                        product[i] *= factor[i]
                        factor[i] = 0.0
                if ends[slot] == 2:
                    for i in range(n):
                        total[i] += product[i]
                        product[i] = 1.0
            for i in range(n):
                out[q, start + i] = -np.arcsinh(total[i])


@njit(cache=True, nogil=True)
def sums_of_candidates(tiles, rows, tables, out):  # type: ignore[no-untyped-def]
    """Sums (query, candidate) of each query's tables (query, half-byte, 16) over the codes of its own rows."""
    for q in range(len(rows)):
        for i in range(rows.shape[1]):
            tile, lane = rows[q, i] // LANES, rows[q, i] % LANES
            even, odd = np.float32(0), np.float32(0)
            for word in range(tiles.shape[1]):
                bits, half = tiles[tile, word, lane], 16 * word
                for _ in range(8):
                    even += tables[q, half, bits >> np.uint64(4) & np.uint64(15)]
                    odd += tables[q, half + 1, bits & np.uint64(15)]
                    bits >>= np.uint64(8)
                    half += 2
            out[q, i] = even + odd


_NO_KEY = np.iinfo(np.uint64).max


def nearest(
    source: Source, measure: Measure, n_queries: int, k: int, mask: NDArray[np.bool_]
) -> tuple[Floats, NDArray[np.int64]]:
    """The k least of each query's distances to the rows in ``mask`` (all if it is empty), which are at least k."""
    parts = hamming.spans(source.n_tiles)
    keys = hamming.on_all_cores(lambda span: _keys(source, measure, n_queries, k, mask, *span), parts)
    rows = [(part & 0xFFFFFFFF).astype(np.int64) + first * LANES for part, (first, _) in zip(keys, parts, strict=True)]
    codes = np.concatenate([(part >> np.uint64(32)).astype(np.uint32) for part in keys], axis=1)
    order = np.argsort(codes, axis=1, kind="stable")[:, :k]
    return _values(np.take_along_axis(codes, order, axis=1)), np.take_along_axis(
        np.concatenate(rows, axis=1), order, axis=1
    )


def distances(source: Source, measure: Measure, out: Floats) -> None:
    """Every distance (query, row)."""

    def fill(span: tuple[int, int]) -> None:
        for first in range(*span, BLOCK_TILES):
            last = min(first + BLOCK_TILES, span[1])
            out[:, first * LANES : last * LANES] = measure(source.block(first, last))

    hamming.on_all_cores(fill, hamming.spans(source.n_tiles))


def _keys(
    source: Source, measure: Measure, n_queries: int, k: int, mask: NDArray[np.bool_], start: int, stop: int
) -> NDArray[np.uint64]:
    """The k least keys of each query in tiles start:stop, sorted; rows are numbered from the first."""
    keys = np.full((n_queries, min(2 * k, k + LANES * (stop - start)) + 32), _NO_KEY, np.uint64)
    counts, limits = np.zeros(n_queries, np.int64), np.full(n_queries, np.nan, np.float32)
    for first in range(start, stop, BLOCK_TILES):
        last = min(first + BLOCK_TILES, stop)
        allowed = mask[first * LANES : last * LANES]
        keep_least(measure(source.block(first, last)), (first - start) * LANES, allowed, keys, counts, limits, k)
    for found, count in zip(keys, counts, strict=True):
        found[count:] = _NO_KEY
        found.sort()
    return keys[:, :k]


@njit(cache=True, nogil=True)
def keep_least(values, start, allowed, keys, counts, limits, k):  # type: ignore[no-untyped-def]
    """Enter values (query, row) of allowed rows into the k least of each query; a limit is NaN until k are known.

    A key is the value, as an integer in the same order, above the row; rows are numbered from ``start``.
    """
    capacity = keys.shape[1]
    for q in range(len(values)):
        count, limit, bits = counts[q], limits[q], values[q].view(np.uint32)
        for row in range(values.shape[1]):
            if values[q, row] >= limit or (allowed.size and not allowed[row]):
                continue
            code = np.uint64(bits[row])
            code ^= np.uint64(0xFFFFFFFF) if code >> np.uint64(31) else np.uint64(0x80000000)
            keys[q, count] = code << np.uint64(32) | np.uint64(start + row)
            count += 1
            if count == capacity:
                keys[q] = np.sort(keys[q])
                count, limit = k, _value(np.uint32(keys[q, k - 1] >> np.uint64(32)))
        counts[q], limits[q] = count, limit


@njit(cache=True, nogil=True)
def _value(code):  # type: ignore[no-untyped-def]
    one = np.empty(1, np.uint32)
    one[0] = code ^ np.uint32(0x80000000) if code >> np.uint32(31) else ~code
    return one.view(np.float32)[0]


def _values(codes: NDArray[np.uint32]) -> Floats:
    return np.where(codes >> 31, codes ^ np.uint32(0x80000000), ~codes).astype(np.uint32).view(np.float32)
