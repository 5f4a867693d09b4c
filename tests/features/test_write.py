"""Feature files written piece by piece."""

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from isch import features
from isch.errors import FileError, InputError, LockedError, ParameterError
from isch.features import dense
from isch.features.write import Writer

X = np.random.default_rng(0).random((10, 4), np.float32)
NAMES = [f"picture {i} é" for i in range(10)]
LABELS = [f"class {i % 3}" for i in range(10)]


def add(writer: Writer, start: int, stop: int) -> None:
    writer.add(X[start:stop], NAMES[start:stop], LABELS[start:stop])


def written(path: Path) -> None:
    with Writer(path, {"a": 1}) as writer:
        add(writer, 0, 4)
        writer.flush()
        add(writer, 4, 10)
        writer.finish({"describer": b"bytes"})


@pytest.mark.parametrize("name", ["f.h5", "f.hdf5", "f.npy", "f.npz", "f.parquet", "f.feather"])
def test_what_was_added_is_read_back(tmp_path: Path, name: str) -> None:
    written(tmp_path / name)
    opened = features.open(tmp_path / name)
    np.testing.assert_array_equal(dense(opened.read(0, 10)), X)
    assert opened.names == NAMES
    assert not (tmp_path / f"{name}.partial").exists()


def test_labels_recipe_and_attachments(tmp_path: Path) -> None:
    import h5py

    written(tmp_path / "f.h5")
    with h5py.File(tmp_path / "f.h5") as file:
        assert list(file["labels"].asstr()[:]) == LABELS
        assert file.attrs["recipe"].decode() == '{"a": 1}'
        assert file["describer"][:].tobytes() == b"bytes"
    written(tmp_path / "f.npy")
    assert list(np.load(tmp_path / "f.labels.npy")) == LABELS
    assert (tmp_path / "f.describer").read_bytes() == b"bytes"


@pytest.mark.parametrize("name", ["f.h5", "f.npz"])
def test_sparse_rows(tmp_path: Path, name: str) -> None:
    sparse = csr_array(np.where(X > 0.7, X, 0).astype(np.float16).astype(np.float32))
    with Writer(tmp_path / name, {}) as writer:
        writer.add(sparse[:6], NAMES[:6], LABELS[:6])
        writer.flush()
        writer.add(sparse[6:], NAMES[6:], LABELS[6:])
        writer.finish()
    opened = features.open(tmp_path / name)
    np.testing.assert_array_equal(dense(opened.read(0, 10)), sparse.toarray())
    assert opened.names is not None
    assert list(opened.names) == NAMES


def test_interrupted_work_goes_on(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Writer(tmp_path / "f.h5", {}) as writer:
        add(writer, 0, 4)
        raise KeyboardInterrupt
    assert not (tmp_path / "f.h5").exists()
    with Writer(tmp_path / "f.h5", {}) as writer:
        assert writer.names == NAMES[:4]
        add(writer, 4, 10)
        writer.finish()
    np.testing.assert_array_equal(features.open(tmp_path / "f.h5").read(0, 10), X)


def test_a_part_half_written_by_a_killed_process_is_not_seen(tmp_path: Path) -> None:
    with Writer(tmp_path / "f.npy", {}) as writer:
        add(writer, 0, 4)
    (tmp_path / "f.npy.partial" / ".000001.abcd.npz").write_bytes(b"half")
    with Writer(tmp_path / "f.npy", {}) as writer:
        assert len(writer.names) == 4
        add(writer, 4, 10)
        writer.finish()
    np.testing.assert_array_equal(np.load(tmp_path / "f.npy"), X)


def test_other_options_do_not_mix(tmp_path: Path) -> None:
    with Writer(tmp_path / "f.h5", {"descriptor": "gist"}) as writer:
        add(writer, 0, 4)
    with pytest.raises(FileError, match="begun with other options"), Writer(tmp_path / "f.h5", {"descriptor": "cnn"}):
        pass


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with Writer(tmp_path / "f.h5", {}), pytest.raises(LockedError), Writer(tmp_path / "f.h5", {}):
        pass


def test_nothing_is_left_when_nothing_was_added(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to write"), Writer(tmp_path / "f.h5", {}) as writer:
        writer.finish()
    assert list(tmp_path.iterdir()) == []


def test_targets_are_checked_first(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"unknown format .* '\.csv'"):
        Writer(tmp_path / "f.csv", {})
    with pytest.raises(FileError, match="does not exist"):
        Writer(tmp_path / "no" / "f.h5", {})
