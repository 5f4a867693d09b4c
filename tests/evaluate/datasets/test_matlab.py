"""MATLAB files give what scipy reads; damaged ones are one sentence and never a crash."""

import random
import struct
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from scipy.io import loadmat, savemat

from isch.errors import FormatError
from isch.evaluate.datasets.matlab import largest_matrix

RNG = np.random.default_rng(0)
HEADER = b" " * 124 + b"\0\1IM"


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("dtype", ["f8", "f4", "u1", "i2", "u4", "i8"])
def test_numbers_are_those_of_scipy(tmp_path: Path, dtype: str, packed: bool) -> None:
    matrix = (100 * RNG.random((7, 5))).astype(dtype)
    others = {"name": "a text", "small": np.arange(3), "cell": np.array([1, "x"], object), "z": np.ones((90, 9)) * 1j}
    savemat(tmp_path / "x.mat", {**others, "x": matrix, "empty": np.empty((0, 3))}, do_compression=packed)
    read = largest_matrix(tmp_path / "x.mat")
    np.testing.assert_array_equal(read, loadmat(tmp_path / "x.mat")["x"])
    assert read.dtype == matrix.dtype


def test_a_matrix_of_one_small_number(tmp_path: Path) -> None:
    savemat(tmp_path / "x.mat", {"x": np.array([[7]], np.uint8)})
    assert largest_matrix(tmp_path / "x.mat").tolist() == [[7]]


def test_files_of_version_7_3_are_transposed(tmp_path: Path) -> None:
    matrix = RNG.random((4, 6))
    with h5py.File(tmp_path / "x.mat", "w", userblock_size=512) as file:
        file["x"] = matrix.T
    with (tmp_path / "x.mat").open("r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")
    np.testing.assert_array_equal(largest_matrix(tmp_path / "x.mat"), matrix)


def test_a_file_without_a_matrix(tmp_path: Path) -> None:
    savemat(tmp_path / "x.mat", {"name": "a text"})
    with pytest.raises(FormatError, match="expected a matrix of numbers; found none"):
        largest_matrix(tmp_path / "x.mat")


@pytest.mark.parametrize("content", [b"", b"hello" * 100, HEADER, HEADER + b"\xff" * 64])
def test_something_else(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.mat").write_bytes(content)
    with pytest.raises(FormatError):
        largest_matrix(tmp_path / "x.mat")


@pytest.mark.parametrize("packed", [True, False])
def test_random_damage_is_refused_or_read(tmp_path: Path, packed: bool) -> None:
    """The type of the values turned from 9 into 41 crashes scipy."""
    path, rng = tmp_path / "x.mat", random.Random(0)
    savemat(path, {"x": RNG.random((4, 5))}, do_compression=packed)
    whole = path.read_bytes()
    refused = 0
    for _ in range(500):
        damaged = bytearray(whole)
        if rng.random() < 0.2:
            damaged = damaged[: rng.randrange(len(damaged))]
        else:
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            assert largest_matrix(path).ndim == 2
        except FormatError:
            refused += 1
    assert refused > 100
    (place,) = [i for i in range(128, len(whole)) if whole[i : i + 8] == b"\x09\0\0\0\xa0\0\0\0"] or [-1]
    if place >= 0:
        path.write_bytes(whole[:place] + b"\x29" + whole[place + 1 :])
        with pytest.raises(FormatError, match="type 41"):
            largest_matrix(path)


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    inside = zlib.compress(struct.pack("<II", 14, 1 << 31) + bytes(1000))
    content = HEADER + struct.pack("<II", 15, len(inside)) + inside
    (tmp_path / "x.mat").write_bytes(content)
    with pytest.raises(FormatError, match="2,147,483,648 bytes in"):
        largest_matrix(tmp_path / "x.mat")
