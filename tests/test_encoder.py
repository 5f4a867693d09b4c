"""An encoder takes vectors or pictures, is one file, and makes pictures queries of an index."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import isch
from isch import models
from isch.describe import describer
from isch.encoder import Encoder
from isch.errors import FormatError, IschError

RNG = np.random.default_rng(0)
PICTURES = RNG.integers(0, 256, (40, 24, 32, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    for i, picture in enumerate(PICTURES):
        Image.fromarray(picture).save(folder / f"{i:02d}.png")
    return folder


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    gist = describer("gist", side=32)
    return Encoder(isch.ITQ(n_bits=16).fit(gist.transform(PICTURES)), gist)


@pytest.fixture
def index(tmp_path: Path, encoder: Encoder, folder: Path) -> isch.Index:
    return isch.Index.create(tmp_path / "x.isch", encoder, folder)


def test_every_form_of_a_picture_gives_the_same_code(encoder: Encoder, folder: Path) -> None:
    path = folder / "07.png"
    expected = encoder.hasher.transform(encoder.describer.transform(PICTURES[7:8]))  # type: ignore[union-attr]
    for source in (path, str(path), [path], path.read_bytes(), PICTURES[7], PICTURES[7:8], Image.open(path)):
        np.testing.assert_array_equal(encoder.codes(source), expected)
    every = encoder.codes(folder)
    np.testing.assert_array_equal(every[7:8], expected)
    np.testing.assert_array_equal(np.concatenate(list(encoder.encode(folder))), every)
    assert encoder.features(folder).names == sorted(str(p) for p in folder.iterdir())


def test_vectors_still_go_in(encoder: Encoder, tmp_path: Path) -> None:
    vectors = encoder.describer.transform(PICTURES)  # type: ignore[union-attr]
    np.save(tmp_path / "v.npy", vectors)
    for source in (vectors, tmp_path / "v.npy"):
        np.testing.assert_array_equal(encoder.codes(source), encoder.codes(PICTURES))
    np.testing.assert_array_equal(encoder.codes(vectors[3]), encoder.codes(PICTURES[3]))
    np.testing.assert_allclose(encoder.project(vectors[:2]), encoder.project(PICTURES[:2]), rtol=1e-5)


def test_one_file_holds_both(encoder: Encoder, tmp_path: Path) -> None:
    encoder.save(tmp_path / "m.safetensors")
    again = Encoder.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again.codes(PICTURES), encoder.codes(PICTURES))
    assert again.describer is not None
    assert again.describer.get_params()["side"] == 32
    assert isinstance(isch.load(tmp_path / "m.safetensors"), isch.ITQ)
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m.safetensors").read_bytes()


def test_a_model_of_a_hasher_alone_is_an_encoder_of_vectors(encoder: Encoder, tmp_path: Path) -> None:
    encoder.hasher.save(tmp_path / "m.safetensors")
    alone = Encoder.load(tmp_path / "m.safetensors")
    assert alone.describer is None
    (tmp_path / "cat.jpg").write_bytes(b"x")
    with pytest.raises(IschError, match=r"cat\.jpg is a picture, but the model was learned from feature vectors"):
        alone.codes(tmp_path / "cat.jpg")


def test_what_is_no_hashing_model_is_refused(encoder: Encoder, tmp_path: Path) -> None:
    encoder.describer.save(tmp_path / "d")  # type: ignore[union-attr]
    models.write(tmp_path / "e", [])
    both = [encoder.hasher._part(), encoder.describer._part()]  # type: ignore[union-attr]
    models.write(tmp_path / "f", both)
    models.write(tmp_path / "g", [models.Part("lsh", {}, {}), encoder.hasher._part()])
    for name, message in (("d", "got gist"), ("e", "got nothing"), ("f", "got itq and gist"), ("g", "lsh")):
        with pytest.raises((FormatError, IschError), match=message):
            Encoder.load(tmp_path / name)


def test_a_picture_is_a_query(index: isch.Index, folder: Path) -> None:
    path = folder / "11.png"
    for query in (path, path.read_bytes(), PICTURES[11], Image.open(path)):
        hit = index.search(query, k=3)[0][0]
        assert (hit.key, hit.distance) == (str(path), 0)
    several = index.search([folder / "03.png", folder / "04.png"], k=1)
    assert several.keys == [[str(folder / "03.png")], [str(folder / "04.png")]]
    with isch.Index.open(index.path) as again:
        assert again.search(path, k=1)[0][0].key == str(path)
        assert again.info()["describer"] == "gist"


def test_pictures_are_added_and_kept_for_exact_search(tmp_path: Path, encoder: Encoder, folder: Path) -> None:
    index = isch.Index.create(tmp_path / "k.isch", encoder, keep_features="float32")
    index.add([folder / "01.png", folder / "02.png"])
    index.add(PICTURES[3:5], keys=["three", "four"])
    assert index.search(PICTURES[4], k=1, rerank="exact")[0][0].key == "four"
    assert str(folder / "02.png") in index
    assert index.search(PICTURES[4], k=1, rerank="exact")[0][0].score == pytest.approx(0, abs=1e-3)


def test_a_picture_that_cannot_be_read_is_named(index: isch.Index, tmp_path: Path) -> None:
    (tmp_path / "broken.jpg").write_bytes(b"not a picture")
    with pytest.raises(IschError, match=r"broken\.jpg"):
        index.search(tmp_path / "broken.jpg")
    with pytest.raises(IschError, match="missing.jpg"):
        index.search(tmp_path / "missing.jpg")


def test_from_a_folder_to_a_picture_query_by_command(
    folder: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from isch.cli import main

    def run(*words: str) -> str:
        monkeypatch.setattr("sys.argv", ["isch", *words])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        assert stop.value.code == 0, captured.err
        return str(captured.out)

    monkeypatch.chdir(tmp_path)
    for suffix in ("h5", "npy"):
        run("describe", str(folder), "--descriptor", "gist", "-o", f"f.{suffix}")
        run("fit", f"f.{suffix}", "--bits", "16", "--method", "itq", "-o", f"{suffix}.model")
        run("index", "build", f"f.{suffix}", "--model", f"{suffix}.model", "-o", f"{suffix}.isch")
        assert run("search", f"{suffix}.isch", str(folder / "05.png"), "-k", "1").splitlines()[1].endswith("05.png")
