"""What every descriptor inherits, by the smallest one."""

import sys
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image as Pil
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from isch import describe, progress
from isch.describe.base import Describer
from isch.describe.images import Image
from isch.errors import FileError, FormatError, InputError, MissingExtra, ParameterError
from isch.features import Block


class MeanColour(Describer):
    name = "mean"
    batch_size = 4
    n_features_out = 3
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    def _prepare(self, image: Image) -> Any:
        if image.shape[0] < 2:
            raise InputError("too small")
        return image.mean(axis=(0, 1), dtype=np.float32)

    def _describe(self, batch: Sequence[Any]) -> Block:
        return np.stack(batch)


PICTURES = np.random.default_rng(0).integers(0, 255, (11, 8, 6, 3), dtype=np.uint8)
MEANS = PICTURES.mean(axis=(1, 2), dtype=np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for i, picture in enumerate(PICTURES):
        Pil.fromarray(picture).save(tmp_path / f"{i:02d}.png")
    return tmp_path


def test_every_kind_of_input_gives_the_same(folder: Path) -> None:
    paths = sorted(folder.iterdir())
    for given in (PICTURES, list(PICTURES), iter(PICTURES), folder, str(folder), paths, map(Pil.open, map(str, paths))):
        np.testing.assert_allclose(np.asarray(MeanColour().transform(given)), MEANS, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(MeanColour().transform(paths[0])), MEANS[:1], rtol=1e-6)
    np.testing.assert_allclose(MeanColour().fit_transform(PICTURES), MEANS, rtol=1e-6)


def test_batches_come_in_order_and_do_not_run_ahead() -> None:
    taken = 0

    def endless() -> Any:
        nonlocal taken
        while True:
            taken += 1
            yield PICTURES[taken % 11]

    stream = MeanColour().batches(endless())
    first, second = next(stream), next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert (first.positions, second.positions) == ([0, 1, 2, 3], [4, 5, 6, 7])
    assert taken < 100


def test_a_bad_picture_is_named_and_the_others_described(folder: Path) -> None:
    (folder / "05.png").write_text("x")
    Pil.new("RGB", (4, 1)).save(folder / "07.png")
    batches = list(MeanColour().batches(folder))
    assert [p for batch in batches for p in batch.positions] == [0, 1, 2, 3, 4, 6, 8, 9, 10]
    failures = [failure for batch in batches for failure in batch.failures]
    assert [failure.name for failure in failures] == [str(folder / "05.png"), str(folder / "07.png")]
    assert failures[0].reason.startswith("not a picture")
    assert failures[1].reason == "too small"
    with pytest.raises(FormatError, match=r"05\.png: not a picture"):
        MeanColour().transform(folder)


def test_a_batch_of_only_bad_pictures(tmp_path: Path) -> None:
    for i in range(5):
        (tmp_path / f"{i}.png").touch()
    batches = list(MeanColour().batches(tmp_path))
    assert all(batch.vectors is None for batch in batches)
    assert sum(len(batch.failures) for batch in batches) == 5


def test_no_pictures() -> None:
    with pytest.raises(InputError, match="no pictures"):
        MeanColour().transform([])
    with pytest.raises(InputError, match="expected pictures"):
        MeanColour().transform(3)


def test_pictures_in_memory_are_named_by_position() -> None:
    with pytest.raises(InputError, match="picture 2: expected a picture"):
        MeanColour().transform([PICTURES[0], PICTURES[1], np.zeros((2, 2, 7))])


def test_progress_counts_every_picture(folder: Path) -> None:
    (folder / "05.png").write_text("x")
    seen: list[Any] = []

    class Recorder:
        @contextmanager
        def task(self, label: str, total: int, unit: str) -> Any:
            seen.append((label, total, unit))
            yield seen.append

    with progress.listen(Recorder()):
        list(MeanColour().batches(folder))
    assert seen == [("describing", 11, "images"), 4, 4, 3]


def test_registry() -> None:
    assert describe.describer("gist", colour=True).n_features_out == 1536
    assert [part.name for part in describe.describer("gist+lbp", grid=5)._parts()] == ["gist", "lbp"]
    with pytest.raises(ParameterError, match="unknown descriptor 'sift'; known: bow, cnn"):
        describe.describer("sift")
    with pytest.raises(ParameterError, match="unknown parameter of gist: 'words'"):
        describe.describer("gist", words=3)
    for name in describe.DESCRIPTORS:
        assert describe.descriptor(name).name == name
        assert getattr(describe, describe.DESCRIPTORS[name].__name__) is describe.descriptor(name)
    with pytest.raises(AttributeError):
        describe.SURF  # noqa: B018


def test_learning_descriptors_must_be_fitted(tmp_path: Path) -> None:
    le = describe.describer("le")
    with pytest.raises(NotFittedError):
        le.transform(PICTURES)
    with pytest.raises(NotFittedError):
        le.save(tmp_path / "x")
    with pytest.raises(InputError, match="no pictures to learn from"):
        le.fit([])


def test_saved_describers_come_back(tmp_path: Path) -> None:
    large = np.repeat(np.repeat(PICTURES, 3, axis=1), 3, axis=2)
    for describer in (describe.describer("gist", blocks=2), describe.describer("le+lbp", grid=4).fit(large)):
        describer.save(tmp_path / "model")
        again = describe.load(tmp_path / "model")
        assert again.name == describer.name
        np.testing.assert_array_equal(again.transform(large), describer.transform(large))


def test_loading_what_is_no_describer(tmp_path: Path) -> None:
    from isch import models

    models.write(tmp_path / "hasher", [models.Part("itq", {}, {})])
    with pytest.raises(FormatError, match="expected a describer"):
        describe.load(tmp_path / "hasher")
    with pytest.raises(FileError):
        describe.load(tmp_path / "nothing")


def test_clone_and_feature_names() -> None:
    gist = clone(describe.describer("gist", blocks=2))
    names = gist.get_feature_names_out()
    assert (names[0], len(names)) == ("gist0", gist.n_features_out)


def test_parameters_are_checked() -> None:
    with pytest.raises(ParameterError, match="The 'variant' parameter of GIST"):
        describe.describer("gist", variant="C").transform(PICTURES)


def test_data_frames_for_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    framed = clone(MeanColour().set_output(transform="pandas")).transform(PICTURES)
    assert list(framed.columns) == ["mean0", "mean1", "mean2"]
    np.testing.assert_allclose(framed.to_numpy(), MEANS, rtol=1e-6)
    pipeline = make_pipeline(MeanColour(), StandardScaler()).set_output(transform="pandas")
    assert list(pipeline.fit_transform(PICTURES).columns) == ["mean0", "mean1", "mean2"]
    with config_context(transform_output="pandas"):
        assert isinstance(MeanColour().transform(PICTURES), type(framed))
        assert isinstance(MeanColour().set_output(transform="default").transform(PICTURES), np.ndarray)
    assert isinstance(MeanColour().set_output(transform=None).transform(PICTURES), np.ndarray)
    with pytest.raises(ParameterError, match="unknown output 'excel'; known: default, pandas, polars"):
        MeanColour().set_output(transform="excel")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtra, match="polars is needed for polars output .*pip install polars"):
        MeanColour().set_output(transform="polars").transform(PICTURES)


def test_sparse_vectors_are_no_data_frame() -> None:
    with pytest.raises(InputError, match="pandas output does not take sparse rows"):
        MeanColour().set_output(transform="pandas")._contained(csr_array(MEANS))
