"""Search with NumPy alone: the plain twin of the kernels, with the same results bit for bit.

It also answers small searches. Loading Numba and the kernels takes longer than a small search, so a process starts with
NumPy and loads the kernels once NumPy has spent as much time as loading them takes.
"""

import sys

import numpy as np
from numpy.typing import NDArray

from isch.codes import Codes
from isch.scan.source import LANES, Source

Ranked = tuple[NDArray[np.int32], NDArray[np.int64]]
Floats = NDArray[np.float32]
Found = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]

KERNELS = "isch.scan.kernels.selection"
AT_ONCE = 1 << 13  # tiles compared at once, so that they stay in the cache
QUERY_COST = 20_000  # the fixed cost of one query, in words compared in the same time
ALLOWANCE = 1 << 26  # words per process: about the time that loading the kernels takes (benchmarks/startup.py)


class Allowance:
    """How much work NumPy may still do before the kernels are loaded."""

    def __init__(self, words: int) -> None:
        self._left = words

    def grants(self, n_queries: int, n_rows: int, n_words: int) -> bool:
        """Whether to compare this many codes of this many words with NumPy; if so, it counts as done."""
        cost = n_queries * (n_rows * n_words + QUERY_COST)
        if KERNELS in sys.modules or cost > self._left:
            return False
        self._left -= cost
        return True


allowance = Allowance(ALLOWANCE)


def nearest(source: Source, queries: Codes, k: int, rows: NDArray[np.int64] | None) -> Ranked:
    """(distances, rows) of the k nearest of the given rows (all if None) of each query, sorted by (distance, row)."""
    n = source.n_rows if rows is None else len(rows)
    distances, found = np.empty((len(queries), min(k, n)), np.int32), np.empty((len(queries), min(k, n)), np.int64)
    for q, query in enumerate(words_of(queries)):
        every = hamming(source, query)
        some = every if rows is None else every[rows]
        best = least(some, found.shape[1])
        distances[q], found[q] = some[best], best if rows is None else rows[best]
    return distances, found


def within(source: Source, queries: Codes, radius: int, rows: NDArray[np.int64] | None) -> Found:
    """(offsets, rows, distances) of the given rows (all if None) within a radius, sorted by (distance, row)."""
    found, distances = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for query in words_of(queries):
        every = hamming(source, query)
        near = np.flatnonzero(every <= radius) if rows is None else rows[every[rows] <= radius]
        found.append(near[np.argsort(every[near], kind="stable")])
        distances.append(every[found[-1]])
    return np.cumsum([len(some) for some in found]), np.concatenate(found), np.concatenate(distances)


def hamming(source: Source, query: NDArray[np.uint64]) -> NDArray[np.int32]:
    """The distance of one query, given as 64-bit words, to every row."""
    out = np.zeros((source.n_tiles, LANES), np.int32)
    for first in range(0, source.n_tiles, AT_ONCE):
        tiles = tiles_of(source, first, min(first + AT_ONCE, source.n_tiles))
        for word, value in enumerate(query):
            out[first : first + AT_ONCE] += np.bitwise_count(tiles[:, word] ^ value)
    return out.reshape(-1)[: source.n_rows]


def least(values: NDArray[np.int32], k: int) -> NDArray[np.int64]:
    """The places of the k least values, sorted by (value, place)."""
    limit = np.partition(values, k - 1)[k - 1] if k < len(values) else np.iinfo(np.int32).max
    places = np.flatnonzero(values <= limit)
    return places[np.argsort(values[places], kind="stable")][:k]


def sums_of_candidates(source: Source, rows: NDArray[np.int64], tables: NDArray[np.float32]) -> NDArray[np.float32]:
    """Sums (query, candidate) of each query's tables (query, half-byte, 16) over the codes of its own rows."""
    codes, queries = words_at(source, rows), np.arange(len(rows))[:, None]
    even, odd = np.zeros(rows.shape, np.float32), np.zeros(rows.shape, np.float32)
    for byte in range(8 * source.words):
        bits = codes[..., byte // 8] >> np.uint64(8 * (byte % 8))
        even += tables[queries, 2 * byte, (bits >> np.uint64(4) & np.uint64(15)).astype(np.intp)]
        odd += tables[queries, 2 * byte + 1, (bits & np.uint64(15)).astype(np.intp)]
    return np.asarray(even + odd)


def words_of(codes: Codes) -> NDArray[np.uint64]:
    """Packed codes (n, bytes) as 64-bit words (n, words), bytes little-endian, zero padded."""
    padded = np.zeros((len(codes), -(-codes.shape[1] // 8) * 8), np.uint8)
    padded[:, : codes.shape[1]] = codes
    return padded.view("<u8").astype(np.uint64, copy=False)


def tiles_of(source: Source, first: int, last: int) -> NDArray[np.uint64]:
    """Tiles first:last of a source, uint64 (tile, word, lane)."""
    if source.laid_out:
        return source.data[first:last]
    rows = source.data[first * LANES : last * LANES]
    words = np.zeros(((last - first) * LANES, source.words), np.uint64)
    words[: len(rows)] = words_of(rows)
    return words.reshape(last - first, LANES, source.words).transpose(0, 2, 1)


def words_at(source: Source, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The words of some rows, (*rows.shape, words)."""
    if source.laid_out:
        return np.asarray(source.data[rows // LANES, :, rows % LANES])
    return words_of(source.data[rows.ravel()]).reshape(*rows.shape, source.words)


_PATTERNS = (np.arange(16)[:, None] >> np.arange(3, -1, -1) & 1).astype(np.float32)


def costs(projections: Floats) -> tuple[Floats, Floats]:
    """What each bit adds to the asymmetric distance when it is 0 and when it is 1: |z_i| where the sign differs."""
    return np.maximum(projections, 0), np.maximum(-projections, 0)


def half_byte_tables(unset: Floats, is_set: Floats, words: int) -> Floats:
    """What each half-byte adds: (query, half-byte, 16), from what each bit (query, bit) adds when 0 and when 1."""
    n, n_bits = unset.shape
    at_zero, at_one = (np.zeros((n, 64 * words), np.float32) for _ in range(2))
    at_zero[:, :n_bits], at_one[:, :n_bits] = unset, is_set
    low, high = at_zero.reshape(n, -1, 4), at_one.reshape(n, -1, 4)
    return np.asarray(low @ (1 - _PATTERNS.T) + high @ _PATTERNS.T, np.float32)
