"""Digests of data: any change of a value, a label or a file shows; nothing else does."""

import os
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from isch import features
from isch.evaluate import digest
from isch.evaluate.datasets import Dataset


def dataset(tmp_path: Path) -> Dataset:
    folder = tmp_path / "class"
    folder.mkdir()
    paths = [folder / f"{i}.bin" for i in range(3)]
    for i, path in enumerate(paths):
        path.write_bytes(bytes([i] * 100))
    return Dataset("toy", 3, np.arange(3), images=[str(path) for path in paths])


def test_one_changed_value_shows() -> None:
    rows = np.random.default_rng(0).random((10_000, 3)).astype(np.float32)
    before = digest.of_rows(features.open(rows))
    assert digest.of_rows(features.open(rows.copy())) == before
    rows[4_999, 1] = 0
    assert digest.of_rows(features.open(rows)) != before


def test_sparse_rows_are_told_apart() -> None:
    one, other = csr_array(np.array([[0, 1.0], [0, 0]])), csr_array(np.array([[0, 0], [0, 1.0]]))
    assert digest.of_rows(features.open(one)) != digest.of_rows(features.open(other))


def test_a_changed_file_shows_and_a_touched_one_does_not(tmp_path: Path) -> None:
    data, cache = dataset(tmp_path), tmp_path / "cache"
    before = digest.of_data(data, cache)
    assert digest.of_data(data, cache) == before
    second = tmp_path / "class" / "1.bin"
    os.utime(second, (1, 1))
    assert digest.of_data(data, cache) == before
    second.write_bytes(bytes([9] * 100))
    assert digest.of_data(data, cache) != before


def test_labels_are_data(tmp_path: Path) -> None:
    data = dataset(tmp_path)
    other = Dataset("toy", 3, np.array([0, 0, 1]), images=data.images)
    assert digest.of_data(data, tmp_path) != digest.of_data(other, tmp_path)
