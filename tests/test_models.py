import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from scipy.sparse import csr_array
from sklearn.datasets import load_digits

import isch
from isch import models
from isch.errors import FileError, FormatError

X = load_digits().data[:50].astype(np.float32)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "m.safetensors"
    isch.LSH(13, random_state=5).fit(X).save(path)
    return path


def header_with(**changes: Any) -> dict[str, Any]:
    header = {"version": 2, "parts": [{"method": "lsh", "parameters": {}, "learned": {}}]} | changes
    return header | {"checksum": models._checksum({}, header)}


def part(**changes: Any) -> dict[str, Any]:
    return header_with(parts=[{"method": "lsh", "parameters": {}, "learned": {}} | changes])


def test_a_model_comes_back_and_saves_to_the_same_bytes(model: Path, tmp_path: Path) -> None:
    loaded = isch.load(model)
    assert isinstance(loaded, isch.LSH)
    assert loaded.get_params() == {"n_bits": 13, "random_state": 5}
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == model.read_bytes()


def test_sparse_arrays_scalars_and_lists_survive(tmp_path: Path) -> None:
    learned = {"a_": csr_array(np.eye(3, 5)), "b_": 1.5, "c_": [1, 2], "d_": np.arange(3), "e_": None}
    models.write(tmp_path / "m", [models.Part("lsh", {}, learned)])
    back = models.read(tmp_path / "m").parts[0].learned
    assert back.keys() == learned.keys()
    np.testing.assert_array_equal(back["a_"].toarray(), np.eye(3, 5))
    np.testing.assert_array_equal(back["d_"], np.arange(3))
    assert (back["b_"], back["c_"], back["e_"]) == (1.5, [1, 2], None)


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9])
def test_a_truncated_model_is_refused(model: Path, tmp_path: Path, keep: float) -> None:
    content = model.read_bytes()
    (tmp_path / "t").write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(FormatError, match="not an ISCH model file, or damaged"):
        isch.load(tmp_path / "t")


def test_a_flipped_byte_is_found(model: Path, tmp_path: Path) -> None:
    content = bytearray(model.read_bytes())
    content[-5] ^= 1
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(FormatError, match="does not match its checksum"):
        isch.load(tmp_path / "f")


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (None, "not an ISCH model file"),
        ({"isch": "{"}, "not an ISCH model file"),
        ({"isch": json.dumps(header_with(version=99))}, "format version 99; this ISCH reads up to version 3"),
        ({"isch": json.dumps(header_with(version=1))}, "format version 1, which is not read any more; fit it again"),
        ({"isch": json.dumps(part(method="magic"))}, "expected a model with one hashing method"),
        ({"isch": json.dumps(part(parameters={"evil": 1}))}, "the model is damaged"),
    ],
)
def test_foreign_and_newer_files_are_refused(tmp_path: Path, metadata: Any, message: str) -> None:
    save_file({}, tmp_path / "m", metadata)
    with pytest.raises(FormatError, match=message):
        isch.load(tmp_path / "m")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="nowhere: no such model file"):
        isch.load(tmp_path / "nowhere")


def test_an_unfitted_hasher_is_not_saved(tmp_path: Path) -> None:
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        isch.LSH(8).save(tmp_path / "m")
    assert os.listdir(tmp_path) == []
