"""Features given as matrices: features with labels, ann-benchmarks HDF5 files, TEXMEX .fvecs triples."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch import features as sources
from isch.errors import FormatError, InputError, MissingData
from isch.evaluate.datasets.base import Dataset, existing, missing
from isch.features import Features, npy
from isch.features.file import in_our_words
from isch.features.shards import ShardedFeatures
from isch.files import content, printable

LARGEST_LABELS = 1 << 30  # bytes of a text file of labels
INTEGER = re.compile(r"-?[0-9]{1,15}")


def load_features(folder: Path, name: str | None = None) -> Dataset:
    """A folder with features.* (any format of ``isch.features.open``) and labels.npy, .txt, .csv or .json."""
    matrix = existing([folder / f"features{suffix}" for suffix in sources.SUFFIXES])
    labels = existing([folder / f"labels{suffix}" for suffix in (".npy", ".txt", ".csv", ".json")])
    if matrix is None or labels is None:
        lacking = ["features.npy (or .h5, .parquet, …)"] * (matrix is None)
        lacking += ["labels.npy (or .txt)"] * (labels is None)
        raise MissingData(f"{folder}: missing {' and '.join(lacking)}")
    return labelled(matrix, labels, name or folder.name)


def labelled(features: Path, labels: Path, name: str) -> Dataset:
    """Features and a file of labels, one per row."""
    matrix = sources.open(features)
    numbers, classes = read_labels(labels)
    if len(numbers) != len(matrix):
        rows = len(matrix)
        raise InputError(f"{labels}: {len(numbers)} labels; {features} has {rows} rows; expected one label per row")
    return Dataset(name, len(matrix), numbers, matrix, classes=classes)


def read_labels(path: Path) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """(integers, names): integers are taken as they are (−1 is a distractor), words are numbered in sorted order.

    Parameters
    ----------
    path : Path
        A .npy file, a JSON list, or a text file with one label per line.

    Raises
    ------
    FormatError
        It is none of these, or its values are neither whole numbers nor words.
    """
    with in_our_words(printable(path), "file of labels"):
        values = _label_values(path)
    if values.ndim != 1 or not values.size:
        raise FormatError(f"{path}: expected a list of labels; got shape {values.shape}")
    if values.dtype.kind == "U" and all(INTEGER.fullmatch(value) for value in values):
        values = values.astype(np.int64)
    if values.dtype.kind == "U":
        names, numbers = np.unique(values, return_inverse=True)
        return numbers.astype(np.int64), tuple(map(str, names))
    if values.dtype.kind not in "biuf" or not (np.abs(values.astype(np.float64)) < 2**53).all():
        raise FormatError(f"{path}: expected whole numbers or words as labels; got values of type {values.dtype}")
    if (values != np.round(values)).any():
        raise FormatError(f"{path}: expected whole numbers or words as labels; got numbers with fractions")
    return values.astype(np.int64), ()


def _label_values(path: Path) -> NDArray[Any]:
    if path.suffix == ".npy":
        return np.array(npy.mapped(path))
    text = content(path, LARGEST_LABELS, "a file of labels").decode("utf-8")
    if path.suffix == ".json":
        return np.array(json.loads(text))
    return np.array([line.strip() for line in text.splitlines() if line.strip()])


def load_ann(path: Path) -> Dataset:
    """An ann-benchmarks HDF5 file: train, test, and the true neighbours of each test vector."""
    if not path.is_file():
        files = ["sift-128-euclidean.hdf5"] if path.suffix == "" else [path.name]
        raise missing(path.stem, path.parent, files, "it can be downloaded from https://ann-benchmarks.com")
    base, queries, neighbours = (sources.open(f"{path}::{part}") for part in ("train", "test", "neighbors"))
    return _with_neighbours(path.stem, base, queries, neighbours, str(path))


def load_texmex(folder: Path) -> Dataset:
    """A TEXMEX folder: NAME_base.fvecs or .bvecs, NAME_query.*, and NAME_groundtruth.ivecs."""
    found: dict[str, Path | None] = {
        part: existing(sorted(folder.glob(f"*_{part}.*vecs"))) for part in ("base", "query", "groundtruth")
    }
    lacking = [f"{folder.name}_{part}" for part, path in found.items() if path is None]
    if lacking:
        raise missing(
            folder.name,
            folder,
            [f"{name}.{'ivecs' if name.endswith('groundtruth') else 'fvecs'}" for name in lacking],
            "it can be downloaded from http://corpus-texmex.irisa.fr",
        )
    base, query, truth = (sources.open(str(found[part])) for part in ("base", "query", "groundtruth"))
    return _with_neighbours(folder.name, base, query, truth, str(folder))


def _with_neighbours(name: str, base: Features, queries: Features, truth: Features, where: str) -> Dataset:
    """Base and queries in one, with the rows of the base that are nearest to each query."""
    if not np.issubdtype(truth.dtype, np.integer):
        raise FormatError(f"{where}: expected true neighbours as row numbers; got values of type {truth.dtype}")
    neighbours = np.asarray(truth.read(0, len(truth)), np.int64)
    if len(neighbours) != len(queries):
        raise FormatError(f"{where}: true neighbours of {len(neighbours)} queries; there are {len(queries)} queries")
    if neighbours.min() < 0 or neighbours.max() >= len(base):
        raise FormatError(f"{where}: a true neighbour outside the {len(base)} rows of the database")
    both = ShardedFeatures([base, queries], where)
    rows = np.arange(len(base), len(both))
    return Dataset(name, len(both), features=both, queries=rows, neighbours=neighbours)
