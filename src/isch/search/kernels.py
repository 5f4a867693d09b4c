"""Hamming distances of 8 codes to a group of queries at a time, in vector registers.

Codes are stored in tiles of 8 rows, word by word: one vector of 8 × 64 bits holds the same word of 8 rows. So each
distance has its own lane, and no horizontal sum is needed. A group of queries is stored word by word as well.
``next_hit`` keeps all distances of a tile to a group in registers. They start at minus the query's limit, so a row that
is nearer than the limit ends with its sign bit set, and a whole tile is skipped by or-ing the registers and testing the
signs. The vectors are LLVM's own, so the same kernel works on any CPU.
"""

from typing import Any, NamedTuple

import numpy.ma  # noqa: F401 (else Numba imports it at the first call, perhaps while another thread forks)
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from isch.search.source import LANES

_WORD = ir.IntType(64)
_VECTOR = ir.VectorType(_WORD, LANES)
_FLAGS = ir.VectorType(ir.IntType(1), LANES)
_UNROLLED = (1, 2, 4)


class _Scan:
    """Emits the loop over tiles for one number of queries."""

    def __init__(self, builder: Any, n_queries: int, arguments: tuple[Any, ...]) -> None:
        tiles, self.first, self.last, self.words, self.step, queries, limits, out = arguments
        self.builder, self.n_queries = builder, n_queries
        self.tiles = builder.inttoptr(tiles, _VECTOR.as_pointer())
        self.queries = builder.inttoptr(queries, _WORD.as_pointer())
        self.out = builder.inttoptr(out, _VECTOR.as_pointer())
        limit = builder.inttoptr(limits, _WORD.as_pointer())
        self.starts = [self.splat(builder.neg(self.word(limit, _number(q)))) for q in range(n_queries)]

    def word(self, pointer: Any, index: Any) -> Any:
        return self.builder.load(self.builder.gep(pointer, [index]), align=8)

    def splat(self, word: Any) -> Any:
        first = self.builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), word, ir.Constant(ir.IntType(32), 0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return self.builder.shuffle_vector(first, ir.Constant(_VECTOR, ir.Undefined), lanes)

    def popcount(self, vector: Any) -> Any:
        function = cgutils.get_or_insert_function(
            self.builder.module, ir.FunctionType(_VECTOR, [_VECTOR]), "llvm.ctpop.v8i64"
        )
        return self.builder.call(function, [vector])

    def add_word(self, totals: list[Any], base: Any, word: Any) -> list[Any]:
        """Totals with the bits that differ in one word of the tile that starts at ``base``."""
        build = self.builder
        rows = build.load(build.gep(self.tiles, [build.add(base, word)]), align=8)
        at = build.mul(word, _number(self.n_queries))
        queries = [self.splat(self.word(self.queries, build.add(at, _number(q)))) for q in range(self.n_queries)]
        return [
            build.add(total, self.popcount(build.xor(rows, query)))
            for total, query in zip(totals, queries, strict=True)
        ]

    def some_negative(self, totals: list[Any]) -> Any:
        union = totals[0]
        for total in totals[1:]:
            union = self.builder.or_(union, total)
        flags = self.builder.icmp_signed("<", union, ir.Constant(_VECTOR, [0] * LANES))
        return self.builder.icmp_unsigned("!=", self.builder.bitcast(flags, ir.IntType(8)), ir.IntType(8)(0))

    def store(self, totals: list[Any]) -> None:
        """Totals, and after them the mask of those that are negative: bit 8·query + lane."""
        build, mask = self.builder, _number(0)
        for q, total in enumerate(totals):
            build.store(total, build.gep(self.out, [_number(q)]), align=8)
            flags = build.icmp_signed("<", total, ir.Constant(_VECTOR, [0] * LANES))
            lanes = build.zext(build.bitcast(flags, ir.IntType(8)), _WORD)
            mask = build.or_(mask, build.shl(lanes, _number(LANES * q)))
        end = build.bitcast(build.gep(self.out, [_number(self.n_queries)]), _WORD.as_pointer())
        build.store(mask, end, align=8)

    def emit(self) -> Any:
        """Blocks for each unrolled number of words and for any number; returns the tile where the scan stopped."""
        build = self.builder
        done = build.append_basic_block("scan.done")
        ends: list[tuple[Any, Any]] = []
        for words in _UNROLLED:
            here = build.icmp_signed("==", self.words, _number(words))
            chosen, other = build.append_basic_block(f"scan.{words}"), build.append_basic_block("scan.other")
            build.cbranch(here, chosen, other)
            build.position_at_end(chosen)
            ends += self.over_tiles(done, words)
            build.position_at_end(other)
        ends += self.over_tiles(done, None)
        build.position_at_end(done)
        stopped = build.phi(_WORD)
        for tile, block in ends:
            stopped.add_incoming(tile, block)
        return stopped

    def over_tiles(self, done: Any, words: int | None) -> list[tuple[Any, Any]]:
        build = self.builder
        before = build.block
        loop, hit, miss = (build.append_basic_block(f"tiles.{name}") for name in ("loop", "hit", "miss"))
        build.branch(loop)
        build.position_at_end(loop)
        tile = build.phi(_WORD)
        tile.add_incoming(self.first, before)
        totals = self.one_tile(tile, words, miss)
        build.cbranch(self.some_negative(totals), hit, miss)
        build.position_at_end(hit)
        self.store(totals)
        build.branch(done)
        build.position_at_end(miss)
        following = build.add(tile, _number(1))
        tile.add_incoming(following, miss)
        build.cbranch(build.icmp_signed("<", following, self.last), loop, done)
        return [(tile, hit), (following, miss)]

    def one_tile(self, tile: Any, words: int | None, miss: Any) -> list[Any]:
        base = self.builder.mul(tile, self.words if words is None else _number(words))
        if words is None:
            return self.over_words(base, miss)
        totals = self.starts
        for word in range(words):
            totals = self.add_word(totals, base, _number(word))
        return totals

    def over_words(self, base: Any, miss: Any) -> list[Any]:
        """Any number of words; every ``step`` words the tile is given up if no total can end below zero."""
        build, before = self.builder, self.builder.block
        chunk, loop, check, full = (build.append_basic_block(f"words.{n}") for n in ("chunk", "loop", "check", "full"))
        build.branch(chunk)
        build.position_at_end(chunk)
        start, totals = build.phi(_WORD), [build.phi(_VECTOR) for _ in self.starts]
        start.add_incoming(_number(0), before)
        stop = build.add(start, self.step)
        stop = build.select(build.icmp_signed("<", stop, self.words), stop, self.words)
        build.branch(loop)
        build.position_at_end(loop)
        word, inner = build.phi(_WORD), [build.phi(_VECTOR) for _ in self.starts]
        sums = self.add_word(inner, base, word)
        following = build.add(word, _number(1))
        build.cbranch(build.icmp_signed("<", following, stop), loop, check)
        build.position_at_end(check)
        last = build.append_basic_block("words.last")
        build.cbranch(build.icmp_signed("<", stop, self.words), last, full)
        build.position_at_end(last)
        build.cbranch(self.some_negative(sums), chunk, miss)
        for phi, value, source in [(start, stop, last), (word, start, chunk), (word, following, loop)]:
            phi.add_incoming(value, source)
        for total, now, begun, summed in zip(totals, inner, self.starts, sums, strict=True):
            total.add_incoming(begun, before)
            total.add_incoming(summed, last)
            now.add_incoming(total, chunk)
            now.add_incoming(summed, loop)
        build.position_at_end(full)
        return sums


def group_widths() -> tuple[int, ...]:
    """Queries per group: up to 8 with 32 registers of 512 bits, otherwise up to 4, so that registers do not spill."""
    features = get_host_cpu_features().flatten() if config.CPU_FEATURES is None else config.CPU_FEATURES
    return (1, 2, 4, 8) if "+avx512f" in features else (1, 2, 4)


def _number(value: int) -> Any:
    return ir.Constant(_WORD, value)


@intrinsic(prefer_literal=True)
def _scan(typing, tiles, first, last, words, step, queries, limits, out, n_queries):  # type: ignore[no-untyped-def]
    signature = types.int64(*[types.int64] * 8, n_queries)

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return _Scan(builder, signature.args[-1].literal_value, arguments[:-1]).emit()

    return signature, codegen


class Place(NamedTuple):
    """Addresses of a scan, taken once, because taking the address of an array counts its references."""

    tiles: int
    queries: int
    limits: int
    out: int


@njit(cache=True, nogil=True)
def place(tiles, queries, limits, out):  # type: ignore[no-untyped-def]
    """Where a scan takes place.

    tiles uint64 (n, words, 8); queries uint64 (words, group); limits int64 (group,); out int64 (8·group + 1,).
    The arrays must outlive the scan.
    """
    return Place(tiles.ctypes.data, queries.ctypes.data, limits.ctypes.data, out.ctypes.data)


@njit(cache=True, nogil=True)
def next_hit(at, first, last, words, step, group):  # type: ignore[no-untyped-def]
    """The first tile in first:last (not empty) with a row nearer than the limit of some query; ``last`` if none.

    The out array receives distance − limit at 8·query + lane, and last the mask of those below zero.
    """
    if group == 8:
        return _scan(at.tiles, first, last, words, step, at.queries, at.limits, at.out, 8)
    if group == 4:
        return _scan(at.tiles, first, last, words, step, at.queries, at.limits, at.out, 4)
    if group == 2:
        return _scan(at.tiles, first, last, words, step, at.queries, at.limits, at.out, 2)
    return _scan(at.tiles, first, last, words, step, at.queries, at.limits, at.out, 1)
