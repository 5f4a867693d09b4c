"""All pairs of codes within a radius, each once.

    pairs = isch.pairs_within(codes, radius=8)
    pairs.first, pairs.second, pairs.distance

Equal codes are collapsed first, so that a thousand copies cost no more than a single code.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isch import codes as packed
from isch.errors import InputError, TooManyPairs
from isch.join import tasks
from isch.join.buckets import Words, as_words, read_only, row_bits
from isch.join.kernels import Found
from isch.join.planner import Plan, plan
from isch.join.representatives import Twins, expand, find
from isch.scan.exact import CodeTable, _whole

MAX_PAIRS = 100_000_000
_RECORD = np.dtype([("first", np.int64), ("second", np.int64), ("distance", np.int32)])


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

    def expanded(self, max_pairs: int = MAX_PAIRS) -> Pairs:
        """All pairs of rows."""
        if not self.twins.any:
            return self.pairs
        radius = self.plan.radius
        _check_count(_count_expanded(self.twins, self.pairs), radius, max_pairs)
        return _collected(_expanded([Found(*self.pairs)], self.twins), self.twins.n_rows, radius, max_pairs)


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
    TooManyPairs
        If there are more than ``max_pairs`` pairs.
    """
    found = near(codes, radius, n_bits=n_bits, max_pairs=max_pairs, method=method)
    return found.expanded(max_pairs)


def pairs_blocks(
    codes: ArrayLike | CodeTable, radius: int, *, n_bits: int | None = None, method: str = "auto"
) -> Iterator[Pairs]:
    """Find all pairs of rows at most ``radius`` bits apart, in blocks, for results that do not fit in memory.

    Parameters
    ----------
    codes, radius, n_bits, method
        As for ``pairs_within``.

    Yields
    ------
    Pairs
        At most about two million pairs, sorted by (first, second). Each pair is in one block.
    """
    words, twins, plan = prepare(codes, radius, n_bits, method)
    blocks = _expanded(plan.blocks(words), twins) if twins.any else plan.blocks(words)
    return (_sorted(block, twins.n_rows, plan.radius) for block in blocks if len(block.first))


def near(
    codes: ArrayLike | CodeTable,
    radius: int,
    *,
    n_bits: int | None = None,
    max_pairs: int = MAX_PAIRS,
    method: str = "auto",
) -> Near:
    """All pairs of distinct codes at most ``radius`` bits apart, the rows of each code, and how they were found."""
    prepared = prepare(codes, radius, n_bits, method)
    return Near(prepared.twins, prepared.pairs(max_pairs), prepared.plan)


class Prepared(NamedTuple):
    """Distinct codes, their rows, and how to find the pairs among them."""

    words: Words
    twins: Twins
    plan: Plan

    def pairs(self, max_pairs: int) -> Pairs:
        """The pairs of distinct codes."""
        return _collected(self.plan.blocks(self.words), len(self.words), self.plan.radius, max_pairs)


def prepare(codes: ArrayLike | CodeTable, radius: int, n_bits: int | None = None, method: str = "auto") -> Prepared:
    """Check everything, collapse equal codes, and plan."""
    rows = codes.codes() if isinstance(codes, CodeTable) else packed.check(codes)
    bits = 8 * rows.shape[1] if n_bits is None else _whole("n_bits", n_bits, 1)
    if packed.width(bits) != rows.shape[1]:
        raise InputError(f"codes of {bits} bits are {packed.width(bits)} bytes wide; got {rows.shape[1]} bytes")
    words, radius = as_words(rows), min(_whole("radius", radius, 0), bits)
    twins = find(words)
    distinct = read_only(words[twins.leaders]) if twins.any else words
    return Prepared(distinct, twins, plan(distinct, bits, radius, method))


def _expanded(blocks: Iterable[Found], twins: Twins) -> Iterator[Found]:
    """Pairs of rows from pairs of distinct codes, after the pairs of equal codes."""
    several = np.flatnonzero(twins.sizes > 1)
    equal = Found(several, several, np.zeros(len(several), np.int32))
    size = max(tasks.BLOCK_PAIRS, int(twins.sizes.max(initial=0)))
    for block in chain([equal], blocks):
        pair = member = 0
        while pair < len(block.first):
            out = Found.empty(size)
            count, pair, member = expand(block, twins.order, twins.offsets, pair, member, out)
            yield out.cut(count)


def _count_expanded(twins: Twins, pairs: Pairs) -> int:
    sizes = twins.sizes
    return int((sizes * (sizes - 1) // 2).sum() + (sizes[pairs.first] * sizes[pairs.second]).sum())


def _check_count(count: int, radius: int, max_pairs: int) -> None:
    if count > max_pairs:
        raise TooManyPairs(
            f"more than {max_pairs:,} pairs lie within radius {radius}; take a smaller radius "
            "(in Python, max_pairs allows more, and pairs_blocks gives them block by block)"
        )


def _collected(blocks: Iterable[Found], n: int, radius: int, max_pairs: int) -> Pairs:
    """Blocks of pairs among n rows as one, sorted."""
    form, count = _Form(row_bits(n), radius.bit_length()), 0
    kept = [form.packed(Found.empty(0))]
    for block in blocks:
        count += len(block.first)
        _check_count(count, radius, max_pairs)
        kept.append(form.packed(block))
    together = np.concatenate(kept)
    kept.clear()
    return form.unpacked(together)


def _sorted(found: Found, n: int, radius: int) -> Pairs:
    form = _Form(row_bits(n), radius.bit_length())
    return form.unpacked(form.packed(found))


class _Form(NamedTuple):
    """A pair and its distance as one number, where the three fit 64 bits: small, and quick to sort. Else a record."""

    row_bits: int
    distance_bits: int

    @property
    def fits(self) -> bool:
        return 2 * self.row_bits + self.distance_bits <= 64

    def packed(self, found: Found) -> NDArray[Any]:
        """The pairs, each as one element."""
        if not self.fits:
            records = np.empty(len(found.first), _RECORD)
            for name, column in zip(Found._fields, found, strict=True):
                records[name] = column
            return records
        both = ((found.first << self.row_bits) | found.second).view(np.uint64)
        return (both << np.uint64(self.distance_bits)) | found.distance.astype(np.uint64)

    def unpacked(self, packed: NDArray[Any]) -> Pairs:
        """The pairs, sorted by (first, second)."""
        if not self.fits:
            order = np.lexsort((packed["second"], packed["first"]))
            return Pairs(*(packed[name][order] for name in Found._fields))
        packed.sort()
        both = packed >> np.uint64(self.distance_bits)
        distance = (packed & np.uint64((1 << self.distance_bits) - 1)).astype(np.int32)
        second = (both & np.uint64((1 << self.row_bits) - 1)).view(np.int64)
        return Pairs((both >> np.uint64(self.row_bits)).view(np.int64), second, distance)
