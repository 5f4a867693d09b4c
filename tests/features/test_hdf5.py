"""HDF5 files; those that point elsewhere are in the attack too."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from isch import features
from isch.errors import FileError, FormatError
from isch.features import hdf5, hdf5_strings

X = np.arange(24, dtype=np.float32).reshape(6, 4)
NAMES = ["a.jpg", "", "ä" * 40, "d", "e/é", "f"]


@pytest.fixture
def other(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["features"], file["names"] = X, NAMES
    (tmp_path / "secret").write_bytes(X.tobytes())
    return tmp_path / "other.h5"


def virtual(file: Any) -> None:
    layout = h5py.VirtualLayout((6, 4), "<f4")
    layout[:] = h5py.VirtualSource("other.h5", "features", (6, 4))
    file.create_virtual_dataset("features", layout)


def foreign_filter(file: Any) -> None:
    recipe = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    recipe.set_chunk((6, 4))
    recipe.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, (3,))
    h5py.h5d.create(file.id, b"features", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((6, 4)), recipe)


def link(file: Any) -> None:
    file["features"] = h5py.ExternalLink("other.h5", "features")


def chunk_missing(file: Any) -> None:
    file.create_dataset("features", (6, 4), "<f4", chunks=(2, 4))[:2] = X[:2]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda f: f.create_dataset("features", (6, 4), "<f4", external=[("secret", 0, 96)]),
            "features: its values lie in other files; expected them in this one",
        ),
        (virtual, "features: its values lie in other files"),
        (link, "expected one matrix, .* it holds none"),
        (foreign_filter, "filter 32015 .* would be loaded from outside; expected deflate, shuffle"),
        (chunk_missing, "holds 1 of 3 chunks; expected a dataset written in full"),
        (
            lambda f: f.create_dataset("features", (6, 4), "<f4"),
            "holds 0 of 96 bytes; expected a dataset written in full",
        ),
    ],
)
def test_only_what_lies_in_the_file_is_read(
    other: Path, make: Callable[[Any], object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(other.parent)
    with h5py.File("x.h5", "w") as file:
        make(file)
    with pytest.raises(FormatError, match=message):
        features.open("x.h5")


@pytest.mark.parametrize("kind", [h5py.SoftLink("/group/features"), h5py.ExternalLink("other.h5", "names")])
def test_links_are_not_followed_by_name_either(other: Path, kind: Any) -> None:
    with h5py.File(other.parent / "x.h5", "w") as file:
        file["features"] = X
        file["group"] = h5py.ExternalLink("other.h5", "/")
        file["names"] = kind
    for name in ("names", "group/features"):
        with h5py.File(other.parent / "x.h5") as file, pytest.raises(FormatError, match="is a link"):
            hdf5.dataset(file, name, Path("x.h5"))
    source = features.open(other.parent / "x.h5")
    with pytest.raises(FormatError, match="names: is a link; expected a dataset of the file itself"):
        _ = source.names


def test_an_attachment_is_read_from_the_file_itself(other: Path) -> None:
    with h5py.File(other.parent / "x.h5", "w") as file:
        file["describer"] = h5py.ExternalLink("other.h5", "names")
    with pytest.raises(FormatError, match="describer: is a link"):
        hdf5.attachment(other.parent / "x.h5", "describer")
    assert hdf5.attachment(other, "describer") is None
    (other.parent / "y.h5").write_bytes(b"nothing")
    with pytest.raises(FileError, match=r"y\.h5: not a readable HDF5 file"):
        hdf5.attachment(other.parent / "y.h5", "describer")


LAYOUTS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": (4,)},
    "gzip": {"chunks": (4,), "compression": "gzip"},
    "all": {"chunks": (4,), "compression": "gzip", "shuffle": True},
    "resizable": {"maxshape": (None,)},
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("version", ["earliest", ("v110", "v110")])
@pytest.mark.parametrize("userblock", [0, 1024])
def test_strings_are_those_that_h5py_reads(tmp_path: Path, layout: str, version: Any, userblock: int) -> None:
    names = NAMES * 100
    with h5py.File(tmp_path / "x.h5", "w", libver=version, userblock_size=userblock) as file:
        file["features"] = np.tile(X, (100, 1))
        file.create_dataset("names", data=np.array(names, object), dtype=h5py.string_dtype(), **LAYOUTS[layout])
    with h5py.File(tmp_path / "x.h5") as file:
        assert hdf5_strings.read(file["names"], tmp_path / "x.h5") == file["names"].asstr()[:].tolist() == names
    assert features.open(tmp_path / "x.h5").names == names


def test_strings_of_fixed_length(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["features"] = X
        file["names"] = np.array([name.encode() for name in NAMES])
    assert features.open(tmp_path / "x.h5").names == NAMES


def test_strings_in_layouts_that_are_not_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["features"] = X
        file.create_dataset("names", data=np.array(NAMES, object), dtype=h5py.string_dtype(), compression="lzf")
    with pytest.raises(FormatError, match="names: strings behind filter 32000; expected deflate or shuffle"):
        _ = features.open(tmp_path / "x.h5").names


def test_a_damaged_heap_neither_hangs_nor_lies(tmp_path: Path) -> None:
    """libhdf5 2.0 reads some of these for ever."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["features"], file["names"] = X, NAMES
    content = (tmp_path / "x.h5").read_bytes()
    start = content.index(b"GCOL")
    for place in range(start, start + 120):
        for value in (0, 1, 7, 128, 255):
            damaged = bytearray(content)
            damaged[place] = value
            (tmp_path / "y.h5").write_bytes(damaged)
            try:
                names = features.open(tmp_path / "y.h5").names
            except FormatError:
                continue
            assert names is not None
            assert len(names) == 6


def test_names_that_are_no_names(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["features"], file["names"] = X, np.arange(6)
    assert features.open(tmp_path / "x.h5").names is None


@pytest.mark.parametrize("size", [0, 1, 4, 2**31])
def test_a_chunk_of_impossible_size(tmp_path: Path, size: int) -> None:
    """libhdf5 2.0 crashes on a chunk of no bytes behind a checksum."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("features", data=X, chunks=(3, 4), compression="gzip", fletcher32=True)
        stored = [file["features"].id.get_chunk_info(i) for i in range(2)]
    content = (tmp_path / "x.h5").read_bytes()
    key = stored[1].size.to_bytes(4, "little") + bytes(4) + (3).to_bytes(8, "little")  # size, mask, first row
    assert content.count(key) == 1
    (tmp_path / "x.h5").write_bytes(content.replace(key, size.to_bytes(4, "little") + key[4:]))
    with pytest.raises(FormatError, match="the chunk of row 3 cannot be as the file says"):
        features.open(tmp_path / "x.h5")
