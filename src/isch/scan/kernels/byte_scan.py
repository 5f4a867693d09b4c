"""LLVM code for the same distances on CPUs with AVX2, which count bits by looking up half-bytes.

Counting costs seven instructions per vector there, so three words are added up first, bit by bit. If x, y, z are the
bits that differ, their sum is 2·m + o with o = x ^ y ^ z and m = o ^ ((x ^ z) | (y ^ z)). Whatever is xor-ed here is
xor-ed beforehand for rows, once per tile, and for queries, once per search: x ^ z = (a ^ c) ^ (a' ^ c'). So three words
take five instructions and two counts. Counts are added up in bytes, and the bytes of a lane at the end.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils

from isch.scan.kernels.word_scan import WORD, WordScan, number
from isch.scan.source import LANES

TOGETHER = 3  # words
MOST_WORDS = 30  # whose counts a byte can hold
_HALF = ir.VectorType(WORD, LANES // 2)
_BYTES = ir.VectorType(ir.IntType(8), 4 * LANES)
_INDEX = ir.IntType(32)


class ByteScan(WordScan):
    """Emits the loop over tiles for one number of queries, each tile in two halves of four rows."""

    def unrolled(self, base: Any, words: int) -> list[Any]:
        return self.add_words(self.starts, base, [number(word) for word in range(words)])

    def add_words(self, totals: list[Any], base: Any, words: list[Any]) -> list[Any]:
        """Totals with the bits that differ in a few words."""
        halves = []
        for half in (0, 1):
            counts = self.none()
            for i in range(0, len(words) - TOGETHER + 1, TOGETHER):
                counts = self.add_three(counts, base, words[i], half)
            for word in words[len(words) // TOGETHER * TOGETHER :]:
                counts = self.add_one(counts, base, word, half)
            halves.append(counts)
        return self.summed(totals, halves)

    def over_words(self, base: Any, words: Any) -> list[Any]:
        build = self.builder

        def chunk(start: Any, totals: list[Any]) -> list[Any]:
            stop = build.add(start, number(MOST_WORDS))
            stop = build.select(build.icmp_signed("<", stop, words), stop, words)
            return self.add_chunk(totals, base, start, stop)

        return self.loop(number(0), words, MOST_WORDS, self.starts, chunk)

    def add_chunk(self, totals: list[Any], base: Any, start: Any, stop: Any) -> list[Any]:
        """Totals with the bits that differ in words start:stop."""
        build, halves = self.builder, []
        threes = build.sub(stop, build.urem(stop, number(TOGETHER)))
        for half in (0, 1):
            counts = self.maybe(start, threes, TOGETHER, self.none(), half, base)
            halves.append(self.maybe(threes, stop, 1, counts, half, base))
        return self.summed(totals, halves)

    def maybe(self, start: Any, stop: Any, by: int, counts: list[Any], half: int, base: Any) -> list[Any]:
        """Counts with words start:stop, which may be empty, ``by`` at a time."""
        build, before = self.builder, self.builder.block
        some, done = build.append_basic_block("some"), build.append_basic_block("some.done")
        build.cbranch(build.icmp_signed("<", start, stop), some, done)
        build.position_at_end(some)
        add = self.add_three if by == TOGETHER else self.add_one
        sums = self.loop(start, stop, by, counts, lambda word, inner: add(inner, base, word, half))
        after = build.block
        build.branch(done)
        build.position_at_end(done)
        phis = [build.phi(_BYTES) for _ in counts]
        for phi, old, new in zip(phis, counts, sums, strict=True):
            phi.add_incoming(old, before)
            phi.add_incoming(new, after)
        return phis

    def none(self) -> list[Any]:
        """No counts yet: those of ones and those of twos of each query."""
        return [ir.Constant(_BYTES, [0] * _BYTES.count)] * (2 * self.n_queries)

    def rows(self, base: Any, word: Any, half: int) -> Any:
        build = self.builder
        at = build.add(build.shl(build.add(base, word), number(1)), number(half))
        halves = build.bitcast(self.tiles, _HALF.as_pointer())
        return build.load(build.gep(halves, [at]), align=8)

    def query(self, word: Any, query: int) -> Any:
        build = self.builder
        at = build.add(build.mul(word, number(self.n_queries)), number(query))
        first = build.insert_element(ir.Constant(_HALF, ir.Undefined), self.word(self.queries, at), _INDEX(0))
        every = ir.Constant(ir.VectorType(_INDEX, _HALF.count), [0] * _HALF.count)
        return build.shuffle_vector(first, ir.Constant(_HALF, ir.Undefined), every)

    def counted(self, vector: Any) -> Any:
        build, kind = self.builder, ir.FunctionType(_BYTES, [_BYTES])
        function = cgutils.get_or_insert_function(build.module, kind, "llvm.ctpop.v32i8")
        return build.call(function, [build.bitcast(vector, _BYTES)])

    def add_one(self, counts: list[Any], base: Any, word: Any, half: int) -> list[Any]:
        build, rows, counts = self.builder, self.rows(base, word, half), list(counts)
        for q in range(self.n_queries):
            differ = build.xor(rows, self.query(word, q))
            counts[2 * q] = build.add(counts[2 * q], self.counted(differ))
        return counts

    def add_three(self, counts: list[Any], base: Any, word: Any, half: int) -> list[Any]:
        build, counts = self.builder, list(counts)
        places = [build.add(word, number(i)) for i in range(TOGETHER)]
        a, b, c = (self.rows(base, place, half) for place in places)
        forms = [build.xor(a, c), build.xor(b, c)]
        forms.append(build.xor(forms[0], b))
        for q in range(self.n_queries):
            u, v, ones = (build.xor(f, self.query(place, q)) for f, place in zip(forms, places, strict=True))
            twos = build.xor(ones, build.or_(u, v))
            counts[2 * q] = build.add(counts[2 * q], self.counted(ones))
            counts[2 * q + 1] = build.add(counts[2 * q + 1], self.counted(twos))
        return counts

    def summed(self, totals: list[Any], halves: list[list[Any]]) -> list[Any]:
        """Totals with the counts of both halves of the tile."""
        build, sums = self.builder, []
        both = ir.Constant(ir.VectorType(_INDEX, LANES), list(range(LANES)))
        for q, total in enumerate(totals):
            low, high = (self.lane_sums(counts[2 * q], counts[2 * q + 1]) for counts in halves)
            sums.append(build.add(total, build.shuffle_vector(low, high, both)))
        return sums

    def lane_sums(self, ones: Any, twos: Any) -> Any:
        """The sum of the bytes of each lane, twos counted twice."""
        build = self.builder
        counts = build.add(ones, build.add(twos, twos))
        kind = ir.FunctionType(_HALF, [_BYTES, _BYTES])
        function = cgutils.get_or_insert_function(build.module, kind, "llvm.x86.avx2.psad.bw")
        return build.call(function, [counts, ir.Constant(_BYTES, [0] * _BYTES.count)])
