"""Search of arrays in memory: against plain NumPy twins, faiss, and itself by other routes."""

from typing import Any

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from isch import codes as packed
from isch.distances import HAMMING, Distance, ProductAffinity, SphericalHamming, WeightedHamming
from isch.errors import InputError, ParameterError
from isch.scan.exact import (
    CodeTable,
    asymmetric_distances,
    distances,
    nearest,
    nearest_asymmetric,
    tiles,
    within,
)

Array = NDArray[Any]


def some_codes(rng: np.random.Generator, n: int, n_bytes: int, n_distinct: int) -> Array:
    return rng.integers(0, 256, (n_distinct, n_bytes), dtype=np.uint8)[rng.integers(0, n_distinct, n)]


def plain_hamming(queries: Array, codes: Array) -> Array:
    return np.stack([np.bitwise_count(codes ^ query).sum(axis=1, dtype=np.int32) for query in queries])


def plain_spherical(queries: Array, codes: Array) -> Array:
    differ = plain_hamming(queries, codes)
    shared = np.stack([np.bitwise_count(codes & query).sum(axis=1) for query in queries])
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(differ == 0, 0, differ / shared).astype(np.float32)


def plain_weighted(queries: Array, codes: Array, weights: Array) -> Array:
    return np.stack([packed.unpack(codes ^ query, len(weights)) @ weights for query in queries])


def plain_affinity(queries: Array, codes: Array, distance: ProductAffinity) -> Array:
    m = len(distance.weights)
    agree = packed.signs(queries, m)[:, None] * packed.signs(codes, m) * distance.weights
    total = np.zeros(agree.shape[:2])
    for group in set(distance.groups.tolist()):
        inside = distance.groups == group
        product = np.ones(agree.shape[:2])
        for coordinate in set(distance.coordinates[inside].tolist()):
            product *= 1 + agree[:, :, inside & (distance.coordinates == coordinate)].sum(axis=2)
        total += product
    return -np.arcsinh(total)


def ranked(dense: Array, k: int, mask: Array | None = None) -> tuple[Array, Array]:
    rows = np.arange(dense.shape[1]) if mask is None else np.flatnonzero(mask)
    chosen = rows[np.argsort(dense[:, rows], axis=1, kind="stable")[:, :k]]
    return np.take_along_axis(dense, chosen, axis=1), chosen


def assert_same(found: tuple[Array, Array], expected: tuple[Array, Array]) -> None:
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


@st.composite
def searches(draw: st.DrawFn) -> tuple[Array, Array, int, Array | None]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, n_bytes = draw(st.integers(1, 1500)), draw(st.sampled_from([1, 3, 7, 8, 9, 15, 16, 25, 32, 64, 70, 128, 400]))
    codes = some_codes(rng, n, n_bytes, draw(st.integers(1, n)))
    queries = rng.integers(0, 256, (draw(st.sampled_from([1, 2, 3, 5, 8, 9, 33, 70])), n_bytes), dtype=np.uint8)
    queries[::2] = codes[rng.integers(0, n, len(queries[::2]))]
    share = draw(st.sampled_from([None, 0.01, 0.3, 0.9]))
    mask = None if share is None else rng.random(n) < share
    return queries, codes, draw(st.sampled_from([1, 2, 10, 40, 100, n, n + 5])), mask


@settings(max_examples=60, deadline=None)
@given(searches())
def test_nearest_is_exact_with_ties_by_row(search: tuple[Array, Array, int, Array | None]) -> None:
    queries, codes, k, mask = search
    expected = ranked(plain_hamming(queries, codes), k, mask)
    assert_same(nearest(queries, codes, k, mask=mask), expected)
    found = nearest(queries, CodeTable(codes), k, mask=mask)
    assert_same(found, expected)
    assert found[0].dtype == np.int32
    assert found[1].dtype == np.int64


@settings(max_examples=40, deadline=None)
@given(searches(), st.floats(0, 1))
def test_within_finds_everything_in_the_radius(search: tuple[Array, Array, int, Array | None], share: float) -> None:
    queries, codes, _, mask = search
    dense = plain_hamming(queries, codes)
    radius = int(np.quantile(dense, share))
    for source in (codes, CodeTable(codes)):
        hits = within(queries, source, radius, mask=mask)
        for q, row in enumerate(dense):
            order = np.lexsort((np.arange(len(row)), row))
            order = order[(row[order] <= radius) & (True if mask is None else mask[order])]
            part = slice(hits.offsets[q], hits.offsets[q + 1])
            np.testing.assert_array_equal(hits.rows[part], order)
            np.testing.assert_array_equal(hits.distances[part], row[order])


