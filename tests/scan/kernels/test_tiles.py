"""Each kernel against its plain NumPy twin."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from isch.scan import hamming, measures
from isch.scan.kernels import layout, row_scan, selection
from isch.scan.kernels.tiles import next_hit, place, prepare

Array = NDArray[Any]


def plain_distances(tiles: Array, queries: Array) -> Array:
    """(query, tile, lane) of tiles (tile, word, lane) and a group of queries (word, query)."""
    counts: Array = np.bitwise_count(tiles[None] ^ queries.T[:, None, :, None]).sum(axis=2, dtype=np.int64)
    return counts


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("words", [1, 2, 3, 4, 5, 9, 16, 31, 50])
def test_next_hit_stops_at_every_tile_below_a_limit(width: int, words: int) -> None:
    rng = np.random.default_rng(words)
    tiles = rng.integers(0, 2**64, (200, words, 8), dtype=np.uint64)
    queries = rng.integers(0, 2**64, (words, width), dtype=np.uint64)
    dense = plain_distances(tiles, queries)
    limits = np.sort(dense.reshape(width, -1), axis=1)[:, 20].copy()
    out, found, tile = np.empty(8 * width + 1, np.int64), [], 0
    prepare(queries)
    at = place(tiles, queries, limits, out)
    while tile < len(tiles):
        tile = next_hit(at, tile, len(tiles), words, width)
        if tile < len(tiles):
            below = dense[:, tile] - limits[:, None]
            np.testing.assert_array_equal(out[:-1].reshape(width, 8), below)
            mask = sum(1 << i for i, value in enumerate(below.ravel()) if value < 0)
            assert np.uint64(out[-1].view(np.uint64)) == np.uint64(mask)
            found.append(tile)
            tile += 1
    assert found == np.flatnonzero((dense < limits[:, None, None]).any(axis=(0, 2))).tolist()


@pytest.mark.parametrize("words", [1, 2, 4, 8, 16, 40])
@pytest.mark.parametrize("skipped", [0, 1, 16])
def test_rows_as_they_lie(words: int, skipped: int) -> None:
    rng = np.random.default_rng(words)
    memory = rng.integers(0, 256, 8 * words * 203 + skipped, dtype=np.uint8)
    rows, query = memory[skipped:].reshape(203, 8 * words), rng.integers(0, 2**64, words, dtype=np.uint64)
    dense = np.bitwise_count(rows ^ query.view(np.uint8)).sum(axis=1, dtype=np.int64)
    limit, repeated, out = int(np.sort(dense)[20]), row_scan.pattern(query), np.empty(9, np.int64)
    found, group = [], 0
    while group < 25:
        group = row_scan.next_hit(rows.ctypes.data, group, 25, words, repeated.ctypes.data, limit, out.ctypes.data)
        if group < 25:
            below = dense[8 * group : 8 * group + 8] - limit
            np.testing.assert_array_equal(out[:8], below)
            assert out[8] == sum(1 << i for i, value in enumerate(below) if value < 0)
            found.append(group)
            group += 1
    assert found == np.flatnonzero((dense[:200].reshape(25, 8) < limit).any(axis=1)).tolist()


@pytest.mark.parametrize("n_bytes", [1, 5, 8, 9, 15, 16, 24, 31, 32, 40, 64, 77, 128, 400])
def test_lay_out(n_bytes: int) -> None:
    codes = np.random.default_rng(n_bytes).integers(0, 256, (77, n_bytes), dtype=np.uint8)
    words = np.zeros((80, -(-n_bytes // 8) * 8), np.uint8)
    words[:77, :n_bytes] = codes
    expected = words.view("<u8").reshape(10, 8, -1).transpose(0, 2, 1)
    np.testing.assert_array_equal(hamming.lay_out(codes), expected)
    part = np.full((4, words.shape[1] // 8, 8), 99, np.uint64)
    layout.lay_out(codes, 6, 10, part)
    np.testing.assert_array_equal(part, expected[6:])


def test_gather() -> None:
    rng = np.random.default_rng(0)
    codes, rows = rng.integers(0, 256, (100, 20), dtype=np.uint8), rng.integers(0, 100, 45)
    source = hamming.Source.of(hamming.lay_out(codes), 100, 20)
    np.testing.assert_array_equal(source.take(rows).data, hamming.lay_out(codes[rows]))


@pytest.mark.parametrize("k", [1, 7, 50, 60])
def test_cut_keeps_the_least_in_order_of_arrival(k: int) -> None:
    rng = np.random.default_rng(k)
    distances, rows = rng.integers(5, 12, 80).astype(np.int32), np.arange(80) * 3
    kept = np.sort(np.argsort(distances[:60], kind="stable")[:k])
    expected, limit = distances[kept].copy(), np.sort(distances[:60])[k - 1]
    assert selection.cut(distances, rows, 60, k, np.empty(65, np.int32)) == limit
    np.testing.assert_array_equal(distances[:k], expected)
    np.testing.assert_array_equal(rows[:k], kept * 3)


def test_merge_prefers_the_earlier_part() -> None:
    nothing = selection.NOTHING
    distances = np.array([[[1, 3, nothing]], [[1, 2, 3]], [[0, 3, nothing]]], np.int32)
    rows = np.array([[[4, 2, -1]], [[11, 10, 12]], [[20, 21, -1]]])
    merged, found = np.empty((1, 8), np.int32), np.empty((1, 8), np.int64)
    selection.merge(distances, rows, merged, found)
    assert merged[0].tolist() == [0, 1, 1, 2, 3, 3, 3, nothing]
    assert found[0].tolist() == [20, 4, 11, 10, 2, 12, 21, -1]


def test_keep_least_orders_every_kind_of_float() -> None:
    values = np.array([[3.5, -np.inf, 0.0, -2.25, np.inf, 1e-30, -1e-30, np.inf, -2.25, 3.5]], np.float32)
    keys = np.full((1, 12), np.iinfo(np.uint64).max, np.uint64)
    counts, limits = np.zeros(1, np.int64), np.full(1, np.nan, np.float32)
    measures.keep_least(values, 100, np.empty(0, np.bool_), keys, counts, limits, 10)
    order = np.argsort(values[0], kind="stable")
    np.testing.assert_array_equal(np.sort(keys[0])[:10] & np.uint64(0xFFFFFFFF), order + 100)


def test_grouping_pads_with_zero_queries() -> None:
    queries = np.arange(1, 46, dtype=np.uint8).reshape(5, 9)
    groups = hamming.grouped(queries)
    n_groups, words, width = groups.shape
    flat = groups.transpose(0, 2, 1).reshape(n_groups * width, words).copy().view(np.uint8)
    assert words == 2
    np.testing.assert_array_equal(flat[:5, :9], queries)
    assert not flat[5:].any()
    assert not flat[:, 9:].any()
