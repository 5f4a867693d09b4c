"""Searches of an index by tables: the same answers as by a scan; tables are built when somebody asks for them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import isch
from isch import Index
from isch.errors import ParameterError
from isch.lookup import multi_index, policy
from isch.lookup.policy import LookupPolicy
from isch.scan import exact, numpy_reference
from isch.scan.exact import CodeTable

Array = NDArray[Any]
N, RADIUS = 900, 9


def clustered(n: int, n_bytes: int = 8) -> Array:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (20, n_bytes), dtype=np.uint8)[rng.integers(0, 20, n)]
    return codes ^ (rng.random((n, n_bytes)) < 0.3) * (1 << rng.integers(0, 8, (n, n_bytes))).astype(np.uint8)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are taken to be quicker than a scan in any case."""
    for module in (multi_index, policy):
        monkeypatch.setattr(module, "scan_cost", lambda n_rows, *_: 1e12 if n_rows else 0.0)
    monkeypatch.setattr(multi_index, "CANDIDATE_COST", 1e8)


@pytest.fixture
def index(tmp_path: Path) -> Index:
    """Two segments in clusters, with metadata and deleted items."""
    codes = clustered(N)
    made = Index.create(tmp_path / "x.isch", None, codes[:500], metadata=[{"i": i} for i in range(500)], n_bits=64)
    made.add(codes[500:], metadata=[{"i": i} for i in range(500, N)])
    made.delete(list(range(0, N, 7)))
    return made


def expected(query: Array, where: Any) -> list[tuple[int, int]]:
    """(distance, key) of all items that fit, sorted."""
    distances = np.bitwise_count(clustered(N) ^ query).sum(axis=1)
    return sorted((int(distances[i]), i) for i in range(N) if i % 7 and (where is None or i <= 600))


def check(index: Index, where: Any = None) -> None:
    queries = clustered(N)[[0, 7, 450, 899]] ^ np.uint8(1)
    near, nearest = index.within(queries, RADIUS, where=where), index.search(queries, 30, where=where)
    again = index.search(queries, 30, where=where)
    assert near[0]
    for query, *found in zip(queries, near, nearest, again, strict=True):
        wanted = expected(query, where)
        within = [pair for pair in wanted if pair[0] <= RADIUS]
        assert [[(hit.distance, hit.key) for hit in hits] for hits in found] == [within, wanted[:30], wanted[:30]]
        assert all(hit.metadata == {"i": hit.key} for hit in found[0])


@pytest.mark.parametrize("where", [None, {"i": {"<=": 600}}])
def test_by_a_scan(index: Index, where: Any) -> None:
    check(index, where)
    assert all(segment.lookup.tables is None for segment in index._now.segments)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("where", [None, {"i": {"<=": 600}}])
def test_by_tables(index: Index, where: Any) -> None:
    index.accelerate(RADIUS)
    assert all(segment.lookup.tables is not None for segment in index._now.segments)
    check(index)
    check(index, where)
    assert all("lookups" in sentence for sentence in index.explain(1, radius=RADIUS))
    before = index._now.segments[0].lookup.tables
    index.add(clustered(N)[:3], keys=["a", "b", "c"])
    assert index._now.segments[0].lookup.tables is before, "a segment keeps its tables"
    index.accelerate(None)
    assert all(segment.lookup.tables is None for segment in index._now.segments)


def test_no_items_and_a_bad_radius(tmp_path: Path) -> None:
    empty = Index.create(tmp_path / "x.isch", n_bits=64)
    assert empty.within(np.zeros((2, 8), np.uint8), 3) == [[], []]
    assert empty.explain(1, radius=3) == []
    for bad in (-1, 1.5, True):
        with pytest.raises(ParameterError, match="radius must be an integer of at least 0; got"):
            empty.within(np.zeros((1, 8), np.uint8), bad)  # type: ignore[arg-type]


@pytest.mark.usefixtures("eager")
def test_several_indexes(index: Index, tmp_path: Path) -> None:
    codes = clustered(N)
    Index.create(tmp_path / "y.isch", None, codes[:50], n_bits=64).close()
    query = codes[450]
    with isch.Index.open([index.path, tmp_path / "y.isch"]) as both:
        both.accelerate(RADIUS)
        assert all(segment.lookup.tables is not None for segment in both._joint._now.segments)
        found = both.within(query, RADIUS)[0]
        assert len(both.explain(1, radius=RADIUS)) == 3
    other = [(int(d), i) for i, d in enumerate(np.bitwise_count(codes[:50] ^ query).sum(axis=1)) if d <= RADIUS]
    first = [(d, key) for d, key in expected(query, None) if d <= RADIUS]
    assert [(hit.distance, hit.key.key) for hit in found] == sorted([*first, *other], key=lambda pair: pair[0])  # type: ignore[union-attr]


def test_searches_build_no_tables_unasked() -> None:
    codes = np.random.default_rng(0).integers(0, 256, (5000, 32), dtype=np.uint8)
    search = LookupPolicy(CodeTable(codes))
    for _ in range(50):
        assert search.within(codes[:1], 4, None).rows.tolist() == [0]
    assert search.tables is None
    assert "a scan; index.accelerate(radius=…) would build tables" in search.explain(1, 4, 10)


def test_tables_that_save_nothing_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = np.repeat(clustered(20, 32), 200, axis=0)  # each value is that of hundreds of rows
    search = LookupPolicy(CodeTable(codes))
    expected = search.within(codes, 4, None)
    search.build(4)
    assert search.tables is not None
    assert "a scan;" in search.explain(10**6, 4, 10)
    monkeypatch.setattr(search.tables, "within", None)
    found = search.within(codes, 4, None)
    np.testing.assert_array_equal(found.rows, expected.rows)


def test_tables_without_room_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    search = LookupPolicy(CodeTable(np.random.default_rng(0).integers(0, 256, (20_000, 32), dtype=np.uint8)))
    monkeypatch.setattr(policy.memory, "free", lambda: 1 << 20)
    with pytest.raises(ParameterError, match=r"would take .*; expected at most 262 kB, a quarter of the memory"):
        search.build(4)
    assert search.tables is None


@pytest.mark.usefixtures("eager")
def test_how_far_the_nearest_are_is_learnt() -> None:
    codes = clustered(500)
    search = LookupPolicy(CodeTable(codes))
    search.build(RADIUS)
    assert "known after the first search" in search.explain(1, None, 5)
    queries = np.tile(codes[:40], (4, 1))
    mask = np.arange(0, 500, 2)
    for allowed in (None, mask):
        found, wanted = search.nearest(queries, 5, allowed), exact.nearest(queries, codes, 5, mask=allowed)
        for column, right in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(column, right)
    assert "known after" not in search.explain(1, None, 5)


def test_plain_within() -> None:
    codes, queries = clustered(100), clustered(9)
    for rows in (None, np.arange(3, 90, 4)):
        twin = numpy_reference.within(exact._source(codes), queries, 12, rows)
        plain_distances = np.bitwise_count(queries[:, None] ^ codes[None]).sum(axis=2)
        allowed = np.arange(100) if rows is None else rows
        wanted = [sorted((d[i], i) for i in allowed if d[i] <= 12) for d in plain_distances]
        assert twin[0].tolist() == np.cumsum([0, *map(len, wanted)]).tolist()
        assert list(zip(twin[2].tolist(), twin[1].tolist(), strict=True)) == [pair for some in wanted for pair in some]
