from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import isch
from isch import Index
from isch.errors import ParameterError
from isch.search import calibration

X = np.random.default_rng(0).permutation(load_digits().data.astype(np.float32))  # rows of a file come by writer
ITEMS, QUERIES = X[:1500], X[1500:]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return Index.create(tmp_path_factory.mktemp("i") / "i", isch.LSH(32).fit(ITEMS), ITEMS, keep_features="float32")


def recall(index: Index, **options: Any) -> float:
    found = index.search(QUERIES, 10, **options).keys
    truth = np.argsort(np.linalg.norm(QUERIES[:, None] - ITEMS, axis=2), axis=1)[:, :10]
    return float(np.mean([np.isin(keys, rows).mean() for keys, rows in zip(found, truth, strict=True)]))


@pytest.mark.parametrize("wanted", [0.7, 0.9, 0.99])
def test_a_search_finds_the_share_asked_for_and_not_much_more(index: Index, wanted: float) -> None:
    found = recall(index, recall=wanted)
    assert wanted - 0.03 <= found <= min(1, wanted + 0.05)


def test_all_neighbours(index: Index) -> None:
    assert recall(index, recall=1.0) > 0.99


def test_it_is_measured_once_for_each_number_of_hits(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    first = index.search(QUERIES, 7, recall=0.9).keys
    monkeypatch.setattr(calibration, "measured", None)
    assert index.search(QUERIES, 7, recall=0.9).keys == first
    with pytest.raises(TypeError):
        index.search(QUERIES, 8, recall=0.9)


def test_deleted_items_and_several_segments_do_not_count(tmp_path: Path) -> None:
    with Index.create(tmp_path / "i", isch.LSH(32).fit(ITEMS), X[1500:1600] + 1, keep_features="float16") as index:
        index.add(ITEMS, keys=[f"row {i}" for i in range(len(ITEMS))])
        index.delete(list(range(100)))
        found = index.search(QUERIES, 10, recall=0.9).keys
        assert not any(isinstance(key, int) for keys in found for key in keys)


@pytest.mark.parametrize("n", [1, 5, 11, 12])
def test_fewer_items_than_hits(n: int, tmp_path: Path) -> None:
    with Index.create(tmp_path / "i", isch.LSH(32).fit(ITEMS), ITEMS[:n], keep_features="float32") as index:
        assert len(index.search(QUERIES[:1], 10, recall=0.9).keys[0]) == min(10, n)
        assert len(index.search(QUERIES[:1], 1000, recall=0.9).keys[0]) == n


@pytest.mark.parametrize("wanted", [0, -1, 1.1, float("nan"), True, "0.9"])
def test_a_recall_that_cannot_be_is_refused(index: Index, wanted: Any) -> None:
    with pytest.raises(ParameterError, match="above 0 and at most 1"):
        index.search(QUERIES, recall=wanted)


@pytest.mark.parametrize("options", [{"oversample": 3}, {"rerank": "none"}, {"rerank": "asymmetric"}, {"rerank": None}])
def test_what_recall_chooses_cannot_be_given(index: Index, options: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="chooses"):
        index.search(QUERIES, recall=0.9, **options)


def test_an_index_without_features_says_what_it_needs(tmp_path: Path) -> None:
    without = Index.create(tmp_path / "a", isch.LSH(32).fit(ITEMS), ITEMS)
    with pytest.raises(ParameterError, match="keep_features"):
        without.search(QUERIES, recall=0.9)
    spheres = Index.create(tmp_path / "b", isch.SPH(16).fit(ITEMS), ITEMS, keep_features="float32")
    with pytest.raises(ParameterError, match="Hamming"):
        spheres.search(QUERIES, recall=0.9)
