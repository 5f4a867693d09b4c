"""Predicted recall against the recall that searching really has."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import isch
from isch import features as sources
from isch.quality import ground_truth, rank_model
from isch.quality.ground_truth import Neighbours
from isch.quality.rank_model import Competition, Ranks

N, D, K = 3000, 24, 10


@pytest.fixture(scope="module")
def X() -> NDArray[np.float32]:
    rng = np.random.default_rng(0)
    return (
        rng.normal(size=(N, D)) * np.linspace(2, 0.2, D) + 3 * rng.normal(size=(20, D))[rng.integers(20, size=N)]
    ).astype(np.float32)


def distances(X: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    found = np.linalg.norm(X[rows, None].astype(np.float64) - X[None], axis=2)
    found[np.arange(len(rows)), rows] = np.inf
    return np.asarray(found)


def test_neighbours_are_those_of_a_sort(X: NDArray[np.float32]) -> None:
    found = ground_truth.find(sources.open(X), 40, 15, 1e15, np.random.default_rng(0))
    assert found.share == 1
    assert len(np.unique(found.queries)) == 40
    np.testing.assert_array_equal(found.near, np.argsort(distances(X, found.queries), axis=1)[:, :15])


@pytest.mark.parametrize("scale", [1e-30, 1e-10, 1e10, 1e30])
def test_the_scale_of_the_rows_does_not_matter(X: NDArray[np.float32], scale: float) -> None:
    found = ground_truth.find(sources.open(X * np.float32(scale)), 40, 15, 1e15, np.random.default_rng(0))
    same = found.near == np.argsort(distances(X, found.queries), axis=1)[:, :15]
    assert same.mean() > 0.99


def test_a_small_budget_looks_at_some_blocks_only(X: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ground_truth, "BLOCK", 100)
    found = ground_truth.find(sources.open(X), 40, 15, 40 * N * D / 3, np.random.default_rng(0))
    assert found.share == pytest.approx(1 / 3, abs=0.01)
    looked = np.unique(found.near // 100)
    assert len(looked) <= 10
    among = np.isin(np.arange(N) // 100, looked)
    measured = distances(X, found.queries)
    measured[:, ~among] = np.inf
    if len(looked) == 10:
        np.testing.assert_array_equal(found.near, np.argsort(measured, axis=1)[:, :15])


def test_fewer_rows_than_neighbours() -> None:
    found = ground_truth.find(sources.open(np.arange(12.0).reshape(6, 2)), 40, 15, 1e15, np.random.default_rng(0))
    assert found.near.shape == (6, 5)


def competition(X: NDArray[np.float32], near: Neighbours, sample: NDArray[np.int64], n_bits: int) -> Competition:
    codes = isch.LSH(n_bits).fit(X).transform(X)
    return Competition(codes[near.queries], codes[near.near], codes[sample], sample, len(X))


def measured(X: NDArray[np.float32], near: Neighbours, n_bits: int, candidates: int) -> float:
    """The recall of really searching, with ties broken by row: the mean over several orders of the rows."""
    shares = []
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(X))
        codes = isch.LSH(n_bits).fit(X).transform(X)[order]
        places = np.argsort(order)
        found = isch.nearest(codes[places[near.queries]], codes, candidates + 1)[1]
        hits = [
            np.isin(order[rows[order[rows] != query][:candidates]], truth[:K]).sum() / K
            for rows, query, truth in zip(found, near.queries, near.near, strict=True)
        ]
        shares.append(np.mean(hits))
    return float(np.mean(shares))


@pytest.mark.parametrize("candidates", [10, 40, 300])
@pytest.mark.parametrize("n_bits", [8, 32, 100])
def test_with_all_rows_it_is_a_measurement(X: NDArray[np.float32], n_bits: int, candidates: int) -> None:
    near = ground_truth.find(sources.open(X), 100, 30, 1e15, np.random.default_rng(1))
    met = competition(X, near, np.arange(N), n_bits)
    ranks = rank_model.ranks(near, met, rank_model.far(near, met), K)
    want = measured(X, near, n_bits, candidates)
    assert ranks.recall(candidates).mean() == pytest.approx(want, abs=0.01)


def test_a_sample_predicts_the_whole(X: NDArray[np.float32]) -> None:
    near = ground_truth.find(sources.open(X), 400, 50, 1e15, np.random.default_rng(1))
    sample = np.sort(np.random.default_rng(2).choice(N, 500, replace=False))
    met, whole = (competition(X, near, rows, 64) for rows in (sample, np.arange(N)))
    few, all_of_them = (rank_model.ranks(near, codes, rank_model.far(near, codes), K) for codes in (met, whole))
    for candidates in (10, 30, 100, 500):
        assert few.recall(candidates).mean() == pytest.approx(all_of_them.recall(candidates).mean(), abs=0.02)


def test_neighbours_among_a_share_of_the_rows_predict_the_whole(X: NDArray[np.float32]) -> None:
    shuffled = X[np.random.default_rng(3).permutation(N)]
    whole = ground_truth.find(sources.open(shuffled), 800, 50, 1e15, np.random.default_rng(1))
    part = ground_truth.find(sources.open(shuffled), 800, 50, 800 * N * D * 0.34, np.random.default_rng(1))
    assert part.share < 0.5
    ranks = []
    for near in (whole, part):
        met = competition(shuffled, near, np.arange(N), 64)
        ranks.append(rank_model.ranks(near, met, rank_model.far(near, met), K))
    for candidates in (20, 50, 200):
        assert ranks[1].recall(candidates).mean() == pytest.approx(ranks[0].recall(candidates).mean(), abs=0.04)


def test_the_share_of_counting_neighbours() -> None:
    np.testing.assert_array_equal(rank_model.counting(3, 5, 1.0), [1, 1, 1, 0, 0])
    weights = rank_model.counting(10, 60, 0.3)
    assert weights.sum() == pytest.approx(3, rel=1e-6)  # of the ten, three are looked at on average
    assert (np.diff(weights) <= 0).all()
    rng, hits = np.random.default_rng(0), np.zeros(10)
    for _ in range(4000):
        looked = np.flatnonzero(rng.random(200) < 0.3)[:10]  # ranks among all rows of the nearest looked at
        hits += looked < 10
    np.testing.assert_allclose(weights[:10], hits / 4000, atol=0.03)


def test_candidates_for_a_recall_are_the_fewest() -> None:
    ranks = Ranks(np.array([[0.0, 3, 20]]), np.ones((1, 3)), np.ones(3))
    assert ranks.candidates_for(0.3, 1, 100) == 1
    assert ranks.candidates_for(2 / 3, 1, 100) == 4
    assert ranks.candidates_for(1.0, 1, 100) == 21
    assert ranks.candidates_for(1.0, 1, 15) == 15


def test_the_interval_covers_the_mean_it_should() -> None:
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(100):
        low, high = rank_model.interval(rng.random(200), rank_model.resampling(200, rng), 0.95)
        inside += low <= 0.5 <= high
    assert inside >= 88


def test_relevant_share_of_far_rows() -> None:
    counts, relevant = np.array([[2, 0, 4], [0, 0, 0]]), np.array([[1, 0, 4], [0, 0, 0]])
    far: Any = rank_model.Far(counts, relevant, 1.0)
    np.testing.assert_allclose(far.share(np.array([2.0, 3.0])), [0.5, 0])
    np.testing.assert_allclose(far.share(np.array([100.0, 0.0])), [5 / 6, 0])
