"""Streaming measures against measures of the whole matrix; the 2-norm against scikit-learn."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.metrics import pairwise_distances

from isch import features
from isch.evaluate import ranking
from isch.evaluate.metrics import measure
from isch.evaluate.rankers import (
    AngleRanker,
    AsymmetricRanker,
    CodeRanker,
    EuclideanRanker,
    SparseEuclideanRanker,
    SpooledEuclideanRanker,
    true_neighbours,
)
from isch.evaluate.ranking import Truth, score

RNG = np.random.default_rng(1)
QUERIES, ITEMS = RNG.standard_normal((9, 6)).astype(np.float32), RNG.standard_normal((200, 6)).astype(np.float32)
QUERY_LABELS, LABELS = RNG.integers(0, 4, 9), RNG.integers(0, 4, 200)


def bits(rows: NDArray[np.float32]) -> NDArray[np.uint8]:
    return np.packbits(rows >= 0, axis=1)


def test_scores_do_not_depend_on_how_many_queries_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    ranker = CodeRanker(bits(QUERIES), bits(ITEMS), 6)
    measures = [measure(name) for name in ("precision@10", "map", "within@2", "recall@50")]
    whole = score(ranker, Truth(QUERY_LABELS, LABELS), measures)
    monkeypatch.setattr(ranking, "BLOCK_BYTES", 2 * 4 * 200)
    parts = score(ranker, Truth(QUERY_LABELS, LABELS), measures)
    for name in whole.values:
        for ties, values in whole.values[name].items():
            np.testing.assert_array_equal(values, parts.values[name][ties])
    np.testing.assert_array_equal(whole.recall, parts.recall)


def test_curves_end_with_everything_found() -> None:
    scores = score(EuclideanRanker(QUERIES, ITEMS), Truth(QUERY_LABELS, LABELS), [measure("precision@10")])
    assert scores.ranks[-1] == 200
    assert scores.recall[-1] == pytest.approx(1)
    at_ten = scores.precision[scores.ranks == 10]
    if len(at_ten):
        assert at_ten[0] == pytest.approx(scores.mean("precision@10"))


def test_random_codes_have_the_precision_of_chance() -> None:
    codes, queries = RNG.integers(0, 256, (20_000, 4), np.uint8), RNG.integers(0, 256, (200, 4), np.uint8)
    truth = Truth(np.arange(200) % 10, np.arange(20_000) % 10)
    assert score(CodeRanker(queries, codes, 32), truth, [measure("precision@500")]).mean("precision@500") == (
        pytest.approx(0.1, abs=0.005)
    )


@pytest.mark.parametrize("shift", [0, 1000])
def test_the_two_norm_is_scikit_learns(shift: float) -> None:
    ranker = EuclideanRanker(QUERIES + np.float32(shift), ITEMS + np.float32(shift))
    expected = pairwise_distances(QUERIES + np.float32(shift), ITEMS + np.float32(shift)) ** 2
    np.testing.assert_allclose(ranker.distances(2, 7), expected[2:7], rtol=1e-3 if shift else 1e-4, atol=1e-4)


def test_sparse_and_spooled_rankings_equal_the_dense(tmp_path: Path) -> None:
    sparse = np.where(np.abs(ITEMS) > 1, ITEMS, 0)
    dense = EuclideanRanker(QUERIES, sparse)
    for other in (
        SparseEuclideanRanker(csr_array(QUERIES), csr_array(sparse)),
        SpooledEuclideanRanker(QUERIES, features.open(sparse), tmp_path),
    ):
        np.testing.assert_allclose(other.distances(0, 9), dense.distances(0, 9), atol=1e-4)


def test_true_neighbours_are_sorted_by_distance_then_row() -> None:
    items = np.concatenate([ITEMS, ITEMS])
    rows = true_neighbours(EuclideanRanker(QUERIES, items), 5)
    expected = np.argsort(pairwise_distances(QUERIES, items).round(5), axis=1, kind="stable")[:, :5]
    np.testing.assert_array_equal(rows, expected)
    assert true_neighbours(EuclideanRanker(QUERIES, ITEMS), 999).shape == (9, 200)


def test_the_two_norm_finds_all_its_own_neighbours() -> None:
    ranker = EuclideanRanker(QUERIES, ITEMS)
    truth = Truth(QUERY_LABELS, LABELS, true_neighbours(ranker, 10))
    names = ["nn10-recall@10", "nn5-recall@5", "nn10-recall@5"]
    scores = score(ranker, truth, [measure(n) for n in names])
    assert [scores.mean(n) for n in names] == pytest.approx([1, 1, 0.5])


def test_angles_do_not_depend_on_lengths() -> None:
    cosines = (QUERIES @ ITEMS.T) / np.outer(np.linalg.norm(QUERIES, axis=1), np.linalg.norm(ITEMS, axis=1))
    ranker = AngleRanker(3 * QUERIES, ITEMS * np.linspace(0.1, 9, len(ITEMS), dtype=np.float32)[:, None])
    np.testing.assert_allclose(ranker.distances(0, 9), 2 - 2 * cosines[:9], atol=1e-5)


def test_asymmetric_ranking_orders_by_inner_product_with_the_signs() -> None:
    ranker = AsymmetricRanker(QUERIES, bits(ITEMS))
    products = QUERIES @ np.where(ITEMS >= 0, 1, -1).T
    expected = (np.abs(QUERIES).sum(axis=1, keepdims=True) - products) / 2
    np.testing.assert_allclose(ranker.distances(0, 9), expected, rtol=1e-4, atol=1e-5)
