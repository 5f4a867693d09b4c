"""Files of any format: pickled by their path, errors in our words, nothing but regular files."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from isch import features
from isch.errors import FileError, FormatError, InputError, IschError
from isch.features.file import in_our_words, stamp

X = np.arange(24, dtype=np.float32).reshape(6, 4)
mapped_files_change = pytest.mark.skipif(sys.platform == "win32", reason="Windows lets no mapped file be changed")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "x.names.npy", list("abcdef"))
    return tmp_path / "x.npy"


def test_a_pickle_holds_the_path_and_not_the_data(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1000, 100)))
    assert len(pickle.dumps(features.open(tmp_path / "x.npy"))) < 1000


def test_a_pickle_opens_in_another_process_and_folder(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    source = features.Subset(features.open("x.npy"), np.array([1, 3]))
    program = "import pickle, sys; print(pickle.load(sys.stdin.buffer).read(0, 2).tolist())"
    done = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(source), cwd="/", capture_output=True)
    assert done.stdout.decode().strip() == str(X[[1, 3]].tolist()), done.stderr.decode()


def test_a_pickle_is_opened_only_when_it_is_read(file: Path) -> None:
    content = pickle.dumps(features.open(file))
    file.unlink()
    source = pickle.loads(content)
    assert source.shape == (6, 4)
    with pytest.raises(FileError, match=r"x\.npy: No such file"):
        source.read(0, 1)


def test_names_follow_a_pickle(file: Path) -> None:
    source = features.open(file)
    assert source.names == list("abcdef")
    assert pickle.loads(pickle.dumps(source)).names == list("abcdef")


@mapped_files_change
@pytest.mark.parametrize("change", ["size", "time"])
def test_a_file_that_has_changed_is_refused(file: Path, change: str) -> None:
    source = features.open(file)
    content = pickle.dumps(source)
    if change == "size":
        np.save(file, X[:3])
    else:
        os.utime(file, ns=(0, 10**9))
    for reader in (source, pickle.loads(content)):
        with pytest.raises(FileError, match=r"x\.npy: has changed since it was opened; open it again"):
            reader.read(0, 1)
    with pytest.raises(FileError, match="has changed"):
        list(source.batches(2))


@mapped_files_change
def test_a_file_that_shrinks_during_a_pass_is_refused(file: Path) -> None:
    batches = features.open(file).batches(2)
    next(batches)
    np.save(file, X[:3])
    with pytest.raises(FileError, match="has changed"):
        next(batches)


def test_a_changed_store_is_refused_by_a_pickle(tmp_path: Path) -> None:
    import zarr

    array = zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(2, 4))
    content = pickle.dumps(features.open(tmp_path / "x.zarr"))
    array[:] = X + 1
    with pytest.raises(FileError, match=r"x\.zarr: has changed"):
        pickle.loads(content).read(0, 1)


@mapped_files_change
def test_a_removed_file_can_still_be_read(file: Path) -> None:
    source = features.open(file)
    file.unlink()
    np.testing.assert_array_equal(source.read(0, 6), X)


def test_closed_files_open_themselves_again(file: Path) -> None:
    source = features.open(file)
    source.close()
    np.testing.assert_array_equal(source.take(np.array([0, 5])), X[[0, 5]])


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ValueError("a\nlong\n\nstory"), FormatError, r"f: not a readable X file, or a damaged one \(a long story\)"),
        (KeyError(), FormatError, r"\(KeyError\)"),
        (ValueError("x" * 500), FormatError, r"x{117}\.\.\.\)$"),
        (PermissionError(13, "nonsense"), FileError, "f: Permission denied"),
        (OSError("of a library, without a number"), FormatError, "not a readable X file"),
        (MemoryError(), FileError, "f: does not fit into memory"),
        (InputError("ours"), InputError, "^ours$"),
    ],
)
def test_every_error_becomes_a_sentence(error: Exception, kind: type[IschError], message: str) -> None:
    with pytest.raises(kind, match=message) as caught, in_our_words("f", "X file"):
        raise error
    assert "\n" not in str(caught.value)


def test_interruptions_are_not_errors() -> None:
    with pytest.raises(KeyboardInterrupt), in_our_words("f", "X file"):
        raise KeyboardInterrupt


def test_errors_of_later_reads_are_ours_too(tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "x.h5", "w") as out:
        out.create_dataset("features", data=np.ones((100, 50), np.float32), chunks=(10, 50), compression="gzip")
        place = out["features"].id.get_chunk_info(5).byte_offset
    content = bytearray((tmp_path / "x.h5").read_bytes())
    content[place + 5] ^= 255
    (tmp_path / "x.h5").write_bytes(content)
    source = features.open(tmp_path / "x.h5")
    np.testing.assert_array_equal(source.read(0, 50), 1)
    for read in (lambda: source.read(50, 60), lambda: source.take(np.array([55])), lambda: list(source.batches(10))):
        with pytest.raises(FormatError, match=r"x\.h5::features: not a readable HDF5 file, or a damaged one"):
            read()


def test_a_small_file_cannot_claim_an_enormous_matrix(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    zeros = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(64 << 20, np.float32)), 1 << 16)
    pq.write_table(pa.table({"v": zeros}), tmp_path / "x.parquet", compression="zstd")
    with pytest.raises(FormatError, match=r"claims 1,024 × 65,536 values of float32 in .* bytes; expected at most"):
        features.open(tmp_path / "x.parquet")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes in folders")
@pytest.mark.parametrize("suffix", features.SUFFIXES)
def test_pipes_and_devices_are_refused_at_once(tmp_path: Path, suffix: str) -> None:
    os.mkfifo(tmp_path / f"x{suffix}")
    with pytest.raises(FileError, match="is a pipe, not a regular file"):
        features.open(tmp_path / f"x{suffix}")
    (tmp_path / f"y{suffix}").symlink_to("/dev/zero")
    with pytest.raises(FileError, match="is a device, not a regular file"):
        features.open(tmp_path / f"y{suffix}")


def test_a_store_is_stamped_by_all_its_files(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_bytes(b"123")
    (tmp_path / "c").write_bytes(b"45")
    assert (stamp(tmp_path).size, stamp(tmp_path).files) == (5, 2)
    (tmp_path / "a" / "link").symlink_to(tmp_path / "c")
    with pytest.raises(FormatError, match="link: is a link; expected a folder that holds its own files"):
        stamp(tmp_path)
