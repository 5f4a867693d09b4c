"""Indexes that keep factors, and the search of arrays by them, against plain NumPy."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isch
from isch import Index
from isch.errors import InputError, IschError, ParameterError
from isch.hashing import distance as estimator
from isch.search.rerank import Stage

RNG = np.random.default_rng(0)
X = (RNG.standard_normal((900, 24)) * 0.8 ** np.arange(24) * RNG.uniform(0.8, 1.2, (900, 1))).astype(np.float32)
Q = X[:30] + np.float32(0.05)
HASHER = isch.DistanceHash(40, n_iter=10).fit(X)
assert hasattr(HASHER, "thresholds_")


def estimates() -> Any:
    """Squared distances (queries, rows) by the formula of hashing/distance.py, spelt out."""
    z = HASHER.project(Q) + HASHER.thresholds_
    bits = np.unpackbits(HASHER.transform(X), axis=1, count=40) * 2.0 - 1
    a, c = HASHER.factors(X).astype(np.float64).T
    u = HASHER.unit_ or 0
    return ((Q - HASHER.mean_) ** 2).sum(axis=1)[:, None] + u * u * (a - 2 * c * (z @ bits.T) / 40)


@pytest.fixture(scope="module", params=["one segment", "several segments"])
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Index:
    index = Index.create(tmp_path_factory.mktemp("f") / "x.isch", HASHER, keep_features="factors")
    for part in np.split(X, [] if request.param == "one segment" else [300, 301, 600]):
        index.add(part)
    return index


def test_arrays_are_searched_by_the_estimates() -> None:
    squares, rows = isch.nearest_estimated(HASHER, Q, HASHER.transform(X), HASHER.factors(X), 9)
    expected = estimates()
    np.testing.assert_allclose(squares, np.sort(expected, axis=1)[:, :9], rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(np.take_along_axis(expected, rows, axis=1), squares, rtol=1e-4, atol=1e-3)


def test_an_index_gives_the_same_as_arrays(index: Index) -> None:
    results = index.search(Q, k=9, oversample=len(X))
    squares, rows = isch.nearest_estimated(HASHER, Q, HASHER.transform(X), HASHER.factors(X), 9)
    np.testing.assert_array_equal(results.keys, rows)
    np.testing.assert_allclose(results.scores, squares, rtol=1e-4, atol=1e-4)


def test_factors_get_more_candidates_than_codes_alone(index: Index) -> None:
    few, many = (index.search(Q, k=1, rerank=method) for method in ("asymmetric", "factors"))
    assert Stage("factors", None).candidates(10, 224) == 4 * Stage("asymmetric", None).candidates(10, 224)
    assert len(few) == len(many) == len(Q)


def test_several_indexes_use_factors_if_all_keep_them(tmp_path: Path) -> None:
    for name, rows, keep in (("a", X[:400], "factors"), ("b", X[400:], "factors"), ("c", X[400:], "float16")):
        Index.create(tmp_path / name, HASHER, rows, keep_features=keep).close()
    _, rows = isch.nearest_estimated(HASHER, Q, HASHER.transform(X), HASHER.factors(X), 4)
    with Index.open([tmp_path / "a", tmp_path / "b"]) as both:
        found = both.search(Q, k=4, oversample=len(X))
    assert [[key.key + 400 * key.folder.endswith("b") for key in keys] for keys in found.keys] == rows.tolist()
    with Index.open([tmp_path / "a", tmp_path / "c"]) as mixed:
        assert mixed.info()["keep_features"] is None
        with pytest.raises(ParameterError, match="keep_features='factors'"):
            mixed.search(Q, rerank="factors")


def test_factors_survive_deletion_and_compaction(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "x.isch", HASHER, X[:500], keep_features="factors")
    index.add(X[500:])
    index.delete([0, 700])
    before = index.search(Q, k=5, oversample=len(X))
    index.compact()
    assert index.verify() == []
    after = index.search(Q, k=5, oversample=len(X))
    assert after.keys == before.keys
    np.testing.assert_array_equal(after.scores, before.scores)


def test_what_an_index_with_factors_says_of_itself(index: Index) -> None:
    assert index.verify() == []
    assert (index.info()["keep_features"], index.info()["version"]) == ("factors", 4)
    item = index.get(3)
    assert item is not None
    assert item.features is None
    assert all(batch.features is None for batch in index.batches())


def test_other_ways_to_sort_are_refused_or_work(index: Index, tmp_path: Path) -> None:
    assert len(index.search(Q, k=3, rerank="asymmetric")[0]) == 3
    with pytest.raises(ParameterError, match="keep_features='float16' or 'float32'"):
        index.search(Q, rerank="exact")
    with pytest.raises(ParameterError, match="keep_features='float16' or 'float32'"):
        index.search(Q, recall=0.9)
    with pytest.raises(InputError, match="keeps features or factors"):
        index.add_codes(HASHER.transform(X), list(range(1000, 1900)))
    plain = Index.create(tmp_path / "plain.isch", HASHER, X)
    with pytest.raises(ParameterError, match="keep_features='factors'"):
        plain.search(Q, rerank="factors")
    with pytest.raises(ParameterError, match="has no factors"):
        Index.create(tmp_path / "itq.isch", isch.ITQ(16).fit(X), keep_features="factors")
    assert not (tmp_path / "itq.isch").exists()


def test_factors_of_the_wrong_shape_are_refused() -> None:
    codes = HASHER.transform(X)
    for wrong in (HASHER.factors(X)[:5], np.zeros((len(X), 3)), np.zeros((len(X), 2), int)):
        with pytest.raises(InputError, match="factors must be floats of shape"):
            isch.nearest_estimated(HASHER, Q, codes, wrong, 3)
    with pytest.raises(ParameterError, match="has no factors"):
        isch.nearest_estimated(isch.ITQ(16).fit(X), Q, codes, HASHER.factors(X), 3)


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "other type"])
def test_damage_is_noticed(tmp_path: Path, damage: str) -> None:
    index = Index.create(tmp_path / "x.isch", HASHER, X, keep_features="factors")
    index.close()
    (file,) = (tmp_path / "x.isch" / "segments").glob("*.features")
    content = bytearray(file.read_bytes())
    if damage == "flip":
        content[-7] ^= 4
        file.write_bytes(content)
        (problem,) = Index.open(tmp_path / "x.isch").verify()
        assert "damaged" in problem
        return
    if damage == "truncate":
        file.write_bytes(content[:-2])
    elif damage == "remove":
        file.unlink()
    else:  # the features of another index take the place of the factors
        Index.create(tmp_path / "y.isch", HASHER, X, keep_features="float16").close()
        (other,) = (tmp_path / "y.isch" / "segments").glob("*.features")
        shutil.copy(other, file)
    with pytest.raises(IschError):
        Index.open(tmp_path / "x.isch")


def test_a_catalog_that_claims_factors_without_the_model_is_one_sentence(tmp_path: Path) -> None:
    from isch.search import catalog as catalogs

    Index.create(tmp_path / "x.isch", isch.ITQ(40).fit(X), keep_features=None).close()
    read = catalogs.read(tmp_path / "x.isch")
    catalogs.write(tmp_path / "x.isch", catalogs.Catalog(**{**vars(read), "keep_features": "factors"}))
    assert json.loads((tmp_path / "x.isch" / "catalog.json").read_bytes())["version"] == 4
    with pytest.raises(ParameterError, match="has no factors"):
        Index.open(tmp_path / "x.isch").add(X)


def test_lengths_of_sparse_rows_are_those_of_dense_ones() -> None:
    from scipy.sparse import csr_array

    lengths = estimator.Lengths.of(HASHER)
    np.testing.assert_allclose(lengths(csr_array(X)), lengths(X), rtol=1e-4)
