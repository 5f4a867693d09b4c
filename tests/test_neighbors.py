"""Codes in scikit-learn: neighbour graphs, pipelines, grid search, data frames."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.cluster import DBSCAN
from sklearn.datasets import load_digits
from sklearn.manifold import TSNE, Isomap
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import isch
from isch.codes import pack, unpack
from isch.errors import InputError, ParameterError
from isch.neighbors import HammingKNeighborsTransformer, retrieval_scorer

DIGITS = load_digits()
X, Y = DIGITS.data[:400].astype(np.float32), DIGITS.target[:400]
HASHER = isch.PCAH(n_bits=32).fit(X)
CODES = HASHER.transform(X)


class OfSigns(HammingKNeighborsTransformer):
    """scikit-learn's checks give real numbers; here their signs are the codes."""

    def _packed(self, array: Any) -> Any:
        return pack(array - array.mean(axis=1, keepdims=True) >= 0)


@pytest.mark.parametrize(
    ("estimator", "check"),
    list(estimator_checks_generator(OfSigns(n_neighbors=1), legacy=True)),
    ids=lambda value: getattr(getattr(value, "func", None), "__name__", ""),
)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("mode", ["distance", "connectivity"])
def test_the_graph_is_that_of_scikit_learn(mode: str) -> None:
    codes, queries = CODES[:300], CODES[300:]
    ours = HammingKNeighborsTransformer(mode=mode, n_neighbors=7).fit(codes)
    bits = [unpack(some, 32).astype(float) for some in (codes, queries)]
    theirs = KNeighborsTransformer(mode=mode, n_neighbors=7, metric="manhattan").fit(bits[0])
    for given, expected in ((queries, theirs.transform(bits[1])), (codes, theirs.transform(bits[0]))):
        got = ours.transform(given)
        assert (got.shape, got.format, got.dtype) == (expected.shape, expected.format, expected.dtype)
        np.testing.assert_array_equal(got.indptr, expected.indptr)
        np.testing.assert_array_equal(got.data, expected.data)  # neighbours may differ where distances are equal
        apart = (unpack(given, 32)[:, None] != unpack(codes, 32)[got.indices.reshape(len(given), -1)]).sum(axis=2)
        if mode == "distance":
            np.testing.assert_array_equal(got.data, apart.ravel())
    assert HammingKNeighborsTransformer(n_neighbors=3).fit_transform(codes).diagonal().max() == 0
    assert ours.get_feature_names_out()[1] == "hammingkneighborstransformer1"


def test_the_users_of_graphs() -> None:
    graph = HammingKNeighborsTransformer(n_neighbors=20)
    hasher = isch.ITQ(n_bits=32, n_iter=5)
    assert len(set(make_pipeline(hasher, graph, DBSCAN(eps=4, metric="precomputed")).fit_predict(X))) > 3
    flat = make_pipeline(hasher, graph, Isomap(n_neighbors=20, metric="precomputed", n_components=2)).fit_transform(X)
    assert flat.shape == (400, 2)
    small = HammingKNeighborsTransformer(n_neighbors=100)
    quick = TSNE(metric="precomputed", init="random", max_iter=250, random_state=0)
    assert make_pipeline(hasher, small, quick).fit_transform(X).shape == (400, 2)
    classifier = make_pipeline(hasher, graph, KNeighborsClassifier(5, metric="precomputed"))
    assert classifier.fit(X[:300], Y[:300]).score(X[300:], Y[300:]) > 0.8


def test_bad_input_is_one_sentence() -> None:
    with pytest.raises(ParameterError, match="mode must be one of distance, connectivity; got 'both'"):
        HammingKNeighborsTransformer(mode="both").fit(CODES)
    with pytest.raises(ParameterError, match="at least 1"):
        HammingKNeighborsTransformer(n_neighbors=0).fit(CODES)
    with pytest.raises(InputError, match=r"expected packed codes \(uint8\).* got float32"):
        HammingKNeighborsTransformer().fit(X)
    with pytest.raises(InputError, match="got n_neighbors = 5, n_samples_fit = 5"):
        HammingKNeighborsTransformer().fit_transform(CODES[:5])
    with pytest.raises(ValueError, match="features"):
        HammingKNeighborsTransformer().fit(CODES).transform(CODES[:, :2])


