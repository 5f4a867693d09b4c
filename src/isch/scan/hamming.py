"""Hamming search on all cores: how work is divided, and which limits it starts from."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import isqrt
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from isch import compute
from isch.codes import Codes
from isch.scan.kernels import layout, selection
from isch.scan.kernels.selection import Board, Rows
from isch.scan.kernels.tiles import group_widths, prepare
from isch.scan.source import LANES, Source, aligned

Ranked = tuple[NDArray[np.int32], NDArray[np.int64]]
T = TypeVar("T")
R = TypeVar("R")

SAMPLE_STRIDE = 32
SAMPLE_FROM_K = 32
BOARD_BYTES = 1 << 28
_WIDTHS = group_widths()


class Part(NamedTuple):
    """A piece of work: some groups of queries against some tiles."""

    groups: slice
    first: int
    last: int


def lay_out(codes: Codes) -> NDArray[np.uint64]:
    """Packed codes (n, bytes) as tiles uint64 (tile, word, lane)."""
    source = Source.of(codes, *codes.shape)
    tiles = aligned((source.n_tiles, source.words, LANES))
    on_all_cores(
        lambda span: layout.lay_out(source.data, *span, tiles[span[0] : span[1]]),
        spans(source.n_tiles),
    )
    return tiles


def grouped(queries: Codes) -> NDArray[np.uint64]:
    """Queries (n, bytes) in groups: uint64 (group, word, query), zero padded, prepared for the kernels."""
    n, n_bytes = queries.shape
    width = min(_WIDTHS, key=lambda w: -(-n // w) * (w + 1))
    padded = np.zeros((-(-n // width) * width, -(-n_bytes // 8) * 8), np.uint8)
    padded[:n, :n_bytes] = queries
    words = padded.view("<u8").astype(np.uint64, copy=False)
    groups = np.ascontiguousarray(words.reshape(-1, width, words.shape[1]).transpose(0, 2, 1))
    for group in groups:
        prepare(group)
    return groups


def nearest(source: Source, queries: Codes, k: int, allowed: NDArray[np.uint8]) -> Ranked:
    """The k nearest rows of each query; ``allowed`` is one byte of lanes per tile, or empty, with at least k rows."""
    rows = Rows(source.n_rows, allowed)
    distances, found = _scan(source, rows, queries, k, _first_limits(source, rows, queries, k))
    short = np.flatnonzero(found[:, -1] < 0)
    if len(short):
        distances[short], found[short] = _scan(source, rows, queries[short], k, _no_limits(source, len(short)))
    return distances, found


def within(source: Source, queries: Codes, radius: int, allowed: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Every (query, distance, row) with distance ≤ radius, rows of a query in order."""
    rows, groups = Rows(source.n_rows, allowed), grouped(queries)
    limits = _padded(np.full(len(queries), radius + 1, np.int64), groups)

    def scan(part: Part) -> NDArray[np.int64]:
        width = groups.shape[2]
        found: NDArray[np.int64] = selection.scan_within(
            source.data,
            part.first,
            part.last,
            rows,
            groups[part.groups],
            limits[part.groups.start * width : part.groups.stop * width],
        )
        found[:, 0] += part.groups.start * width
        return found

    return np.concatenate(on_all_cores(scan, _parts(source, len(groups))))


def distances(source: Source, queries: Codes) -> NDArray[np.int32]:
    """The distance of every query to every row."""
    groups, out = grouped(queries), np.empty((len(queries), source.n_rows), np.int32)

    def scan(span: tuple[int, int]) -> None:
        first, last = span
        selection.scan_all(source.data, first, last, source.n_rows, groups, out[:, first * LANES : last * LANES])

    on_all_cores(scan, spans(source.n_tiles))
    return out


def distances_here(source: Source, queries: Codes) -> NDArray[np.int32]:
    """The same, on the calling thread alone."""
    out = np.empty((len(queries), source.n_rows), np.int32)
    selection.scan_all(source.data, 0, source.n_tiles, source.n_rows, grouped(queries), out[:, :])
    return out


