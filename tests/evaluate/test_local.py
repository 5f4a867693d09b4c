"""VLAD of .siftgeo files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isch.errors import ParameterError
from isch.evaluate.datasets import load
from isch.evaluate.datasets.holidays import SIFTGEO
from isch.evaluate.described import features_of
from isch.evaluate.local import LocalVLAD, local_vlad
from isch.evaluate.prepare import DataSpec


def write(path: Path, n: int, rng: np.random.Generator) -> None:
    rows = np.zeros(n, SIFTGEO)
    rows["length"], rows["values"] = 128, rng.integers(0, 256, (n, 128))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(rows.tobytes())


def test_holidays_from_descriptor_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for number, n in ((100000, 30), (100001, 20), (100100, 0)):
        write(tmp_path / f"siftgeo/{number}.siftgeo", n, rng)
    data = load("holidays", tmp_path, descriptors=True)
    spec = DataSpec.of({"dataset": "holidays", "descriptor": "vlad", "descriptor_options": {"n_words": 4}})
    vectors = features_of(data, spec, tmp_path / "cache")
    assert vectors.shape == (3, 512)
    norms = np.linalg.norm(np.asarray(vectors.read(0, 3)), axis=1)
    np.testing.assert_allclose(norms, [1, 1, 0], atol=1e-5)
    assert data.local is not None
    (alone,) = LocalVLAD(data.local, n_words=4).blocks(data.local)
    np.testing.assert_array_equal(alone, np.asarray(vectors.read(0, 3)))


@pytest.mark.parametrize("options", [{"step": 4}, {"n_words": 0}, {"n_words": "4"}, {"n_words": True}, {"paths": 1}])
def test_options_of_an_experiment_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="vlad"):
        local_vlad([], options)
