"""isch info answers for every file that isch reads or writes."""

import json
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
import zarr
from PIL import Image as Pil
from pyarrow import feather, parquet
from safetensors.numpy import save_file
from scipy import sparse

import isch
from isch.cli import program
from isch.encoder import Encoder

X = np.random.default_rng(0).standard_normal((60, 12)).astype(np.float32)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def info(capsys: pytest.CaptureFixture[str], thing: str) -> dict[str, Any]:
    """What --json says; and that the plain form says it too, on one line per fact."""
    capsys.readouterr()
    assert program.run(["info", thing, "--json"]) == 0
    found = dict(json.loads(capsys.readouterr().out))
    assert program.run(["info", thing]) == 0
    plain = capsys.readouterr().out
    assert found["kind"] in plain
    assert len(plain.splitlines()) == len([name for name in found if name != "header"])
    return found


def write(name: str) -> None:
    """The matrix in the format of the name."""
    lists = pa.table({"features": pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])})
    if name.endswith(".npy"):
        np.save(name, X)
    elif name.endswith(".npz"):
        sparse.save_npz(name, sparse.csr_matrix(X))
    elif name.endswith(".h5"):
        with h5py.File(name, "w") as file:
            file["features"] = X
    elif name.endswith(".zarr"):
        zarr.save_array(name, X)
    elif name.endswith(".parquet"):
        parquet.write_table(lists, name)
    elif name.endswith(".feather"):
        feather.write_feather(lists, name)
    elif name.endswith(".fvecs"):
        np.concatenate([np.full((60, 1), 12, np.int32).view(np.float32), X], axis=1).tofile(name)
    else:
        os.mkdir(name)
        np.save(f"{name}/a.npy", X[:20])
        np.save(f"{name}/b.npy", X[20:])


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.h5", "x.zarr", "x.parquet", "x.feather", "x.fvecs", "shards"])
def test_features_of_every_format(desk: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    write(name)
    found = info(capsys, name)
    assert (found["kind"], found["path"], found["rows"], found["columns"]) == ("features", name, 60, 12)
    assert found["type"] == "float32"
    assert found["bytes"] > 1000


def test_one_matrix_of_several(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with h5py.File("x.h5", "w") as file:
        file["a"], file["b"] = X, X[:5]
    assert info(capsys, "x.h5::b")["rows"] == 5


def test_models_alone_and_with_a_describer(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    isch.ISCH(8).fit(X).save("model")
    found = info(capsys, "model")
    assert (found["kind"], found["method"], found["bits"]) == ("model", "isch", 8)
    assert found["trained on"] == "60 rows × 12 features"
    assert found["header"]["parts"][0]["learned"]["n_samples_"] == 60
    gist = isch.describe.describer("gist")
    gist.save("descriptor")
    assert info(capsys, "descriptor")["kind"] == "descriptor"
    wide = np.random.default_rng(1).standard_normal((20, 512))
    Encoder(isch.LSH(8).fit(wide), gist).save("both")
    found = info(capsys, "both")
    assert (found["kind"], found["method"], found["described by"]) == ("model", "lsh", "gist")


def test_every_method(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from isch.hashing import METHODS, hasher

    for name in METHODS:
        hasher(name, n_bits=8).fit(X).save(name)
        assert info(capsys, name)["method"] == name


def test_indexes_codes_vectors_names_and_pictures(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hasher = isch.LSH(8).fit(X)
    isch.Index.create("x.isch", hasher, X).close()
    found = info(capsys, "x.isch")
    assert (found["kind"], found["items"], found["n_bits"]) == ("index", 60, 8)
    np.save("codes.npy", hasher.transform(X))
    found = info(capsys, "codes.npy")
    assert (found["kind"], found["rows"], found["bits"]) == ("codes, or features of 8 bits", 60, "at most 8 per code")
    np.save("one.npy", X[0])
    assert (info(capsys, "one.npy")["kind"], info(capsys, "one.npy")["shape"]) == ("vector", [12])
    np.save("x.names.npy", ["a", "b"])
    assert info(capsys, "x.names.npy")["kind"] == "names or labels"
    os.mkdir("photos")
    Pil.new("RGB", (40, 30)).save("photos/cat.jpg")
    found = info(capsys, "photos/cat.jpg")
    assert (found["kind"], found["width"], found["height"]) == ("picture", 40, 30)
    assert info(capsys, "photos")["pictures"] == 1


def test_what_describe_wrote_says_how(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkdir("photos")
    for number in range(3):
        Pil.new("RGB", (40, 30), (number, 0, 0)).save(f"photos/{number}.png")
    for name in ("f.h5", "f.npy"):
        assert program.run(["describe", "photos", "--descriptor", "gist", "-o", name]) == 0
        found = info(capsys, name)
        assert (found["described by"], found["names"]) == ("gist", "photos/0.png … photos/2.png")
    assert info(capsys, "f.describer")["kind"] == "descriptor"


def test_an_experiment(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("toy.toml").write_text(
        'title = "toy"\nbits = [8]\nseeds = 1\nmeasures = ["precision@5"]\nsplit = { total = 20 }\n'
        'data = { dataset = "features", path = "x" }\nmethods = { lsh = {} }\n'
    )
    found = info(capsys, "toy.toml")
    assert (found["kind"], found["title"], found["methods"], found["bits"]) == ("experiment", "toy", "lsh", [8])


def test_a_crafted_model_is_one_sentence(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for header in ("{}", "[]", '{"version": 1}', '{"version": 2, "parts": []}', "x"):
        save_file({"a": X}, "crafted", {"isch": header})
        assert program.run(["info", "crafted"]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
