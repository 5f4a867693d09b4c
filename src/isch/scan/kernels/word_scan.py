"""LLVM code for the distances of tiles of codes to a group of queries, one vector instruction per 64 bits of 8 rows.

Totals start at minus the query's limit, so a row that is nearer than the limit ends with its sign bit set, and a whole
tile is skipped by or-ing the registers and testing the signs. The vectors are LLVM's own, so any CPU can run the code.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from isch.scan.source import LANES

WORD = ir.IntType(64)
VECTOR = ir.VectorType(WORD, LANES)
_UNROLLED = (1, 2, 4)
Body = Callable[[Any, list[Any]], list[Any]]  # from a number and some values to the values after it


def number(value: int) -> Any:
    """A constant of 64 bits."""
    return ir.Constant(WORD, value)


class WordScan:
    """Emits the loop over tiles for one number of queries."""

    def __init__(self, builder: Any, n_queries: int, arguments: tuple[Any, ...]) -> None:
        tiles, self.first, self.last, self.words, queries, limits, out = arguments
        self.builder, self.n_queries = builder, n_queries
        self.tiles = builder.inttoptr(tiles, VECTOR.as_pointer())
        self.queries = builder.inttoptr(queries, WORD.as_pointer())
        self.out = builder.inttoptr(out, VECTOR.as_pointer())
        limit = builder.inttoptr(limits, WORD.as_pointer())
        self.starts = [self.splat(builder.neg(self.word(limit, number(q)))) for q in range(n_queries)]

    def word(self, pointer: Any, index: Any) -> Any:
        return self.builder.load(self.builder.gep(pointer, [index]), align=8)

    def splat(self, word: Any) -> Any:
        first = self.builder.insert_element(ir.Constant(VECTOR, ir.Undefined), word, ir.Constant(ir.IntType(32), 0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return self.builder.shuffle_vector(first, ir.Constant(VECTOR, ir.Undefined), lanes)

    def popcount(self, vector: Any) -> Any:
        function = cgutils.get_or_insert_function(
            self.builder.module, ir.FunctionType(VECTOR, [VECTOR]), "llvm.ctpop.v8i64"
        )
        return self.builder.call(function, [vector])

    def add_word(self, totals: list[Any], base: Any, word: Any) -> list[Any]:
        """Totals with the bits that differ in one word of the tile that starts at ``base``."""
        build = self.builder
        rows = build.load(build.gep(self.tiles, [build.add(base, word)]), align=8)
        at = build.mul(word, number(self.n_queries))
        queries = [self.splat(self.word(self.queries, build.add(at, number(q)))) for q in range(self.n_queries)]
        return [
            build.add(total, self.popcount(build.xor(rows, query)))
            for total, query in zip(totals, queries, strict=True)
        ]

    def some_negative(self, totals: list[Any]) -> Any:
        union = totals[0]
        for total in totals[1:]:
            union = self.builder.or_(union, total)
        flags = self.builder.icmp_signed("<", union, ir.Constant(VECTOR, [0] * LANES))
        return self.builder.icmp_unsigned("!=", self.builder.bitcast(flags, ir.IntType(8)), ir.IntType(8)(0))

    def store(self, totals: list[Any]) -> None:
        """Totals, and after them the mask of those that are negative: bit 8·query + lane."""
        build, mask = self.builder, number(0)
        for q, total in enumerate(totals):
            build.store(total, build.gep(self.out, [number(q)]), align=8)
            flags = build.icmp_signed("<", total, ir.Constant(VECTOR, [0] * LANES))
            lanes = build.zext(build.bitcast(flags, ir.IntType(8)), WORD)
            mask = build.or_(mask, build.shl(lanes, number(LANES * q)))
        end = build.bitcast(build.gep(self.out, [number(self.n_queries)]), WORD.as_pointer())
        build.store(mask, end, align=8)

    def emit(self) -> Any:
        """Blocks for each unrolled number of words and for any number; returns the tile where the scan stopped."""
        build = self.builder
        done = build.append_basic_block("scan.done")
        ends: list[tuple[Any, Any]] = []
        for words in _UNROLLED:
            here = build.icmp_signed("==", self.words, number(words))
            chosen, other = build.append_basic_block(f"scan.{words}"), build.append_basic_block("scan.other")
            build.cbranch(here, chosen, other)
            build.position_at_end(chosen)
            ends += self.over_tiles(done, words)
            build.position_at_end(other)
        ends += self.over_tiles(done, None)
        build.position_at_end(done)
        stopped = build.phi(WORD)
        for tile, block in ends:
            stopped.add_incoming(tile, block)
        return stopped

    def over_tiles(self, done: Any, words: int | None) -> list[tuple[Any, Any]]:
        build = self.builder
        before = build.block
        loop, hit, miss = (build.append_basic_block(f"tiles.{name}") for name in ("loop", "hit", "miss"))
        build.branch(loop)
        build.position_at_end(loop)
        tile = build.phi(WORD)
        tile.add_incoming(self.first, before)
        base = build.mul(tile, self.words if words is None else number(words))
        totals = self.over_words(base, self.words) if words is None else self.unrolled(base, words)
        build.cbranch(self.some_negative(totals), hit, miss)
        build.position_at_end(hit)
        self.store(totals)
        build.branch(done)
        build.position_at_end(miss)
        following = build.add(tile, number(1))
        tile.add_incoming(following, miss)
        build.cbranch(build.icmp_signed("<", following, self.last), loop, done)
        return [(tile, hit), (following, miss)]

    def unrolled(self, base: Any, words: int) -> list[Any]:
        """Totals of the tile that starts at ``base`` over a number of words known beforehand."""
        totals = self.starts
        for word in range(words):
            totals = self.add_word(totals, base, number(word))
        return totals

    def over_words(self, base: Any, words: Any) -> list[Any]:
        """The same over any number of words."""
        return self.loop(number(0), words, 1, self.starts, lambda word, sums: self.add_word(sums, base, word))

    def loop(
        self, start: Any, stop: Any, by: int, values: list[Any], body: Callable[[Any, list[Any]], list[Any]]
    ) -> list[Any]:
        """``values`` after ``body(i, values)`` for each i of a range that is not empty."""
        build, before = self.builder, self.builder.block
        again, done = build.append_basic_block("loop"), build.append_basic_block("loop.done")
        build.branch(again)
        build.position_at_end(again)
        i, phis = build.phi(WORD), [build.phi(value.type) for value in values]
        after = body(i, phis)
        following = build.add(i, number(by))
        end = build.block
        i.add_incoming(start, before)
        i.add_incoming(following, end)
        for phi, first, later in zip(phis, values, after, strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(later, end)
        build.cbranch(build.icmp_signed("<", following, stop), again, done)
        build.position_at_end(done)
        return after
