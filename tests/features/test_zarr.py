import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from isch import features
from isch.errors import FormatError

X = np.arange(1, 25, dtype=np.float32).reshape(6, 4)


def chunks(store: Path) -> list[Path]:
    return sorted(p for p in store.rglob("*") if p.is_file() and not p.name.startswith((".z", "zarr")))


@pytest.fixture(params=[2, 3])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(2, 4), zarr_format=request.param)
    return tmp_path / "x.zarr"


def test_a_missing_chunk_is_named(store: Path) -> None:
    chunks(store)[1].unlink()
    with pytest.raises(FormatError, match=r"x\.zarr: (the chunk of row 2 is missing|3 chunks in \d files)"):
        features.open(store)


def test_a_damaged_chunk_is_found_when_it_is_read(store: Path) -> None:
    chunks(store)[1].write_bytes(b"noise")
    source = features.open(store)
    np.testing.assert_array_equal(source.read(0, 2), X[:2])
    with pytest.raises(FormatError, match=r"x\.zarr: not a readable Zarr store, or a damaged one"):
        source.read(2, 4)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_links_out_of_the_store_are_refused(tmp_path: Path, what: str) -> None:
    zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(2, 4))
    inside = tmp_path / "x.zarr" / "c" if what == "folder" else chunks(tmp_path / "x.zarr")[0]
    inside.rename(tmp_path / "outside")
    inside.symlink_to(tmp_path / "outside")
    with pytest.raises(FormatError, match="is a link; expected a folder that holds its own files"):
        features.open(tmp_path / "x.zarr")


class Payload:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self._path,)


@pytest.mark.parametrize("key", ["filters", "compressor"])
def test_a_codec_that_unpickles_is_never_run(tmp_path: Path, key: str) -> None:
    zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(2, 4), zarr_format=2)
    metadata = json.loads((tmp_path / "x.zarr" / ".zarray").read_text())
    codec = {"id": "pickle", "protocol": 5}
    metadata |= {"compressor": None, "filters": None, key: [codec] if key == "filters" else codec}
    (tmp_path / "x.zarr" / ".zarray").write_text(json.dumps(metadata))
    for chunk in chunks(tmp_path / "x.zarr"):
        chunk.write_bytes(pickle.dumps(Payload(tmp_path / "executed")))
    with pytest.raises(FormatError, match=r"x\.zarr: .*pickle"):
        features.open(tmp_path / "x.zarr")
    assert not (tmp_path / "executed").exists()


def test_codecs_that_make_no_numbers_are_refused(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(2, 4), zarr_format=2)
    metadata = json.loads((tmp_path / "x.zarr" / ".zarray").read_text()) | {"filters": [{"id": "base64"}]}
    (tmp_path / "x.zarr" / ".zarray").write_text(json.dumps(metadata))
    with pytest.raises(FormatError, match="codec 'base64' is not used; expected adler32"):
        features.open(tmp_path / "x.zarr")


def test_shards_and_codecs_within_codecs(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(2, 4), shards=(4, 4))
    np.testing.assert_array_equal(features.open(tmp_path / "x.zarr").read(0, 6), X)
    metadata = json.loads((tmp_path / "x.zarr" / "zarr.json").read_text())
    metadata["codecs"][0]["configuration"]["codecs"].append({"name": "numcodecs.pickle", "configuration": {}})
    (tmp_path / "x.zarr" / "zarr.json").write_text(json.dumps(metadata))
    with pytest.raises(FormatError):
        features.open(tmp_path / "x.zarr")


def test_one_array_of_a_group(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "x.zarr", mode="w")
    group.create_array("a", data=X)
    group.create_array("b", data=X + 1)
    np.testing.assert_array_equal(features.open(f"{tmp_path}/x.zarr::b").read(0, 6), X + 1)
    with pytest.raises(FormatError, match="it holds a, b"):
        features.open(tmp_path / "x.zarr")
    with pytest.raises(FormatError, match=r"no matrix called '\.\./y'"):
        features.open(f"{tmp_path}/x.zarr::../y")


def test_a_matrix_without_a_name(store: Path) -> None:
    with pytest.raises(FormatError, match="holds one matrix, which has no name; got ::a"):
        features.open(f"{store}::a")


def test_an_enormous_claim_ends_at_once(store: Path) -> None:
    file = next(p for p in (store / "zarr.json", store / ".zarray") if p.exists())
    file.write_text(json.dumps(json.loads(file.read_text()) | {"shape": [2**60, 4]}))
    with pytest.raises(FormatError, match="chunks in . files; expected a store written in full"):
        features.open(store)