@pytest.mark.parametrize("labels", [Y, None], ids=["labels", "features"])
def test_a_grid_over_the_number_of_bits(labels: Any) -> None:
    search = GridSearchCV(isch.PCAH(), {"n_bits": [4, 32]}, scoring=retrieval_scorer(k=5), cv=3, error_score="raise")
    search.fit(X, labels)
    few, many = search.cv_results_["mean_test_score"]
    assert few < many
    assert search.best_params_ == {"n_bits": 32}
    assert search.transform(X).shape == (400, 4)
    piped = GridSearchCV(
        make_pipeline(StandardScaler(), isch.PCAH()), {"pcah__n_bits": [4, 32]}, scoring=retrieval_scorer(5), cv=2
    )
    assert piped.fit(X, labels).best_params_ == {"pcah__n_bits": 32}


def test_the_scorer_counts_neighbours() -> None:
    codes, n = HASHER.transform(X), len(X)
    apart = (unpack(codes, 32)[:, None] != unpack(codes, 32)).sum(axis=2).astype(float)
    np.fill_diagonal(apart, np.inf)
    rows = np.argsort(apart, axis=1, kind="stable")[:, :5]
    expected = np.mean(Y[rows] == Y[:, None])
    assert retrieval_scorer(5)(HASHER, X, Y) == pytest.approx(expected)
    distances = np.linalg.norm(X[:, None] - X, axis=2)
    np.fill_diagonal(distances, np.inf)
    near = np.argsort(distances, axis=1)[:, :5]
    expected = np.mean([len(set(near[i]) & set(rows[i])) / 5 for i in range(n)])
    assert retrieval_scorer(5)(HASHER, X) == pytest.approx(expected, abs=0.002)
    same = np.repeat(X[:2], 20, axis=0)  # more equal codes than neighbours
    assert retrieval_scorer(3)(HASHER, same, np.repeat([0, 1], 20)) == 1
    with pytest.raises(InputError, match="scores hashing methods; got StandardScaler"):
        retrieval_scorer()(StandardScaler().fit(X), X)


def test_codes_as_data_frames() -> None:
    frame = pd.DataFrame(X, index=[f"row {i}" for i in range(400)], columns=[f"p{i}" for i in range(64)])
    hasher = isch.PCAH(n_bits=29).set_output(transform="pandas").fit(frame)
    found = hasher.transform(frame)
    assert list(found.columns) == ["pcah0", "pcah1", "pcah2", "pcah3"]
    assert list(found.index) == list(frame.index)
    assert (found.dtypes == np.uint8).all()
    plain = clone(hasher).set_output(transform="default").fit(frame).transform(frame)
    np.testing.assert_array_equal(found.to_numpy(), plain)
    assert isinstance(clone(hasher).fit_transform(frame), pd.DataFrame)
    piped = make_pipeline(StandardScaler(), isch.PCAH(n_bits=29)).set_output(transform="pandas")
    assert list(piped.fit_transform(frame).columns) == list(found.columns)
    with sklearn.config_context(transform_output="pandas"):
        assert isinstance(HASHER.transform(X), pd.DataFrame)
        assert isinstance(HASHER.transform(X.tolist()), pd.DataFrame)
    assert isinstance(HASHER.transform(X), np.ndarray)
    with pytest.raises(ParameterError, match="unknown output 'xarray'"):
        hasher.set_output(transform="xarray")


def test_an_index_takes_a_hasher_that_gives_data_frames(tmp_path: Any) -> None:
    hasher = isch.PCAH(n_bits=29).set_output(transform="pandas").fit(X)
    with isch.Index.create(tmp_path / "x.isch", hasher, X, keep_features="float32") as index:
        assert index.search(X[3], 1, rerank="exact")[0][0].key == 3
