"""Packed codes, row by row, turned into tiles, uint64 (tile, word, lane)."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from isch.scan.source import LANES

_WORD = ir.IntType(64)
_LANES = ir.VectorType(_WORD, LANES)


@intrinsic
def _load_word(typing, address):  # type: ignore[no-untyped-def]
    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.load(builder.inttoptr(arguments[0], _WORD.as_pointer()), align=1)

    return types.uint64(types.int64), codegen


@intrinsic
def _copy_lanes(typing, address, stride, into):  # type: ignore[no-untyped-def]
    """Store the 8 words that lie ``stride`` bytes apart from an address as one vector."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        start, step, target = arguments
        vector = ir.Constant(_LANES, ir.Undefined)
        for lane in range(LANES):
            at = builder.inttoptr(builder.add(start, builder.mul(step, _WORD(lane))), _WORD.as_pointer())
            vector = builder.insert_element(vector, builder.load(at, align=1), ir.IntType(32)(lane))
        builder.store(vector, builder.inttoptr(target, _LANES.as_pointer()), align=8)

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic(prefer_literal=True)
def _turn(typing, address, stride, into, words):  # type: ignore[no-untyped-def]
    """Turn 8 rows of ``words`` words (a literal: 1, 2, 4 or 8) into vectors of one word each.

    Rows of 8 words lie ``stride`` bytes apart; shorter ones follow each other.
    """

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        start, step, target = arguments[:3]
        n, apart = signature.args[-1].literal_value, _WORD(64) if signature.args[-1].literal_value < LANES else step
        places = [builder.add(start, builder.mul(apart, _WORD(i))) for i in range(n)]
        rows = [builder.load(builder.inttoptr(at, _LANES.as_pointer()), align=1) for at in places]
        for word, vector in enumerate(_every_nth(builder, rows)):
            at = builder.inttoptr(builder.add(target, _WORD(64 * word)), _LANES.as_pointer())
            builder.store(vector, at, align=8)

    return types.void(types.int64, types.int64, types.int64, words), codegen


def _every_nth(build: Any, vectors: list[Any]) -> list[Any]:
    """The sequence that n vectors hold, n a power of 2, dealt out in turn to n vectors."""
    if len(vectors) == 1:
        return vectors
    index = ir.VectorType(ir.IntType(32), LANES)
    pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
    even, odd = (
        _every_nth(build, [build.shuffle_vector(a, b, ir.Constant(index, list(range(first, 16, 2)))) for a, b in pairs])
        for first in (0, 1)
    )
    return [vector for pair in zip(even, odd, strict=True) for vector in pair]


@njit(cache=True, nogil=True)
def _lay_out_words(rows, n_bytes, into):  # type: ignore[no-untyped-def]
    """Write the whole words of the 8 rows at an address as vectors."""
    if n_bytes == 8:
        _turn(rows, n_bytes, into, 1)
    elif n_bytes == 16:
        _turn(rows, n_bytes, into, 2)
    elif n_bytes == 32:
        _turn(rows, n_bytes, into, 4)
    else:
        eights = n_bytes // 64 * 8
        for word in range(0, eights, 8):
            _turn(rows + 8 * word, n_bytes, into + 64 * word, 8)
        for word in range(eights, n_bytes // 8):
            _copy_lanes(rows + 8 * word, n_bytes, into + 64 * word)


@njit(cache=True, nogil=True)
def lay_out(codes, first, last, tiles):  # type: ignore[no-untyped-def]
    """Write rows 8·first : 8·last of packed codes (n, bytes) as tiles; rows that do not exist become zero."""
    n, n_bytes = codes.shape
    whole, rest, data, into = n_bytes // 8, n_bytes % 8, codes.ctypes.data, tiles.ctypes.data
    for tile in range(first, last):
        row = tile * LANES
        if row + LANES > n:
            _lay_out_rest(codes, row, 0, tiles[tile - first])
            continue
        _lay_out_words(data + row * n_bytes, n_bytes, into + 64 * (tile - first) * tiles.shape[1])
        if rest and whole:
            for lane in range(LANES):
                last_word = _load_word(data + (row + lane + 1) * n_bytes - 8)
                tiles[tile - first, whole, lane] = last_word >> np.uint64(64 - 8 * rest)
        elif rest:
            _lay_out_rest(codes, row, whole, tiles[tile - first])


@njit(cache=True, nogil=True)
def _lay_out_rest(codes, row, word, into):  # type: ignore[no-untyped-def]
    """Write words from ``word`` on of the rows of a tile byte by byte; rows that do not exist become zero."""
    into[word:] = 0
    for lane in range(min(LANES, len(codes) - row)):
        for byte in range(8 * word, codes.shape[1]):
            into[byte // 8, lane] |= np.uint64(codes[row + lane, byte]) << np.uint64(8 * (byte % 8))


@njit(cache=True, nogil=True)
def gather(tiles, rows, out):  # type: ignore[no-untyped-def]
    """Tiles of the given rows of tiles."""
    out[-1] = 0
    for i in range(len(rows)):
        for word in range(tiles.shape[1]):
            out[i // LANES, word, i % LANES] = tiles[rows[i] // LANES, word, rows[i] % LANES]
