"""Hamming distances of 8 codes to a group of queries at a time, in vector registers.

Codes are stored in tiles of 8 rows, word by word: one vector of 8 × 64 bits holds the same word of 8 rows. So each
distance has its own lane, and no horizontal sum is needed. A group of queries is stored word by word as well.
``next_hit`` keeps all distances of a tile to a group in registers. A CPU that counts the bits of a vector in one
instruction counts each word (word_scan.py); one with AVX2 adds up words before it counts (byte_scan.py).
"""

from typing import NamedTuple

import numpy.ma  # noqa: F401 (else Numba imports it at the first call, perhaps while another thread forks)
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import config, njit, types
from numba.extending import intrinsic

from isch.scan.kernels.byte_scan import TOGETHER, ByteScan
from isch.scan.kernels.word_scan import WordScan


def _features() -> str:
    return str(get_host_cpu_features().flatten() if config.CPU_FEATURES is None else config.CPU_FEATURES)


def group_widths() -> tuple[int, ...]:
    """Queries per group: up to 8 with 32 registers of 512 bits, otherwise up to 4, so that registers do not spill."""
    return (1, 2, 4, 8) if "+avx512f" in _features() and not BYTES else (1, 2, 4)


BYTES = "+avx2" in _features() and "+avx512vpopcntdq" not in _features()  # whether bits are counted by byte


@intrinsic(prefer_literal=True)
def _scan(typing, tiles, first, last, words, queries, limits, out, n_queries):  # type: ignore[no-untyped-def]
    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        n = signature.args[-1].literal_value
        return _kind(n)(builder, n, arguments[:-1]).emit()

    return types.int64(*[types.int64] * 7, n_queries), codegen


def _kind(n_queries: int) -> type[WordScan]:
    return ByteScan if BYTES and n_queries > 1 else WordScan


@intrinsic
def lowest_bit(typing, mask):  # type: ignore[no-untyped-def]
    """The number of the lowest bit of a mask that is not zero."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.int64(types.uint64), codegen


class Place(NamedTuple):
    """Addresses of a scan, taken once, because taking the address of an array counts its references."""

    tiles: int
    queries: int
    limits: int
    out: int


@njit(cache=True, nogil=True)
def place(tiles, queries, limits, out):  # type: ignore[no-untyped-def]
    """Where a scan takes place.

    tiles uint64 (n, words, 8); queries uint64 (words, group), prepared; limits int64 (group,);
    out int64 (8·group + 1,). The arrays must outlive the scan.
    """
    return Place(tiles.ctypes.data, queries.ctypes.data, limits.ctypes.data, out.ctypes.data)


@njit(cache=True, nogil=True)
def next_hit(at, first, last, words, group):  # type: ignore[no-untyped-def]
    """The first tile in first:last (not empty) with a row nearer than the limit of some query; ``last`` if none.

    The out array receives distance − limit at 8·query + lane, and last the mask of those below zero.
    """
    if group == 8:
        return _scan(at.tiles, first, last, words, at.queries, at.limits, at.out, 8)
    if group == 4:
        return _scan(at.tiles, first, last, words, at.queries, at.limits, at.out, 4)
    if group == 2:
        return _scan(at.tiles, first, last, words, at.queries, at.limits, at.out, 2)
    return _scan(at.tiles, first, last, words, at.queries, at.limits, at.out, 1)


@njit(cache=True, nogil=True)
def prepare(queries):  # type: ignore[no-untyped-def]
    """Bring a group of queries, uint64 (word, query), into the form that ``next_hit`` takes, in place."""
    if BYTES and queries.shape[1] > 1:
        for word in range(0, len(queries) - TOGETHER + 1, TOGETHER):
            for q in range(queries.shape[1]):
                a, b, c = queries[word, q], queries[word + 1, q], queries[word + 2, q]
                queries[word, q], queries[word + 1, q], queries[word + 2, q] = a ^ c, b ^ c, a ^ b ^ c
