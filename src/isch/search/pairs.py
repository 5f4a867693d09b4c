"""All pairs of codes within a radius, each once.

    pairs = isch.pairs_within(codes, radius=8)
    pairs.first, pairs.second, pairs.distance

Equal codes are brought together first and count as one, so that a thousand copies cost no more than a single code.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isch import codes as packed
from isch.errors import InputError
from isch.search import join
from isch.search.buckets import Words, as_words, read_only, row_bits
from isch.search.exact import CodeTable, _whole
from isch.search.pair_kernels import Found
from isch.search.planner import Plan, plan
from isch.search.twins import Twins, expand, find

MAX_PAIRS = 100_000_000


class Pairs(NamedTuple):
    """Pairs of rows: ``first[i] < second[i]``, ``distance[i]`` bits apart, sorted by (first, second)."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    distance: NDArray[np.int32]


class Near(NamedTuple):
    """The same with equal codes collapsed: ``pairs`` are pairs of distinct codes, whose rows ``twins`` lists."""

    twins: Twins
    pairs: Pairs
    plan: Plan


def pairs_within(
    codes: ArrayLike | CodeTable,
    radius: int,
    *,
    n_bits: int | None = None,
    max_pairs: int = MAX_PAIRS,
    method: str = "auto",
) -> Pairs:
    """All pairs of rows at most ``radius`` bits apart.

    Parameters
    ----------
    codes : packed bytes (n, bytes), or a CodeTable
    radius : the largest distance, in bits
    n_bits : the length of the codes, by default all bits of their bytes
    max_pairs : how many pairs to hold at most; ``pairs_blocks`` has no such limit
    method : "join", "scan", or "auto": what is quicker; the result is the same

    Returns
    -------
    Pairs
        Each pair once, with first < second, sorted by (first, second).

    Raises
    ------
    InputError
        If there are more than ``max_pairs`` pairs.
    """
    prepared = _prepared(codes, radius, n_bits, method)
    sizes, n, radius = prepared.twins.sizes, prepared.twins.n_rows, prepared.plan.radius
    _check_count(int((sizes * (sizes - 1) // 2).sum()), radius, max_pairs)
    return _collected(prepared.blocks(), n, radius, max_pairs)


def pairs_blocks(
    codes: ArrayLike | CodeTable, radius: int, *, n_bits: int | None = None, method: str = "auto"
) -> Iterator[Pairs]:
    """The same pairs in blocks of at most about two million, for results that do not fit in memory.

    Each pair is in one block; within a block pairs are sorted by (first, second).
    """
    prepared = _prepared(codes, radius, n_bits, method)
    n, radius = prepared.twins.n_rows, prepared.plan.radius
    return (_sorted(block, n, radius) for block in prepared.blocks() if len(block.first))


def near(
    codes: ArrayLike | CodeTable,
    radius: int,
    *,
    n_bits: int | None = None,
    max_pairs: int = MAX_PAIRS,
    method: str = "auto",
) -> Near:
    """All pairs of distinct codes at most ``radius`` bits apart, the rows of each code, and how they were found."""
    prepared = _prepared(codes, radius, n_bits, method)
    twins, plan = prepared.twins, prepared.plan
    return Near(twins, _collected(plan.blocks(prepared.words), len(twins), plan.radius, max_pairs), plan)


class _Prepared(NamedTuple):
    """Distinct codes, their rows, and how to find the pairs among them."""

    words: Words
    twins: Twins
    plan: Plan

    def blocks(self) -> Iterator[Found]:
        """Pairs of rows, in blocks."""
        blocks = self.plan.blocks(self.words)
        if len(self.twins) == self.twins.n_rows:
            yield from blocks
            return
        several = np.flatnonzero(self.twins.sizes > 1)
        yield from _expanded(Found(several, several, np.zeros(len(several), np.int32)), self.twins)
        for block in blocks:
            yield from _expanded(block, self.twins)


def _prepared(codes: ArrayLike | CodeTable, radius: int, n_bits: int | None, method: str) -> _Prepared:
    rows = codes.codes() if isinstance(codes, CodeTable) else packed.check(codes)
    bits = 8 * rows.shape[1] if n_bits is None else _whole("n_bits", n_bits, 1)
    if packed.width(bits) != rows.shape[1]:
        raise InputError(f"codes of {bits} bits are {packed.width(bits)} bytes wide; got {rows.shape[1]} bytes")
    words, radius = as_words(rows), min(_whole("radius", radius, 0), bits)
    found = find(words)
    distinct = words if len(found) == len(words) else read_only(words[found.leaders])
    return _Prepared(distinct, found, plan(distinct, bits, radius, method))


def _expanded(block: Found, found: Twins) -> Iterator[Found]:
    """Pairs of rows from pairs of distinct codes."""
    size, pair, member = max(join.BLOCK_PAIRS, int(found.sizes.max(initial=0))), 0, 0
    while pair < len(block.first):
        out = Found.empty(size)
        count, pair, member = expand(block, found.order, found.offsets, pair, member, out)
        yield out.cut(count)


def _collected(blocks: Iterable[Found], n: int, radius: int, max_pairs: int) -> Pairs:
    """Blocks of pairs among n rows as one, sorted."""
    kept, count = [Found.empty(0)], 0
    for block in blocks:
        count += len(block.first)
        _check_count(count, radius, max_pairs)
        kept.append(block)
    return _sorted(Found(*(np.concatenate(column) for column in zip(*kept, strict=True))), n, radius)


def _check_count(count: int, radius: int, max_pairs: int) -> None:
    if count > max_pairs:
        raise InputError(
            f"more than {max_pairs:,} pairs lie within radius {radius}; take a smaller radius, "
            "allow more with max_pairs, or go through them with pairs_blocks"
        )


def _sorted(found: Found, n: int, radius: int) -> Pairs:
    """Sorted by (first, second): as one number each where the three fit 64 bits, which is far quicker."""
    rows, bits = row_bits(n), radius.bit_length()
    if 2 * rows + bits > 64:
        order = np.lexsort((found.second, found.first))
        return Pairs(found.first[order], found.second[order], found.distance[order])
    both = (found.first << rows) | found.second
    numbers = (both.view(np.uint64) << np.uint64(bits)) | found.distance.astype(np.uint64)
    numbers.sort()
    distance = (numbers & np.uint64((1 << bits) - 1)).astype(np.int32)
    numbers >>= np.uint64(bits)
    second = (numbers & np.uint64((1 << rows) - 1)).astype(np.int64)
    return Pairs((numbers >> np.uint64(rows)).astype(np.int64), second, distance)
