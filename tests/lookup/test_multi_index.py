"""Multi-index hashing: the same answers as a scan, whatever the shape of the tables; and its kernels."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import isch
from isch.errors import InputError, ParameterError
from isch.join.buckets import as_words
from isch.lookup import multi_index
from isch.lookup.multi_index import MultiIndex, _probes
from isch.lookup.shapes import Shape, best
from isch.lookup.tables import Tables, fill_table, probe
from isch.scan.exact import CodeTable, nearest, within

Array = NDArray[Any]


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lookups, whatever they cost."""
    monkeypatch.setattr(multi_index, "scan_cost", lambda n_rows, *_: 1e12 if n_rows else 0.0)
    monkeypatch.setattr(multi_index, "CANDIDATE_COST", 1e8)


def clustered(rng: np.random.Generator, n: int, n_bits: int) -> Array:
    bits = rng.integers(0, 2, (5, n_bits), dtype=np.uint8)[rng.integers(0, 5, n)]
    return np.packbits(bits ^ (rng.random((n, n_bits)) < rng.choice([0, 0.02, 0.1], (n, 1))), axis=1)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_within_equals_a_scan(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n_bits = data.draw(st.sampled_from([1, 7, 16, 64, 65, 144, 256, 4100]))
    codes = clustered(rng, data.draw(st.integers(1, 500)), n_bits)
    index = MultiIndex(codes, data.draw(st.integers(0, max(1, n_bits // 8))))
    queries = np.concatenate([codes[:100], clustered(rng, 3, n_bits)])
    for radius in (0, 1, n_bits // 16, n_bits // 8, n_bits):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(multi_index, "scan_cost", lambda *_: 1e12)
            patch.setattr(multi_index, "CANDIDATE_COST", 1e8)
            found = index.within(queries, radius)
        for column, wanted in zip(found, within(queries, codes, radius), strict=True):
            np.testing.assert_array_equal(column, wanted)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("k", [1, 5, 300, 1000])
def test_nearest_equals_a_scan(k: int) -> None:
    rng = np.random.default_rng(k)
    codes = clustered(rng, 400, 128)
    queries = np.concatenate([codes[:50], rng.integers(0, 256, (20, 16), dtype=np.uint8)])
    found, expected = MultiIndex(codes, 8).nearest(queries, k), nearest(queries, codes, k)
    for column, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(column, wanted)


@pytest.mark.parametrize("room", [0.5, 20, 1e9])
def test_queries_with_too_many_candidates_are_scanned(room: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    codes = clustered(rng, 500, 64)
    monkeypatch.setattr(multi_index, "scan_cost", lambda *_: 1e12)
    monkeypatch.setattr(multi_index, "CANDIDATE_COST", 1e12 / room)
    monkeypatch.setattr(MultiIndex, "cost", lambda *_: 0.0)
    queries = np.concatenate([codes[:90], rng.integers(0, 256, (90, 8), dtype=np.uint8)])
    index = MultiIndex(codes, 6)
    _, unknown = index._probed(queries, 6, None)
    assert unknown.any() == (room < 1e9)
    assert unknown[:90].all() == (room < 1)
    for column, wanted in zip(index.within(queries, 6), within(queries, codes, 6), strict=True):
        np.testing.assert_array_equal(column, wanted)


def test_a_table_of_codes_and_its_name() -> None:
    codes = clustered(np.random.default_rng(0), 60, 70)
    index = isch.MultiIndex(isch.CodeTable(codes))
    assert len(index) == 60
    np.testing.assert_array_equal(index.table.codes(), codes)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_codes(n: int) -> None:
    codes, queries = np.zeros((n, 4), np.uint8), np.zeros((3, 4), np.uint8)
    index = MultiIndex(codes, 2)
    assert np.diff(index.within(queries, 2).offsets).tolist() == [n] * 3
    assert index.nearest(queries, 5)[1].tolist() == [list(range(n))] * 3
    assert index.within(queries[:0], 2).offsets.tolist() == [0]


def test_bad_input() -> None:
    index = MultiIndex(np.zeros((3, 4), np.uint8))
    with pytest.raises(InputError, match="queries must be 4 bytes wide; got 5 bytes"):
        index.within(np.zeros((1, 5), np.uint8), 1)
    with pytest.raises(ParameterError, match="radius must be at least 0"):
        index.within(np.zeros((1, 4), np.uint8), -1)
    with pytest.raises(ParameterError, match="k must be at least 1"):
        index.nearest(np.zeros((1, 4), np.uint8), 0)


@pytest.mark.parametrize("shape", [Shape(1, 5, 9), Shape(3, 4, 9), Shape(4, 3, 9)])
@pytest.mark.parametrize("radius", range(8))
def test_what_is_within_the_radius_is_within_reach_of_some_part(shape: Shape, radius: int) -> None:
    reach = shape.reach(radius)
    for spread in np.ndindex(*[min(radius, shape.width) + 1] * shape.n_parts):
        if sum(spread) <= radius:
            assert any(differing <= far for differing, far in zip(spread, reach, strict=True))
    assert shape.n_probes(radius) == _probes(shape, radius).counts.sum()


def test_the_shape_fits_memory() -> None:
    wide, narrow = best(10**7, 256, 32, 4e9), best(10**7, 256, 32, 3e8)
    assert wide.n_bytes <= 4e9
    assert narrow.n_bytes <= 3e8
    assert wide.cost(32) < narrow.cost(32)


def test_the_planner_takes_tables_only_where_they_are_quicker() -> None:
    index = MultiIndex(np.random.default_rng(0).integers(0, 256, (20_000, 32), dtype=np.uint8), 8)
    assert index.takes_tables(8, 1)
    assert not index.takes_tables(100, 1)
    assert "20,000 codes of 256 bits, radius 8, 1 query: lookups; 9 parts of" in index.explain(8)
    assert "radius 100, 64 queries: a scan;" in index.explain(100, 64)


def plain_table(values: Array, n_values: int) -> tuple[Array, Array]:
    return np.searchsorted(np.sort(values), np.arange(n_values + 1)), np.argsort(values, kind="stable")


@pytest.mark.parametrize("n", [1, 8, 1000])
@pytest.mark.parametrize("width", [1, 5, 13])
def test_fill_table(n: int, width: int) -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (n, 9), dtype=np.uint8)
    bits = rng.permutation(72)[:width]
    offsets, rows = np.zeros((1 << width) + 1, np.uint32), np.empty(n, np.uint32)
    shift = (bits % 64 // 8 * 8 + 7 - bits % 8).astype(np.uint64)
    fill_table(CodeTable(codes).tiles, bits // 64, shift, offsets, rows)
    values = np.unpackbits(codes, axis=1)[:, bits] @ (1 << np.arange(width))
    for column, wanted in zip((offsets, rows), plain_table(values, 1 << width), strict=True):
        np.testing.assert_array_equal(column, wanted)


def test_probe_finds_each_row_once() -> None:
    """Against a plain comparison of the values of the parts."""
    rng = np.random.default_rng(1)
    codes = clustered(rng, 300, 64)
    tiles, queries = CodeTable(codes).tiles, as_words(codes[:20])
    bits = rng.permutation(64)[:12].reshape(3, 4)
    shift = (bits // 8 * 8 + 7 - bits % 8).astype(np.uint64)
    tables = Tables(np.zeros_like(bits), shift, np.zeros((3, 17), np.uint32), np.empty((3, 300), np.uint32))
    for part in range(3):
        fill_table(tiles, *(column[part] for column in tables))
    probes, given_up = _probes(Shape(3, 4, 300), 4), np.zeros(20, np.bool_)
    found = probe(tiles, queries, tables, probes, 10, 900, given_up)
    values = np.unpackbits(codes, axis=1)
    apart = (values[:20, None, bits] != values[None, :, bits]).sum(axis=3)
    distances = (values[:20, None] != values[None]).sum(axis=2)
    expected = np.argwhere((apart <= probes.reach).any(axis=2) & (distances <= 10))
    assert not given_up.any()
    assert sorted(found[:, [0, 2]].tolist()) == expected.tolist()
    np.testing.assert_array_equal(found[:, 1], distances[found[:, 0], found[:, 2]])