@pytest.mark.parametrize("n_bytes", [1, 8, 20, 32, 128])
def test_same_neighbours_as_faiss(n_bytes: int) -> None:
    rng = np.random.default_rng(n_bytes)
    codes, queries = (rng.integers(0, 256, (n, n_bytes), dtype=np.uint8) for n in (20_000, 40))
    index = faiss.IndexBinaryFlat(8 * n_bytes)
    index.add(codes)
    theirs, _ = index.search(queries, 100)
    ours, rows = nearest(queries, CodeTable(codes), 100)
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(np.take_along_axis(plain_hamming(queries, codes), rows, axis=1), ours)


@pytest.mark.parametrize("k", [1, 31, 500, 20_000])
def test_large_tables_use_a_sample_and_stay_exact(k: int) -> None:
    rng = np.random.default_rng(k)
    codes = some_codes(rng, 60_000, 8, 6_000)
    queries = np.concatenate([codes[:9], rng.integers(0, 256, (8, 8), dtype=np.uint8)])
    expected = ranked(plain_hamming(queries, codes), k)
    assert_same(nearest(queries, CodeTable(codes), k), expected)
    assert_same(nearest(queries, codes, k), expected)


def test_a_misleading_sample_costs_no_exactness() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (40_000, 16), dtype=np.uint8)
    query = codes[:1].copy()
    sampled = np.arange(len(codes)) // 8 % 16 == 0
    codes[sampled] = query
    few = np.flatnonzero(sampled)[:400]
    codes[np.setdiff1d(np.flatnonzero(sampled), few)] = ~query
    assert_same(nearest(query, CodeTable(codes), 600), ranked(plain_hamming(query, codes), 600))


def test_threads_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    codes, queries = some_codes(rng, 5_000, 8, 500), some_codes(rng, 50, 8, 50)
    answers = []
    for threads in ("1", "2", "7"):
        monkeypatch.setenv("ISCH_NUM_THREADS", threads)
        answers.append((nearest(queries, codes, 50), nearest(queries[:3], CodeTable(codes), 50)))
    for ours, theirs in answers[1:]:
        assert_same(ours, answers[0][0])
        assert_same(theirs, answers[0][1])


def all_distances(rng: np.random.Generator, m: int) -> list[Distance]:
    weights = rng.random(m).astype(np.float32)
    coordinates, groups = rng.integers(0, 5, m).astype(np.int32), rng.integers(0, 3, m).astype(np.int32)
    return [SphericalHamming(), WeightedHamming(weights), ProductAffinity(weights / np.float32(m), coordinates, groups)]


def plain(queries: Array, codes: Array, distance: Distance) -> Array:
    match distance:
        case SphericalHamming():
            return plain_spherical(queries, codes)
        case WeightedHamming(weights):
            return plain_weighted(queries, codes, weights)
        case ProductAffinity():
            return plain_affinity(queries, codes, distance)
        case _:
            return plain_hamming(queries, codes)


def test_affinities_over_many_coordinates_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    codes = packed.pack(rng.random((500, 256)) < 0.5)
    weights = rng.uniform(0.3, 0.6, 256).astype(np.float32)
    distance = ProductAffinity(weights, np.arange(256, dtype=np.int32), np.zeros(256, np.int32))
    dense = distances(codes[:3], codes, distance)
    exact = plain_affinity(codes[:3], codes, distance)
    assert all(len(np.unique(row)) > 490 for row in dense)
    np.testing.assert_allclose(dense, exact, rtol=1e-4, atol=0)


def test_affinities_whose_squares_overflow_are_told_apart() -> None:
    weights = np.full(600, 0.9, np.float32)
    distance = ProductAffinity(weights, np.arange(600, dtype=np.int32), np.zeros(600, np.int32))
    codes = packed.pack(np.arange(600) < np.array([[0], [2], [4]]))
    found = distances(codes[:1], codes, distance)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, plain_affinity(codes[:1], codes, distance), rtol=1e-5)


