"""Features of an experiment: computed once, in pieces, and gone on with after an interruption."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import issparse

from isch.describe import GIST, LLC
from isch.describe.base import Describer
from isch.errors import InputError
from isch.evaluate.datasets import Dataset
from isch.evaluate.described import features_of
from isch.evaluate.prepare import DataSpec
from isch.features import dense
from isch.features.write import Writer

PICTURES = np.random.default_rng(0).integers(0, 256, (150, 40, 40, 3), dtype=np.uint8)
DATA = Dataset("toy", 150, np.arange(150) % 3, images=PICTURES)


def spec(descriptor: str, **options: Any) -> DataSpec:
    return DataSpec.of({"dataset": "folders", "descriptor": descriptor, "descriptor_options": options})


def test_features_are_those_of_the_descriptor_and_computed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = features_of(DATA, spec("gist"), tmp_path)
    np.testing.assert_array_equal(made.read(0, 150), GIST().transform(PICTURES))
    monkeypatch.setattr(Describer, "batches", None)
    np.testing.assert_array_equal(features_of(DATA, spec("gist"), tmp_path).read(0, 150), made.read(0, 150))


def test_sparse_features_stay_sparse(tmp_path: Path) -> None:
    made = features_of(DATA, spec("llc", n_words=8, step=4), tmp_path).read(0, 150)
    assert issparse(made)
    wanted = LLC(n_words=8, step=4).fit(PICTURES).transform(PICTURES)
    np.testing.assert_array_equal(made.toarray(), wanted.toarray())


def test_half_precision_rounds_dense_features_and_is_kept_apart(tmp_path: Path) -> None:
    for descriptor, options, kind in (("gist", {}, np.float16), ("llc", {"n_words": 8, "step": 4}, np.float32)):
        wanted = spec(descriptor, **options)
        half = features_of(DATA, replace(wanted, precision="half"), tmp_path)
        whole = features_of(DATA, wanted, tmp_path).read(0, 150)
        assert half.dtype == kind
        np.testing.assert_array_equal(dense(half.read(0, 150)), dense(whole).astype(kind).astype(np.float32))


def test_interrupted_work_goes_on_without_learning_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = features_of(DATA, spec("vlad", n_words=4), tmp_path / "whole").read(0, 150)
    add, calls = Writer.add, []

    def interrupted(self: Writer, *arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        add(self, *arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Writer, "add", interrupted)
        features_of(DATA, spec("vlad", n_words=4), tmp_path)
    monkeypatch.setattr(Describer, "fit", None)
    np.testing.assert_allclose(features_of(DATA, spec("vlad", n_words=4), tmp_path).read(0, 150), whole, atol=1e-6)
    assert not list(tmp_path.glob("*.describer"))


def test_pictures_need_a_descriptor(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds images and no features; the experiment must name a descriptor"):
        features_of(DATA, DataSpec.of({"dataset": "folders"}), tmp_path)
