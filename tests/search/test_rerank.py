"""Re-ranking against plain NumPy over everything."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isch
from isch import Index
from isch.errors import ParameterError
from isch.search import rerank


@pytest.fixture(scope="module")
def data() -> Any:
    rng = np.random.default_rng(0)
    return (rng.normal(size=(20, 16))[rng.integers(0, 20, 800)] + rng.normal(size=(800, 16))).astype(np.float32)


@pytest.fixture(scope="module", params=["one segment", "several segments"])
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, data: Any) -> Index:
    index = Index.create(
        tmp_path_factory.mktemp("r") / "x.isch", isch.ITQ(n_bits=14).fit(data), keep_features="float32"
    )
    for part in np.split(data, [] if request.param == "one segment" else [300, 301, 600]):
        index.add(part)
    return index


def first(values: Any, k: int) -> Any:
    return np.argsort(values, axis=1, kind="stable")[:, :k]


def test_asymmetric_over_everything_is_the_order_of_the_products(index: Index, data: Any) -> None:
    queries = data[:30] + 0.1
    results = index.search(queries, k=9, rerank="asymmetric", oversample=len(data))
    z = index.hasher.project(queries)
    bits = np.unpackbits(index.hasher.transform(data), axis=1, count=14) * 2.0 - 1
    weighted = (np.abs(z).sum(axis=1, keepdims=True) - z @ bits.T) / 2
    assert results.scores is not None
    np.testing.assert_allclose(results.scores, np.sort(weighted, axis=1)[:, :9], rtol=1e-4, atol=1e-4)
    for keys, score, all_scores in zip(results.keys, results.scores, weighted, strict=True):
        np.testing.assert_allclose(all_scores[keys], score, rtol=1e-4, atol=1e-4)


def test_the_asymmetric_distance_of_an_equal_code_is_zero(index: Index, data: Any) -> None:
    hits = index.search(data[:40], k=1, rerank="asymmetric")
    np.testing.assert_allclose([h[0].score for h in hits], 0, atol=1e-5)
    np.testing.assert_array_equal(hits.distances, 0)


def test_exact_over_everything_is_the_order_of_the_norms(index: Index, data: Any) -> None:
    queries = data[:30] + 0.1
    results = index.search(queries, k=9, rerank="exact", oversample=len(data))
    norms = np.linalg.norm(queries[:, None] - data[None], axis=2)
    assert results.keys == first(norms, 9).tolist()
    assert results.scores is not None
    np.testing.assert_allclose(results.scores, np.sort(norms, axis=1)[:, :9], rtol=1e-5)


def test_auto_is_asymmetric_and_none_is_the_order_of_the_codes(index: Index, data: Any) -> None:
    auto, asymmetric = (index.search(data[:9], k=7, rerank=name) for name in ("auto", "asymmetric"))
    assert auto.keys == asymmetric.keys
    plain = index.search(data[:9], k=7, rerank=None)
    assert plain.scores is None
    assert (np.diff(plain.distances, axis=1) >= 0).all()
    assert (np.diff(asymmetric.scores, axis=1) >= 0).all()


def test_only_the_candidates_are_reordered(index: Index, data: Any) -> None:
    plain = index.search(data[:9], k=20, rerank=None)
    refined = index.search(data[:9], k=10, rerank="exact", oversample=2)
    for keys, candidates in zip(refined.keys, plain.keys, strict=True):
        assert set(keys) <= set(candidates)


def test_ties_go_to_the_item_added_first(tmp_path: Path) -> None:
    data = np.repeat(np.eye(6, dtype=np.float32), 5, axis=0)
    index = Index.create(tmp_path / "x.isch", isch.LSH(n_bits=32).fit(data), keep_features="float16")
    index.add(data)
    for method in ("asymmetric", "exact", None):
        assert index.search(np.eye(6, dtype=np.float32), k=5, rerank=method, oversample=6).keys == [
            list(range(5 * i, 5 * i + 5)) for i in range(6)
        ]


def test_float16_keeps_the_order_nearly(tmp_path: Path, data: Any) -> None:
    index = Index.create(tmp_path / "x.isch", isch.ITQ(n_bits=14).fit(data), keep_features="float16")
    index.add(data)
    results = index.search(data[:30] + 0.1, k=5, rerank="exact", oversample=len(data))
    norms = np.sort(np.linalg.norm(data[:30, None] + 0.1 - data[None], axis=2), axis=1)[:, :5]
    assert results.scores is not None
    np.testing.assert_allclose(results.scores, norms, rtol=2e-3)


@pytest.mark.parametrize("oversample", [0, 0.5, -1, float("nan")])
def test_oversampling_below_one_is_refused(index: Index, data: Any, oversample: float) -> None:
    with pytest.raises(ParameterError, match="oversample must be at least 1"):
        index.search(data[:1], oversample=oversample)


@pytest.mark.parametrize("k", [1, 2, 10, 100, 500, 10_000])
def test_more_results_need_more_candidates(k: int) -> None:
    stage = rerank.Stage("asymmetric", None)
    assert stage.candidates(k, 64) > k
    assert stage.candidates(k, 64) <= stage.candidates(k + 1, 64)
    assert stage.candidates(k, 64) < stage.candidates(k, 32)
    assert rerank.Stage("asymmetric", 1).candidates(k, 64) == k
    assert rerank.Stage("asymmetric", 1.5).candidates(k, 64) >= 1.5 * k
    assert rerank.Stage(None, 8).candidates(k, 64) == k


def test_an_infinite_oversample_is_refused() -> None:
    with pytest.raises(ParameterError, match="at least 1 and finite; got inf"):
        rerank.stage("auto", float("inf"), None, False)
