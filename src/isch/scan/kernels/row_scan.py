"""Hamming distances of one query to codes as they lie, row by row, without laying them out as tiles first.

A vector holds words of one row or of several. Their bits are counted where they are. The counts of a row are then added
up by folding: of two vectors, even lanes plus odd ones make one. So a lane is a row in the end, as in kernels.py.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from isch.scan.source import LANES

_WORD = ir.IntType(64)
_VECTOR = ir.VectorType(_WORD, LANES)


class _RowScan:
    """Emits the loop over groups of 8 rows of 1, 2, 4 words (a literal), or of a multiple of 8 words."""

    def __init__(self, builder: Any, words: int, arguments: tuple[Any, ...]) -> None:
        rows, self.first, self.last, self.vectors, query, limit, out = arguments
        self.builder, self.words = builder, words
        self.rows, self.query, self.out = (builder.inttoptr(at, _VECTOR.as_pointer()) for at in (rows, query, out))
        first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), limit, ir.IntType(32)(0))
        every = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        self.limit = builder.shuffle_vector(first, ir.Constant(_VECTOR, ir.Undefined), every)

    def load(self, pointer: Any, index: Any) -> Any:
        return self.builder.load(self.builder.gep(pointer, [index]), align=1)

    def differ(self, row: Any, query: Any) -> Any:
        kind = ir.FunctionType(_VECTOR, [_VECTOR])
        function = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.ctpop.v8i64")
        return self.builder.call(function, [self.builder.xor(row, query)])

    def folded(self, counts: list[Any]) -> Any:
        """The sum of each row of counts that lie one after the other in vectors: a lane per row."""
        build, lanes = self.builder, range(0, 2 * LANES, 2)
        even, odd = (ir.Constant(ir.VectorType(ir.IntType(32), LANES), [lane + i for lane in lanes]) for i in (0, 1))
        while len(counts) > 1:
            pairs = zip(counts[::2], counts[1::2], strict=True)
            counts = [build.add(build.shuffle_vector(a, b, even), build.shuffle_vector(a, b, odd)) for a, b in pairs]
        return counts[0]

    def short_rows(self, group: Any) -> list[Any]:
        """The counts of 8 rows of 1, 2 or 4 words, which fill as many vectors."""
        build, query = self.builder, self.load(self.query, _WORD(0))
        at = build.mul(group, _WORD(self.words))
        return [self.differ(self.load(self.rows, build.add(at, _WORD(i))), query) for i in range(self.words)]

    def long_rows(self, group: Any) -> list[Any]:
        """The counts of 8 rows of several vectors, those of each row added up."""
        build, before = self.builder, self.builder.block
        first = build.mul(build.mul(group, _WORD(LANES)), self.vectors)
        starts = [build.add(first, build.mul(self.vectors, _WORD(row))) for row in range(LANES)]
        loop, done = build.append_basic_block("vectors"), build.append_basic_block("vectors.done")
        build.branch(loop)
        build.position_at_end(loop)
        vector, totals = build.phi(_WORD), [build.phi(_VECTOR) for _ in starts]
        query = self.load(self.query, vector)
        sums = [
            build.add(total, self.differ(self.load(self.rows, build.add(start, vector)), query))
            for total, start in zip(totals, starts, strict=True)
        ]
        following = build.add(vector, _WORD(1))
        vector.add_incoming(_WORD(0), before)
        vector.add_incoming(following, loop)
        for total, summed in zip(totals, sums, strict=True):
            total.add_incoming(ir.Constant(_VECTOR, [0] * LANES), before)
            total.add_incoming(summed, loop)
        build.cbranch(build.icmp_signed("<", following, self.vectors), loop, done)
        build.position_at_end(done)
        return sums

    def emit(self) -> Any:
        build, before = self.builder, self.builder.block
        loop, hit, miss, done = (build.append_basic_block(f"rows.{name}") for name in ("loop", "hit", "miss", "done"))
        build.branch(loop)
        build.position_at_end(loop)
        group = build.phi(_WORD)
        group.add_incoming(self.first, before)
        counts = self.long_rows(group) if self.words == LANES else self.short_rows(group)
        totals = build.sub(self.folded(counts), self.limit)
        flags = build.icmp_signed("<", totals, ir.Constant(_VECTOR, [0] * LANES))
        mask = build.bitcast(flags, ir.IntType(LANES))
        build.cbranch(build.icmp_unsigned("!=", mask, ir.IntType(LANES)(0)), hit, miss)
        build.position_at_end(hit)
        build.store(totals, self.out, align=8)
        end = build.bitcast(build.gep(self.out, [_WORD(1)]), _WORD.as_pointer())
        build.store(build.zext(mask, _WORD), end, align=8)
        build.branch(done)
        build.position_at_end(miss)
        following = build.add(group, _WORD(1))
        group.add_incoming(following, miss)
        build.cbranch(build.icmp_signed("<", following, self.last), loop, done)
        build.position_at_end(done)
        stopped = build.phi(_WORD)
        stopped.add_incoming(group, hit)
        stopped.add_incoming(following, miss)
        return stopped


@intrinsic(prefer_literal=True)
def _scan(typing, rows, first, last, vectors, query, limit, out, words):  # type: ignore[no-untyped-def]
    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return _RowScan(builder, signature.args[-1].literal_value, arguments[:-1]).emit()

    return types.int64(*[types.int64] * 7, words), codegen


@njit(cache=True, nogil=True)
def direct(n_bytes):  # type: ignore[no-untyped-def]
    """Whether rows of so many bytes can be searched as they lie."""
    return n_bytes in (8, 16, 32) or n_bytes % 64 == 0


@njit(cache=True, nogil=True)
def pattern(query):  # type: ignore[no-untyped-def]
    """The words of a query, repeated until they fill a vector."""
    words = np.empty(max(LANES, len(query)), np.uint64)
    for i in range(len(words)):
        words[i] = query[i % len(query)]
    return words


@njit(cache=True, nogil=True)
def next_hit(rows, first, last, words, query, limit, out):  # type: ignore[no-untyped-def]
    """The first group of 8 rows in first:last (not empty) with one nearer than the limit; ``last`` if there is none.

    rows and query are the addresses of the rows and of the query's ``pattern``. out is that of nine int64: they receive
    distance − limit for each lane, and the mask of those below zero.
    """
    vectors = words // LANES
    if words == 1:
        return _scan(rows, first, last, vectors, query, limit, out, 1)
    if words == 2:
        return _scan(rows, first, last, vectors, query, limit, out, 2)
    if words == 4:
        return _scan(rows, first, last, vectors, query, limit, out, 4)
    return _scan(rows, first, last, vectors, query, limit, out, 8)