def _first_limits(source: Source, rows: Rows, queries: Codes, k: int) -> NDArray[np.int64]:
    """Limits that a few more than k rows probably stay below, estimated from a sample of the tiles.

    If fewer rows do, the query is searched again without a limit. So a bad sample costs time, never exactness.
    """
    expected = k / SAMPLE_STRIDE
    k_sample = int(expected) + 3 * isqrt(int(expected) + 1) + 4
    sample = source.sample(SAMPLE_STRIDE) if k >= SAMPLE_FROM_K else source
    if k < SAMPLE_FROM_K or 8 * k_sample > sample.n_rows:
        return _no_limits(source, len(queries))
    chosen = rows.allowed[: source.n_rows // LANES : SAMPLE_STRIDE].copy()
    below, found = _scan(sample, Rows(sample.n_rows, chosen), queries, k_sample, _no_limits(source, len(queries)))
    return np.where(found[:, -1] < 0, 64 * source.words, below[:, -1]).astype(np.int64) + 1


def _no_limits(source: Source, n_queries: int) -> NDArray[np.int64]:
    return np.full(n_queries, 64 * source.words + 1, np.int64)


def _scan(source: Source, rows: Rows, queries: Codes, k: int, limits: NDArray[np.int64]) -> Ranked:
    """The k nearest rows among those below the limits; −1 where there are fewer."""
    capacity = k + (k // 4 + 32 if k >= SAMPLE_FROM_K else 4)  # limits from a sample are low already
    at_once = max(LANES, BOARD_BYTES // (12 * capacity) // LANES * LANES)
    distances, found = np.empty((len(queries), k), np.int32), np.empty((len(queries), k), np.int64)
    for start in range(0, len(queries), at_once):
        some = slice(start, start + at_once)
        distances[some], found[some] = _scan_some(source, rows, queries[some], k, limits[some], capacity)
    return distances, found


def _scan_some(source: Source, rows: Rows, queries: Codes, k: int, limits: NDArray[np.int64], capacity: int) -> Ranked:
    groups = grouped(queries)
    width, starts = groups.shape[2], _padded(limits, groups)

    parts, n = _parts(source, len(groups)), len(starts)
    by_rows = len(parts) > 1 and parts[0].groups == parts[1].groups
    shape = (len(parts) if by_rows else 1, n, k)
    distances, found = np.empty(shape, np.int32), np.empty(shape, np.int64)

    def scan(numbered: tuple[int, Part]) -> None:
        number, part = numbered
        mine = slice(part.groups.start * width, part.groups.stop * width)
        board = _board(starts[mine], capacity)
        selection.scan_nearest(source.data, part.first, part.last, rows, groups[part.groups], board, k)
        into = number if by_rows else 0
        selection.finish(board, k, 64 * source.words, distances[into, mine], found[into, mine])

    on_all_cores(scan, list(enumerate(parts)))
    if by_rows:
        merged = np.empty((1, n, k), np.int32), np.empty((1, n, k), np.int64)
        selection.merge(distances, found, merged[0][0], merged[1][0])
        distances, found = merged
    return distances[0, : len(queries)], found[0, : len(queries)]


def _board(limits: NDArray[np.int64], capacity: int) -> Board:
    shape = (len(limits), capacity)
    return Board(np.empty(shape, np.int32), np.empty(shape, np.int64), np.zeros(len(limits), np.int64), limits.copy())


def _parts(source: Source, n_groups: int) -> list[Part]:
    """Divide queries if there are many, so that limits fall once for all rows; otherwise divide rows.

    Codes that are not laid out yet are divided by rows, so that each is laid out once.
    """
    threads = compute.n_threads()
    if source.laid_out and n_groups >= 2 * threads:
        return [Part(slice(*span), 0, source.n_tiles) for span in spans(n_groups)]
    return [Part(slice(0, n_groups), *span) for span in spans(source.n_tiles)]


def spans(n: int, parts: int | None = None) -> list[tuple[int, int]]:
    """Divide 0:n into nearly equal parts, by default one per core, none empty; one empty part if n is 0."""
    parts = min(parts or compute.n_threads(), max(n, 1))
    return list(pairwise(part * n // parts for part in range(parts + 1)))


def _padded(limits: NDArray[np.int64], groups: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Limits for all queries of the groups; nothing is nearer than 0, so padding finds nothing."""
    padded = np.zeros(groups.shape[0] * groups.shape[2], np.int64)
    padded[: len(limits)] = limits
    return padded


def on_all_cores(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """``function`` of each item, in order; a single item needs no thread."""
    return [function(items[0])] if len(items) == 1 else compute.together(function, items)
