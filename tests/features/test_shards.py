"""Folders of feature files, as ``isch describe`` writes them."""

import os
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import isch
from isch import features
from isch.errors import FileError, FormatError, InputError
from isch.features import shards
from isch.features.write import Writer

X = np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32)
NAMES = [f"{i}.jpg" for i in range(40)]
WRITABLE = (".h5", ".npy", ".npz", ".parquet", ".feather")


@pytest.fixture(params=WRITABLE)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    for start in (0, 10, 25):
        stop = {0: 10, 10: 25, 25: 40}[start]
        with Writer(tmp_path / f"part-{start:02}{request.param}", {}) as writer:
            writer.add(X[start:stop], NAMES[start:stop], NAMES[start:stop])
            writer.finish({"describer": b"\0"})
    return tmp_path


def test_a_folder_of_described_files(folder: Path) -> None:
    source = features.open(folder)
    np.testing.assert_array_equal(source.read(0, 40), X)
    assert source.names == NAMES


def test_a_folder_fits_and_is_indexed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    hasher = isch.hasher("itq", n_bits=6, random_state=0).fit(folder)
    np.testing.assert_array_equal(hasher.transform(folder), hasher.transform(X))
    place = tmp_path_factory.mktemp("index") / "x.isch"
    with isch.Index.create(place, hasher) as index:
        index.add(folder)
        assert "17.jpg" in index.search(X[17:18], k=40).keys[0]
        assert len(index) == 40


def test_the_sides_of_a_npy_file_belong_to_it(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "a.names.npy", NAMES)
    np.save(tmp_path / "a.labels.npy", NAMES)
    assert features.open(tmp_path).shape == (40, 6)
    (tmp_path / "a.npy").unlink()
    with pytest.raises(InputError, match=r"a\.labels\.npy: expected a matrix"):
        features.open(tmp_path)


def test_names_only_if_all_have_them(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "a.names.npy", NAMES)
    np.save(tmp_path / "b.npy", X)
    assert features.open(tmp_path).names is None


def test_more_shards_than_a_process_may_open_files(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    count = shards.OPEN + 60
    for number in range(count):
        np.save(tmp_path / f"{number:04}.npy", X[:2])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 100
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + shards.OPEN, hard))
    try:
        source = features.open(tmp_path)
        for _ in range(2):
            assert sum(block.shape[0] for _, block in source.batches(64)) == 2 * count
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_sparse_and_dense_shards_together(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X[:10])
    sparse.save_npz(tmp_path / "b.npz", sparse.csr_array(X[10:20]))
    sparse.save_npz(tmp_path / "c.npz", sparse.csr_array(X[20:]))
    source = features.open(tmp_path)
    np.testing.assert_array_equal(features.dense(source.read(0, 40)), X)
    np.testing.assert_array_equal(features.dense(source.take(np.array([3, 15, 39]))), X[[3, 15, 39]])
    assert sparse.issparse(source.read(15, 25))


def test_a_folder_that_may_not_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", denied)
    with pytest.raises(FileError, match=rf"{tmp_path.name}: Permission denied"):
        features.open(tmp_path)


def test_a_damaged_shard_is_named(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    (tmp_path / "b.npy").write_bytes(b"no")
    with pytest.raises(FormatError, match=r"b\.npy: not a readable"):
        features.open(tmp_path)