@pytest.mark.parametrize("m", [5, 32, 100, 256])
@pytest.mark.parametrize("kind", [0, 1, 2])
def test_other_distances(m: int, kind: int) -> None:
    rng = np.random.default_rng(m)
    codes, queries = (packed.pack(rng.random((n, m)) < 0.5) for n in (3_001, 21))
    queries[0], codes[:5], codes[7] = 0, 0, codes[9]
    distance = all_distances(rng, m)[kind]
    dense = distances(queries, CodeTable(codes), distance)
    np.testing.assert_allclose(dense, plain(queries, codes, distance), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(dense, distances(queries, codes, distance))
    assert dense.dtype == np.float32
    for mask in (None, rng.random(len(codes)) < 0.5, rng.random(len(codes)) < 0.02):
        for k in (1, 30, 3_001):
            assert_same(nearest(queries, CodeTable(codes), k, distance, mask), ranked(dense, k, mask))
            assert_same(nearest(queries, codes, k, distance, mask), ranked(dense, k, mask))


def test_spherical_is_infinite_where_nothing_is_shared() -> None:
    codes = np.array([[0b11000000], [0b00000011], [0]], np.uint8)
    np.testing.assert_array_equal(
        distances(codes, codes, SphericalHamming()), [[0, np.inf, np.inf], [np.inf, 0, np.inf], [np.inf, np.inf, 0]]
    )


def test_dense_distances() -> None:
    rng = np.random.default_rng(2)
    codes, queries = some_codes(rng, 1_003, 12, 900), some_codes(rng, 13, 12, 13)
    for source in (codes, CodeTable(codes)):
        np.testing.assert_array_equal(distances(queries, source), plain_hamming(queries, codes))


@pytest.mark.parametrize("m", [3, 64, 100, 256])
def test_asymmetric_distances(m: int) -> None:
    rng = np.random.default_rng(m)
    codes, values = packed.pack(rng.random((2_000, m)) < 0.5), rng.standard_normal((37, m)).astype(np.float32)
    table = CodeTable(codes)
    expected = (np.abs(values).sum(axis=1, keepdims=True) - values @ packed.signs(codes, m).T) / 2
    rows = rng.integers(0, 2_000, (37, 50))
    scored = asymmetric_distances(values, table, rows)
    np.testing.assert_allclose(scored, np.take_along_axis(expected, rows, axis=1), atol=1e-4)
    np.testing.assert_allclose(asymmetric_distances(values, table, rows[0]), expected[:, rows[0]], atol=1e-4)
    np.testing.assert_allclose(asymmetric_distances(values, table), expected, atol=1e-4)
    mask = rng.random(2_000) < 0.5
    for source in (table, codes):
        best, found = nearest_asymmetric(values, source, 20, mask)
        np.testing.assert_allclose(best, np.sort(expected[:, mask], axis=1)[:, :20], atol=1e-4)
        np.testing.assert_allclose(best, np.take_along_axis(expected, found, axis=1), atol=1e-4)
        assert mask[found].all()


@pytest.mark.parametrize("n_allowed", [0, 1, 30, 1_500])
@pytest.mark.parametrize("n_queries", [1, 40])
def test_rows_may_be_named_by_number_or_by_a_mask(n_allowed: int, n_queries: int) -> None:
    rng = np.random.default_rng(n_allowed)
    codes, queries = rng.integers(0, 256, (2_000, 8), np.uint8), rng.integers(0, 256, (n_queries, 8), np.uint8)
    allowed = np.sort(rng.choice(2_000, n_allowed, replace=False))
    mask = np.zeros(2_000, np.bool_)
    mask[allowed] = True
    for by_number, by_mask in zip(
        nearest(queries, codes, 9, mask=allowed), nearest(queries, codes, 9, mask=mask), strict=True
    ):
        np.testing.assert_array_equal(by_number, by_mask)


@pytest.mark.parametrize("allowed", [[3, 2], [2, 2], [-1, 4], [5, 2_000]])
def test_row_numbers_must_rise_within_the_table(allowed: list[int]) -> None:
    with pytest.raises(InputError, match=r"ascending row numbers within 0\.\.1999"):
        nearest(np.zeros((1, 8), np.uint8), np.zeros((2_000, 8), np.uint8), 3, mask=np.array(allowed))


def test_table_gives_back_its_codes(tmp_path: Any) -> None:
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 256, (1_001, 13), dtype=np.uint8)
    laid_out = tiles(codes)
    assert laid_out.shape == (126, 2, 8)
    words = np.zeros((1_008, 16), np.uint8)
    words[:1_001, :13] = codes
    np.testing.assert_array_equal(laid_out, words.view("<u8").reshape(126, 8, 2).transpose(0, 2, 1))
    laid_out.tofile(tmp_path / "tiles")
    mapped = np.memmap(tmp_path / "tiles", np.uint64, "r", shape=laid_out.shape)
    table = CodeTable.from_tiles(mapped, 1_001, 13)
    assert len(table) == 1_001
    assert np.shares_memory(table.tiles, mapped)
    np.testing.assert_array_equal(table.codes(), codes)
    assert_same(nearest(codes[:5], table, 7), nearest(codes[:5], codes, 7))


