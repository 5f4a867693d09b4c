from pathlib import Path

import numpy as np
import pytest

from isch import features
from isch.errors import FormatError
from isch.features import npy

X = np.arange(24, dtype=np.float32).reshape(6, 4)


def test_python_objects_are_refused_without_advice(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[None]]), allow_pickle=True)
    with pytest.raises(FormatError, match="holds Python objects, which are never loaded") as caught:
        features.open(tmp_path / "x.npy")
    assert "allow_pickle" not in str(caught.value)


def test_text_is_refused_without_advice(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_text("1 2 3\n4 5 6\n")
    with pytest.raises(FormatError, match=r"not a readable \.npy file") as caught:
        features.open(tmp_path / "x.npy")
    assert "pickle" not in str(caught.value)


@pytest.mark.parametrize("head", [b"{}", b"(" * 100, b"1" * 30_000, b"__import__('os').getcwd()"])
def test_headers_that_make_no_sense(tmp_path: Path, head: bytes) -> None:
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head + bytes(100))
    with pytest.raises(FormatError, match=r"x\.npy: the header of the \.npy format is damaged") as caught:
        features.open(tmp_path / "x.npy")
    assert "trust" not in str(caught.value)


@pytest.mark.parametrize("extra", [b"more", -1])
def test_the_size_must_be_that_of_the_header(tmp_path: Path, extra: bytes | int) -> None:
    np.save(tmp_path / "x.npy", X)
    content = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(content + extra if isinstance(extra, bytes) else content[:extra])
    with pytest.raises(FormatError, match=r"bytes; expected 224 for shape \(6, 4\) of float32"):
        features.open(tmp_path / "x.npy")


def test_versions_orders_and_types(tmp_path: Path) -> None:
    with (tmp_path / "two.npy").open("wb") as file:
        np.lib.format.write_array(file, X, version=(2, 0))
    np.save(tmp_path / "fortran.npy", np.asfortranarray(X))
    np.save(tmp_path / "big.npy", X.astype(">f8"))
    np.save(tmp_path / "bool.npy", X > 3)
    for name, want in (("two", X), ("fortran", X), ("big", X), ("bool", X > 3)):
        np.testing.assert_array_equal(features.open(tmp_path / f"{name}.npy").read(0, 6), want)


def test_names_must_be_one_string_per_row(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    for names, message in (([1, 2, 3], "expected a list of strings; got int64"), (["a"], "1 names for 6 rows")):
        np.save(tmp_path / "x.names.npy", names)
        source = features.open(tmp_path / "x.npy")
        np.testing.assert_array_equal(source.read(0, 6), X)  # they matter only to who asks for them
        with pytest.raises(FormatError, match=message):
            _ = source.names


def test_one_matrix_has_no_name(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(FormatError, match="holds one matrix, which has no name; got ::y"):
        features.open(f"{tmp_path}/x.npy::y")


def test_any_array_for_who_needs_one(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array(["a", "b"]))
    assert npy.load(tmp_path / "x.npy").tolist() == ["a", "b"]
    (tmp_path / "x.npy").write_bytes(b"no")
    with pytest.raises(FormatError, match=r"x\.npy: not a readable \.npy file"):
        npy.load(tmp_path / "x.npy")
