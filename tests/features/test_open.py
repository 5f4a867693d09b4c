from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isch import features
from isch.errors import FileError, InputError, IschError

GOOD = np.arange(6, dtype=np.float32).reshape(3, 2)


def test_npy_is_mapped_not_read(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", GOOD)
    assert isinstance(features.open(tmp_path / "x.npy").read(0, 2), np.memmap)


def test_a_member_is_chosen_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=GOOD, b=GOOD + 1)
    np.testing.assert_array_equal(features.open(f"{tmp_path}/x.npz::b").read(0, 3), GOOD + 1)
    with pytest.raises(FileError, match="expected one matrix, or x.npz::NAME to choose; it holds a, b"):
        features.open(tmp_path / "x.npz")
    with pytest.raises(FileError, match="no matrix called 'c'; it holds a, b"):
        features.open(f"{tmp_path}/x.npz::c")


def test_hdf5_names_its_rows(tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["features"] = GOOD
        file["names"] = ["a.jpg", "b.jpg", "ä.jpg"]
    names = features.open(tmp_path / "x.h5").names
    assert names is not None
    assert list(names) == ["a.jpg", "b.jpg", "ä.jpg"]


def test_bvecs_and_ivecs(tmp_path: Path) -> None:
    for suffix, kind in ((".bvecs", "u1"), (".ivecs", "<i4")):
        rows = np.empty(3, [("n", "<i4"), ("x", kind, 2)])
        rows["n"], rows["x"] = 2, GOOD
        rows.tofile(tmp_path / f"x{suffix}")
        source = features.open(tmp_path / f"x{suffix}")
        assert source.dtype == np.dtype(kind)
        np.testing.assert_array_equal(source.read(0, 3), GOOD)


def _bytes(name: str, content: bytes) -> Any:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return make


def _cube(name: str) -> Any:
    def make(folder: Path) -> Path:
        np.save(folder / name, np.zeros((2, 3, 4)))
        return folder / name

    return make


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder / "none.npy", "none.npy: no such file"),
        (_bytes("x.npy", b""), "the file is empty"),
        (_bytes("x.npy", b"not numpy"), "not a readable .npy"),
        (_cube("x.npy"), r"x.npy: expected a matrix .*got shape \(2, 3, 4\)"),
        (_bytes("x.npz", b"not numpy"), "not a readable .npz"),
        (_bytes("x.h5", b"not hdf5"), "not a readable HDF5"),
        (_bytes("x.parquet", b"not parquet"), "not a readable Parquet"),
        (_bytes("x.feather", b"not feather"), "not a readable Feather"),
        (_bytes("x.fvecs", b"\x02\0\0\0abc"), "not a whole number of fvecs rows"),
        (_bytes("x.fvecs", b"ab"), "the file is empty"),
        (_bytes("x.csv", b"1,2"), "unknown feature format of .*x.csv: '.csv'.*; known: .bvecs"),
        (lambda folder: folder, "holds no feature files"),
    ],
)
def test_bad_files_are_one_sentence(tmp_path: Path, make: Any, message: str) -> None:
    with pytest.raises(IschError, match=message) as caught:
        features.open(make(tmp_path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3), r"expected a matrix .*got shape \(3,\)"),
        (np.zeros((0, 3)), "at least one row"),
        (np.array([["a"]]), "expected real numbers"),
        (np.zeros((2, 2), complex), "expected real numbers; got dtype complex128"),
        ([[1], [1, 2]], "ragged"),
    ],
)
def test_bad_arrays_are_one_sentence(array: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        features.open(array)


def test_a_truncated_npy_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((100, 10)))
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:500])
    with pytest.raises(FileError, match=r"x\.npy: 500 bytes; expected 8,128 for shape \(100, 10\)"):
        features.open(tmp_path / "x.npy")


def test_shards_of_different_width_are_named(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((2, 3)))
    np.save(tmp_path / "b.npy", np.zeros((2, 4)))
    with pytest.raises(InputError, match=r"b\.npy: 4 columns; .*a\.npy has 3"):
        features.open(tmp_path)
