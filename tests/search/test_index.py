"""The index as its user sees it."""

import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

import isch
from isch import Index
from isch.errors import FileError, FormatError, InputError, LockedError, ParameterError
from isch.locks import locked
from isch.scan.exact import nearest
from isch.search import snapshot as snapshots
from isch.search.writer import absorbed

GOLDEN = Path(__file__).parents[1] / "golden"


def codes(n: int, n_bits: int = 64, seed: int = 0) -> NDArray[np.uint8]:
    return np.packbits(np.random.default_rng(seed).random((n, n_bits)) < 0.5, axis=1)


def vectors(n: int, d: int = 12, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return Index.create(tmp_path / "x.isch", n_bits=64)


@pytest.fixture(scope="module")
def hasher() -> Any:
    return isch.ITQ(n_bits=10).fit(vectors(300))


def test_search_finds_what_exact_search_finds(index: Index) -> None:
    data, queries = codes(3000), codes(9, seed=1)
    for start, stop in ((0, 1000), (1000, 1001), (1001, 3000)):
        index.add(data[start:stop])
    results = index.search(queries, k=25)
    distances, rows = nearest(queries, data, 25)
    np.testing.assert_array_equal(results.distances, distances)
    assert results.keys == rows.tolist()
    assert results.scores is None
    assert index.info()["segments"] == 3


def test_results_read_as_hits_and_as_columns(index: Index) -> None:
    index.add(codes(5), keys=["a", "b", "c", "d", "e"], metadata=[{"n": i} for i in range(4)] + [None])
    results = index.search(codes(5), k=2)
    assert len(results) == 5
    assert [hits[0].key for hits in results] == ["a", "b", "c", "d", "e"]
    assert results[4][0] == ("e", 0, None, None)
    assert results[-2:][0][0].metadata == {"n": 3}
    assert results.metadata[1][0] == {"n": 1}


def test_a_single_vector_is_one_query(index: Index, tmp_path: Path) -> None:
    index.add(codes(20))
    np.save(tmp_path / "q.npy", codes(20)[3])
    for query in (codes(20)[3], tmp_path / "q.npy", str(tmp_path / "q.npy")):
        assert index.search(query, k=1).keys == [[3]]


def test_features_are_hashed_by_the_model_the_index_keeps(tmp_path: Path, hasher: Any) -> None:
    data = vectors(300)
    Index.create(tmp_path / "x.isch", hasher).add(data)
    with Index.open(tmp_path / "x.isch") as index:
        assert index.n_bits == 10
        results = index.search(data[:7], k=12, rerank=None)
        distances, rows = nearest(hasher.transform(data[:7]), hasher.transform(data), 12)
        assert results.keys == rows.tolist()
        np.testing.assert_array_equal(results.distances, distances)
        item = index.get(5)
        assert item is not None
        assert item.code.tolist() == hasher.transform(data[5:6])[0].tolist()


@pytest.mark.parametrize("make", [isch.SPH, isch.MDSH])
def test_methods_with_their_own_distance_need_nothing_from_the_caller(tmp_path: Path, make: Any) -> None:
    data = vectors(200)
    model = make(n_bits=16).fit(data)
    index = Index.create(tmp_path / "x.isch", model)
    index.add(data[:90])
    index.add(data[90:])
    results = index.search(data[:5], k=20)
    distances, rows = nearest(model.transform(data[:5]), model.transform(data), 20, model.distance)
    np.testing.assert_array_equal(results.distances, distances)
    assert results.keys == rows.tolist()
    with pytest.raises(ParameterError, match="Hamming"):
        index.search(data[:5], rerank="asymmetric")


@pytest.mark.parametrize("kind", ["npy", "sparse", "list", "names"])
def test_any_source_of_features_can_be_added(tmp_path: Path, hasher: Any, kind: str) -> None:
    data = vectors(40)
    np.save(tmp_path / "f.npy", data)
    source: Any = {"npy": tmp_path / "f.npy", "sparse": csr_array(data), "list": data.tolist(), "names": data}[kind]
    if kind == "names":
        from isch.features.arrays import ArrayFeatures

        source = ArrayFeatures(data, names=[f"n{i}" for i in range(40)])
    index = Index.create(tmp_path / "x.isch", hasher, keep_features="float32")
    index.add(source)
    assert list(index) == ([f"n{i}" for i in range(40)] if kind == "names" else list(range(40)))
    item = index.get(list(index)[3])
    assert item is not None
    assert item.features is not None
    np.testing.assert_allclose(item.features, data[3], rtol=1e-6)


def test_codes_made_elsewhere_can_be_added_beside_a_model(tmp_path: Path, hasher: Any) -> None:
    data = vectors(100)
    index = Index.create(tmp_path / "x.isch", hasher)
    index.add_codes(hasher.transform(data), keys=np.arange(100))
    same = Index.create(tmp_path / "z.isch", hasher)
    same.add(data)
    assert index.search(data[:5]).keys == same.search(data[:5]).keys
    kept = Index.create(tmp_path / "y.isch", hasher, keep_features="float16")
    with pytest.raises(InputError, match="keeps features"):
        kept.add_codes(hasher.transform(data))


def test_numbering_never_gives_a_key_twice(index: Index) -> None:
    index.add(codes(3))
    index.delete([2])
    index.add(codes(2))
    assert list(index) == [0, 1, 3, 4]
    index.add(codes(1), keys=[100])
    index.add(codes(2))
    assert list(index)[-2:] == [101, 102]
    index.add(codes(1), keys=[2**63 - 1])
    with pytest.raises(InputError, match="no integers are left"):
        index.add(codes(2))


def test_keys_may_be_anything_a_path_or_number_can_be(index: Index) -> None:
    keys = [
        Path("a/b"),
        "../../etc/passwd",
        "",
        "x\0y",
        "é" * 500,
        np.int32(7),
        "7",
        -(2**63),
        "NULL",
        "'; DROP TABLE items",
    ]
    index.add(codes(len(keys)), keys=keys)
    again = Index.open(index.path)
    plain = ["a/b", *keys[1:5], 7, *keys[6:]]
    assert list(again) == plain
    assert all(key in again for key in keys)
    assert again.search(codes(10)[1], k=1).keys == [["../../etc/passwd"]]
    assert again.delete(keys) == 10
    assert sorted(p.name for p in index.path.iterdir() if p.name[0] != "c") == ["lock", "lock.holder", "segments"]


def test_deletion_is_immediate_and_survives(index: Index) -> None:
    data = codes(100)
    index.add(data)
    assert index.delete([4, 5]) == 2
    assert index.delete("absent", missing_ok=True) == 0
    for opened in (index, Index.open(index.path)):
        assert len(opened) == 98
        assert opened.get(4) is None
        assert 4 not in opened
        assert opened.search(data[4], k=1)[0][0].distance > 0
        assert len(opened.search(data[4], k=1000)[0]) == 98
    index.delete(list(index))
    assert len(index.search(data, k=3)[0]) == 0
    index.compact()
    assert (len(index), index.info()["segments"], index.verify()) == (0, 0, [])


def test_a_failed_deletion_deletes_nothing(index: Index) -> None:
    index.add(codes(5))
    with pytest.raises(InputError, match="the key 9 is not in the index"):
        index.delete([1, 9])
    assert len(index) == 5


def test_upsert_replaces_code_and_metadata(index: Index) -> None:
    index.add(codes(10), metadata={"old": True})
    index.upsert(codes(3, seed=5), keys=[1, 2, "new"], metadata={"old": False})
    assert len(index) == 11
    item = index.get(2)
    assert item is not None
    assert (item.code.tolist(), item.metadata) == (codes(3, seed=5)[1].tolist(), {"old": False})
    assert sorted(map(str, index.search(codes(1), k=20, where={"old": False}).keys[0])) == ["1", "2", "new"]
    with pytest.raises(InputError, match="replacing items needs their keys"):
        index.upsert(codes(1))


def test_compaction_changes_no_answer(index: Index) -> None:
    for seed in range(4):
        index.add(codes(50, 64, seed) & 0x11, [f"{seed}-{i}" for i in range(50)], [{"x": i % 2} for i in range(50)])
    index.delete([f"{seed}-{i}" for seed in range(4) for i in range(0, 50, 3)])
    queries = codes(5, seed=9) & 0x11
    before, where = index.search(queries, k=40), index.search(queries, k=40, where={"x": 1})
    index.compact()
    after = index.search(queries, k=40)
    assert before.keys == after.keys
    assert where.keys == index.search(queries, k=40, where={"x": 1}).keys
    assert index.info()["deleted"] == 0


def test_compaction_gives_room_back(index: Index) -> None:
    index.add(codes(20_000), keys=[f"some long key of an item {i}" for i in range(20_000)])
    index.delete(list(index)[10:])
    index.close()
    before = sum(p.stat().st_size for p in index.path.rglob("*"))
    with Index.open(index.path) as opened:
        opened.compact()
        assert opened.verify() == []
    assert sum(p.stat().st_size for p in index.path.rglob("*")) < before / 10
    assert Index.open(index.path).verify() == []


def test_filters_leave_the_nearest_of_what_they_allow(index: Index) -> None:
    data, queries = codes(4000), codes(3, seed=2)
    index.add(data, metadata=[{"i": i, "odd": i % 2 == 1} for i in range(4000)])
    index.delete([1])
    for where, allowed in (
        ({"odd": True}, np.arange(3, 4000, 2)),
        ({"i": {"<": 30}}, np.delete(np.arange(30), 1)),
        ({"i": [5, 700, 8000]}, np.array([5, 700])),
        ({"i": "5"}, np.empty(0, np.int64)),
    ):
        for _ in range(2):
            results = index.search(queries, k=10, where=where)
            if len(allowed):
                distances, rows = nearest(queries, data[allowed], 10)
                np.testing.assert_array_equal(results.distances, distances)
                assert results.keys == allowed[rows].tolist()
            else:
                assert results.keys == [[], [], []]


def test_filters_are_remembered_only_within_a_snapshot(index: Index) -> None:
    index.add(codes(5), metadata={"a": 1})
    assert len(index.search(codes(1), where={"a": 1})[0]) == 5
    index.add(codes(5), metadata={"a": 1})
    assert len(index.search(codes(1), where={"a": 1})[0]) == 10
    for i in range(2 * snapshots.FILTERS):
        index.search(codes(1), where={"a": i})
    assert len(index._now._filters) == snapshots.FILTERS


def test_readers_see_their_moment_until_they_refresh(index: Index) -> None:
    index.add(codes(10))
    reader = Index.open(index.path)
    index.delete([0])
    index.add(codes(5, seed=3), keys=list("abcde"))
    index.compact()
    assert list(reader) == list(range(10))
    assert reader.search(codes(10)[0], k=1).keys == [[0]]
    assert reader.search(codes(10)[0], k=100, where={}).keys[0].count(0) == 1
    assert reader.refresh()
    assert not reader.refresh()
    assert list(reader) == [*range(1, 10), *"abcde"]


def test_many_small_additions_make_few_segments(index: Index) -> None:
    for i in range(40):
        index.add(codes(40)[i], keys=[i])
    assert index.info()["segments"] <= 8
    assert index.verify() == []
    assert list(index) == list(range(40))
    assert [row[0] for row in index.search(codes(40), k=1).keys] == list(range(40))


def test_segments_stay_few_and_rows_are_rewritten_seldom() -> None:
    sizes: list[int] = []
    rewritten = 0
    for _ in range(20_000):
        taken = absorbed(sizes, 100)
        merged = sum(sizes[len(sizes) - taken :])
        rewritten += merged
        sizes = [*sizes[: len(sizes) - taken], merged + 100]
    assert len(sizes) < 30
    assert rewritten / 2_000_000 < 7


def test_threads_search_and_write_one_index(index: Index) -> None:
    data = codes(500)
    index.add(data[:100], keys=range(100))
    stop = threading.Event()

    def look() -> int:
        count = 0
        while not stop.is_set():
            assert index.search(data[:20], k=1).keys == [[i] for i in range(20)]
            count += 1
        return count

    with ThreadPoolExecutor(4) as pool:
        looks = [pool.submit(look) for _ in range(3)]
        adds = [pool.submit(index.add, data[i : i + 50], range(i, i + 50)) for i in range(100, 500, 50)]
        for add in adds:
            add.result()
        stop.set()
        assert all(done.result() > 0 for done in looks)
    assert sorted(index) == list(range(500))


def test_a_second_writer_is_told_who_writes(index: Index) -> None:
    index.add(codes(3))
    other = Index.open(index.path, wait=0)
    with locked(index.path / "lock", 0, "is writing"), pytest.raises(LockedError, match=f"process {os.getpid()} on"):
        other.delete([0])
    assert other.delete([0]) == 1


def test_it_survives_fork_and_pickle(index: Index) -> None:
    index.add(codes(10))
    again = pickle.loads(pickle.dumps(index))
    assert again.search(codes(10)[2], k=1).keys == [[2]]
    script = f"""
import os, numpy as np
from isch import Index
index = Index.open({str(index.path)!r})
codes = np.packbits(np.random.default_rng(0).random((10, 64)) < 0.5, axis=1)
if (child := os.fork()) == 0:
    ok = index.search(codes[2], k=1).keys == [[2]]
    index.delete([5])
    os._exit(0 if ok and len(index) == 9 else 1)
assert os.waitpid(child, 0)[1] == 0
assert len(index) == 10
index.refresh()
assert len(index) == 9
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_closing(index: Index) -> None:
    index.add(codes(4))
    with index:
        assert "4 items of 64 bits" in repr(index)
    assert "closed" in repr(index)
    with pytest.raises(FileError, match="was closed"):
        index.search(codes(1))
    assert not (index.path / "catalog.sqlite-wal").exists()


def test_an_empty_index_answers_nothing(index: Index, tmp_path: Path, hasher: Any) -> None:
    assert index.search(codes(3), k=5).keys == [[], [], []]
    assert index.search(codes(3), k=5, where={"a": 1})[0] == []
    assert (len(index), list(index), index.verify()) == (0, [], [])
    index.compact()
    other = Index.create(tmp_path / "y.isch", hasher, keep_features="float16")
    for rerank in ("auto", "exact", None):
        assert other.search(vectors(2), rerank=rerank).keys == [[], []]


def test_metadata_of_numpy_and_unicode(index: Index) -> None:
    index.add(codes(1), metadata=[{"ü": np.float32(0.5), "list": np.arange(2), "nested": {"a": [None]}}])
    assert index.search(codes(1), where={"ü": 0.5})[0][0].metadata == {
        "ü": 0.5,
        "list": [0, 1],
        "nested": {"a": [None]},
    }


BAD: dict[str, tuple[Callable[[Index], object], str]] = {
    "width": (lambda i: i.add(codes(3, 72)), "must be 8 bytes wide; got 9 bytes"),
    "query width": (lambda i: i.search(codes(3, 72)), "must be 8 bytes wide; got 9 bytes"),
    "floats": (lambda i: i.add(vectors(3, 8)), "packed bytes"),
    "k": (lambda i: i.search(codes(1), k=0), "k must be an integer of at least 1; got 0"),
    "real k": (lambda i: i.search(codes(1), k=1.5), "k must be an integer"),
    "key twice": (lambda i: i.add(codes(3), keys=["a", "b", "a"]), "'a' is given twice, in rows 0 and 2"),
    "upsert twice": (lambda i: i.upsert(codes(2), keys=["a", "a"]), "'a' is given twice"),
    "key taken": (lambda i: i.add(codes(2), keys=["new", 1]), "1 of the keys are already in the index, the first is 1"),
    "keys missing": (lambda i: i.add(codes(3), keys=["a"]), "one key for each of 3 rows; got 1 keys"),
    "real key": (lambda i: i.add(codes(1), keys=[1.5]), "a string or an integer; got 1.5"),
    "boolean key": (lambda i: i.add(codes(1), keys=[True]), "a string or an integer; got True"),
    "bytes": (lambda i: i.add(codes(1), keys=b"a"), "keys must be a sequence"),
    "large key": (lambda i: i.add(codes(1), keys=[2**63]), "does not fit 64 bits"),
    "surrogate": (lambda i: i.add(codes(1), keys=["\ud800"]), "not valid Unicode"),
    "metadata count": (lambda i: i.add(codes(2), metadata=[{}]), "for each of 2 rows; got 1 entries"),
    "metadata type": (lambda i: i.add(codes(2), metadata=[{}, 3]), "row 1 must be a dictionary or None; got int"),
    "metadata text": (lambda i: i.add(codes(2), metadata="x"), "got str"),
    "metadata nan": (lambda i: i.add(codes(1), metadata={"a": float("nan")}), "cannot be written as JSON"),
    "metadata object": (lambda i: i.add(codes(1), metadata=[{"a": object()}]), "row 0 cannot be written as JSON"),
    "rerank": (lambda i: i.search(codes(1), rerank="asymmetric"), "needs an index with a model"),
    "rerank name": (lambda i: i.search(codes(1), rerank="best"), "unknown rerank 'best'; known: asymmetric, auto"),
    "exact": (lambda i: i.search(codes(1), rerank="exact"), "keep_features"),
    "where": (lambda i: i.search(codes(1), where="a"), "where must be a dictionary"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_and_changes_nothing(index: Index, case: str) -> None:
    call, message = BAD[case]
    index.add(codes(3))
    with pytest.raises(InputError, match=message):
        call(index)
    assert list(Index.open(index.path)) == [0, 1, 2]
    assert len(list((index.path / "segments").glob("*.codes"))) == 1
    assert len(list((index.path / "segments").iterdir())) == 2
    assert index.verify() == []


def test_padding_bits_must_be_zero(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "y.isch", n_bits=12)
    bad = np.zeros((5, 2), np.uint8)
    bad[3, 1] = 1
    with pytest.raises(InputError, match="bits after bit 12 of a code must be zero; they are not in row 3"):
        index.add(bad)
    assert len(index) == 0


def test_arrays_in_any_memory_order(index: Index) -> None:
    index.add(np.asfortranarray(codes(50)))
    assert index.search(np.repeat(codes(50), 2, axis=0)[::2], k=1).keys == [[i] for i in range(50)]


@pytest.mark.parametrize("at_once", [1, 7, 1_000])
def test_batches_go_through_all_items_that_are_there(tmp_path: Path, hasher: Any, at_once: int) -> None:
    index, data = Index.create(tmp_path / "x.isch", hasher, keep_features="float32"), vectors(30)
    for part in np.split(np.arange(30), [10, 11]):
        index.add(data[part], keys=[f"k{i}" for i in part], metadata=[{"i": int(i)} for i in part])
    index.delete(["k0", "k12", "k29"])
    left = [i for i in range(30) if i not in (0, 12, 29)]
    batches = list(index.batches(at_once))
    assert [key for batch in batches for key in batch.keys] == [f"k{i}" for i in left]
    assert [note for batch in batches for note in batch.metadata] == [{"i": i} for i in left]
    np.testing.assert_array_equal(np.concatenate([batch.codes for batch in batches]), hasher.transform(data[left]))
    np.testing.assert_array_equal(np.concatenate([batch.features for batch in batches]), data[left])
    assert max(len(batch.keys) for batch in batches) <= at_once


def test_a_search_may_be_kept_to_some_items(tmp_path: Path, hasher: Any) -> None:
    index, data = Index.create(tmp_path / "x.isch", hasher), vectors(40)
    for part in np.split(np.arange(40), [15]):
        index.add(data[part], keys=part.tolist(), metadata=[{"even": int(i) % 2 == 0} for i in part])
    index.delete([4])
    chosen = [4, 7, 8, 20, 33, 99, "absent"]
    assert sorted(index.search(data[0], k=40, among=chosen).keys[0]) == [7, 8, 20, 33]
    assert sorted(index.search(data[0], k=40, among=chosen, where={"even": True}).keys[0]) == [8, 20]
    assert index.search(data[0], k=40, among=[]).keys == [[]]
    assert index.search(data[0], k=2, among=20).keys == [[20]]


def test_features_that_do_not_fit(tmp_path: Path, hasher: Any) -> None:
    index = Index.create(tmp_path / "x.isch", hasher, keep_features="float16")
    with pytest.raises(InputError, match="expected 12 columns, as the model has; got 11"):
        index.add(vectors(3, 11))
    with pytest.raises(InputError, match="expected 12 columns, as the model has; got 11"):
        index.search(vectors(3, 11))
    data = vectors(5)
    data[4, 2] = 1e6
    with pytest.raises(InputError, match="row 4 does not fit float16"):
        index.add(data)
    data[4, 2] = np.nan
    with pytest.raises(InputError, match="NaN"):
        index.add(data)
    assert (len(index), index.verify()) == (0, [])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "needs n_bits"),
        ({"n_bits": 0}, "needs n_bits, at least 1; got 0"),
        ({"n_bits": 8, "keep_features": "float16"}, "keep_features needs a hasher"),
        ({"encoder": isch.LSH(n_bits=8)}, "must be fitted"),
        ({"encoder": 42}, "expected an encoder, a fitted hasher or the path of a model file; got int"),
        ({"n_bits": 8, "keep_features": "float8"}, "unknown keep_features 'float8'"),
    ],
)
def test_bad_settings_make_no_folder(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Index.create(tmp_path / "x.isch", **arguments)
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_an_index_is_not_opened(tmp_path: Path, index: Index) -> None:
    with pytest.raises(FileError, match="no such index"):
        Index.open(tmp_path / "none")
    with pytest.raises(FormatError, match="not an ISCH index"):
        Index.open(tmp_path)
    with pytest.raises(FileError, match="exists already"):
        Index.create(index.path, n_bits=8)
    with pytest.raises(FileError, match="does not exist"):
        Index.create(tmp_path / "a" / "b", n_bits=8)


def test_a_segment_of_another_index_is_refused(index: Index, tmp_path: Path) -> None:
    index.add(codes(10))
    other = Index.create(tmp_path / "y.isch", n_bits=64)
    other.add(codes(10, seed=1))
    (mine,), (theirs,) = ((i.path / "segments").glob("*.codes") for i in (index, other))
    mine.write_bytes(theirs.read_bytes())
    with pytest.raises(FormatError, match="not the segment that the catalog lists"):
        Index.open(index.path)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_the_golden_index_of_each_version_is_read(tmp_path: Path, version: int) -> None:
    """Written once by make_index.py; files like these are on people's disks."""
    import shutil

    expected = json.loads((GOLDEN / f"index-v{version}.json").read_text())
    shutil.copytree(GOLDEN / f"index-v{version}.isch", tmp_path / "x.isch")
    with Index.open(tmp_path / "x.isch") as index:
        assert index.verify() == []
        assert list(index) == expected["keys"]
        queries = np.array(expected["queries"], np.float32)
        for rerank in ("none", "asymmetric", "factors" if version == 4 else "exact"):
            results = index.search(queries, k=5, rerank=rerank)
            assert results.keys == expected[rerank]["keys"]
            np.testing.assert_array_equal(results.distances, expected[rerank]["distances"])
        assert index.search(queries, k=3, where={"group": 1}).metadata == expected["where"]
        index.add(queries)
        index.compact()
        assert index.verify() == []


@pytest.mark.parametrize("deleted", [False, True])
def test_a_filter_on_a_field_that_no_item_has_is_refused(index: Index, deleted: bool) -> None:
    index.search(codes(1), where={"anything": 1})  # of nothing, nothing is known
    index.add(codes(4), keys=list("abcd"))
    with pytest.raises(InputError, match="no item has the field 'albun'; no item has any metadata"):
        index.search(codes(1), where={"albun": 1})
    index.add(codes(4), metadata=[{"album": i, "year": 2000} for i in range(4)])
    if deleted:
        index.delete(["a", "b"])
    uses = (
        lambda where: index.search(codes(1), where=where),
        lambda where: index.search_codes(codes(1), where=where),
        lambda where: index.within(codes(1), 64, where=where),
        lambda where: index.similar("c", where=where),
    )
    for use in uses:
        for where in ({"albun": 1}, {"year": 2000, "albun": {"!=": 1}}, [{"year": 2000}, {"albun": [1, 2]}]):
            with pytest.raises(InputError, match="no item has the field 'albun'; the fields are album, year"):
                use(where)
        use({"album": 77})


def test_a_field_of_one_of_several_indexes_is_known_to_all(tmp_path: Path) -> None:
    for name, field in (("a", "album"), ("b", "year")):
        Index.create(tmp_path / f"{name}.isch", rows=codes(5), n_bits=64, metadata={field: 1}).close()
    with Index.open([tmp_path / "a.isch", tmp_path / "b.isch"]) as both:
        assert {hit.key.folder for hit in both.search(codes(1), 10, where={"year": 1})[0]} == {str(tmp_path / "b.isch")}
        with pytest.raises(InputError, match="no item has the field 'x'; the fields are album, year"):
            both.search(codes(1), where={"x": 1})
