"""Fingerprints: any change of the data or of the code that makes the values shows; nothing else does."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from isch import features
from isch.evaluate import fingerprint, peers
from isch.evaluate.datasets import Dataset

PACKAGE = fingerprint.PACKAGE


def dataset(tmp_path: Path) -> Dataset:
    folder = tmp_path / "class"
    folder.mkdir()
    paths = [folder / f"{i}.bin" for i in range(3)]
    for i, path in enumerate(paths):
        path.write_bytes(bytes([i] * 100))
    return Dataset("toy", 3, np.arange(3), images=[str(path) for path in paths])


def test_methods_are_told_apart_by_their_code() -> None:
    prints = {name: fingerprint.of_code(name) for name in ("isch", "itq", "lsh", "cbe")}
    assert len(set(prints.values())) == 4
    assert fingerprint.of_code("2-norm") == ""
    assert prints["itq"] == fingerprint.of_code("itq")


def test_peers_are_told_apart_by_their_classes() -> None:
    prints = {name: fingerprint.of_code(name, classes=peers.classes(name)) for name in peers.PEERS}
    assert prints["faiss-itq"] == prints["faiss-lsh"]  # one class makes both
    assert len(set(prints.values())) == len(prints) - 1
    assert "" not in prints.values()


def test_a_descriptor_is_a_part_of_the_code() -> None:
    prints = [fingerprint.of_code("itq", d) for d in (None, "gist", "le", "le+lbp")]
    assert len(set(prints)) == 4
    assert fingerprint.of_code("2-norm", "gist") == fingerprint.of_code(descriptor="gist") != ""


@pytest.mark.parametrize(
    ("module", "change", "seen"),
    [
        ("describe/weights.py", "\nCHANGED = 1\n", True),  # imported by a module that the CNN imports
        ("describe/weights.py", "\n# a comment\n", False),
        ("describe/gist.py", "\nCHANGED = 1\n", False),
    ],
)
def test_a_change_shows_where_it_matters(
    module: str, change: str, seen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(PACKAGE, tmp_path / "isch", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(fingerprint, "PACKAGE", tmp_path / "isch")
    of_code = fingerprint.of_code.__wrapped__  # a process remembers the code it began with
    before = of_code(descriptor="cnn")
    with (tmp_path / "isch" / module).open("a") as file:
        file.write(change)
    assert (of_code(descriptor="cnn") != before) == seen


def test_one_changed_value_shows() -> None:
    rows = np.random.default_rng(0).random((10_000, 3)).astype(np.float32)
    before = fingerprint.of_rows(features.open(rows))
    assert fingerprint.of_rows(features.open(rows.copy())) == before
    rows[4_999, 1] = 0
    assert fingerprint.of_rows(features.open(rows)) != before


def test_sparse_rows_are_told_apart() -> None:
    one, other = csr_array(np.array([[0, 1.0], [0, 0]])), csr_array(np.array([[0, 0], [0, 1.0]]))
    assert fingerprint.of_rows(features.open(one)) != fingerprint.of_rows(features.open(other))


def test_a_changed_file_shows_and_a_touched_one_does_not(tmp_path: Path) -> None:
    data, cache = dataset(tmp_path), tmp_path / "cache"
    before = fingerprint.of_data(data, cache)
    assert fingerprint.of_data(data, cache) == before
    second = tmp_path / "class" / "1.bin"
    os.utime(second, (1, 1))
    assert fingerprint.of_data(data, cache) == before
    second.write_bytes(bytes([9] * 100))
    assert fingerprint.of_data(data, cache) != before


def test_labels_are_data(tmp_path: Path) -> None:
    data = dataset(tmp_path)
    other = Dataset("toy", 3, np.array([0, 0, 1]), images=data.images)
    assert fingerprint.of_data(data, tmp_path) != fingerprint.of_data(other, tmp_path)