def test_nothing_to_search() -> None:
    queries, none = np.zeros((3, 8), np.uint8), np.zeros((0, 8), np.uint8)
    for source in (none, CodeTable(none)):
        assert nearest(queries, source, 5)[1].shape == (3, 0)
        assert nearest(queries, source, 5, SphericalHamming())[0].dtype == np.float32
        assert distances(queries, source).shape == (3, 0)
        assert within(queries, source, 3).offsets.tolist() == [0, 0, 0, 0]
    assert nearest(none, queries, 5)[0].shape == (0, 3)
    assert nearest(queries, queries, 5, mask=np.zeros(3, bool))[0].shape == (3, 0)
    assert nearest_asymmetric(np.ones((2, 64)), none, 4)[0].shape == (2, 0)


def test_non_contiguous_codes_are_accepted() -> None:
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 256, (200, 32), dtype=np.uint8)
    assert_same(
        nearest(codes[:3, ::2], codes[::-1, ::2], 9), nearest(codes[:3, ::2].copy(), codes[::-1, ::2].copy(), 9)
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: nearest(c[:, :4], c, 3), "queries must be 8 bytes wide; got 4 bytes"),
        (lambda c: nearest(c, c, 0), "k must be at least 1; got 0"),
        (
            lambda c: nearest(c, c, 1.5),  # type: ignore[arg-type]
            "k must be a whole number; got 1.5",
        ),
        (lambda c: within(c, c, -1), "radius must be at least 0; got -1"),
        (lambda c: nearest(c.astype(float), c, 3), "dtype uint8"),
        (lambda c: nearest(c, c.astype(np.int64), 3), "dtype uint8"),
        (lambda c: nearest(c, c, 3, mask=np.ones(4, bool)), r"mask must be a boolean array of shape \(20,\)"),
        (
            lambda c: nearest(c, c, 3, mask=np.ones(20)),  # type: ignore[arg-type]
            "got float64",
        ),
        (lambda c: nearest(c, c, 3, WeightedHamming(np.ones(10, np.float32))), "weights must have one value per bit"),
        (
            lambda c: nearest(c, c, 3, "cosine"),  # type: ignore[arg-type]
            "distance must be one of",
        ),
        (lambda c: nearest_asymmetric(np.full((1, 64), np.nan), c, 3), "finite"),
        (
            lambda c: asymmetric_distances(np.ones((1, 70)), CodeTable(c), np.arange(3)),
            "projections must have one value",
        ),
        (lambda c: asymmetric_distances(np.ones((1, 64)), CodeTable(c), np.array([20])), r"within 0\.\.19; got 20"),
        (lambda c: asymmetric_distances(np.ones((1, 64)), CodeTable(c), np.ones(3)), "rows must be integers"),
        (lambda c: CodeTable.from_tiles(tiles(c)[:, :, ::2], 20, 8), "must be C-contiguous uint64"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        call(np.arange(160, dtype=np.uint8).reshape(20, 8))
    assert "\n" not in str(refused.value)


def test_k_is_a_parameter() -> None:
    with pytest.raises(ParameterError):
        nearest(np.zeros((1, 1), np.uint8), np.zeros((1, 1), np.uint8), -3, HAMMING)
