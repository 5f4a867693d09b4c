"""Features given as matrices: features with labels, ann-benchmarks HDF5 files, TEXMEX .fvecs triples."""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isch import features as sources
from isch.errors import FileError, FormatError, InputError, MissingData, require
from isch.evaluate.datasets.base import Dataset, existing, missing
from isch.features import Features, npy
from isch.features.shards import ShardedFeatures


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
    """Features and a file of labels, one a row."""
    matrix = sources.open(features)
    numbers, classes = read_labels(labels)
    if len(numbers) != len(matrix):
        rows = len(matrix)
        raise InputError(f"{labels}: {len(numbers)} labels; {features} has {rows} rows; expected one label a row")
    return Dataset(name, len(matrix), numbers, matrix, classes=classes)


def read_labels(path: Path) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """(integers, names): integers are taken as they are (−1 is a distractor), words are numbered in sorted order."""
    if not path.is_file():
        raise FileError(f"{path}: no such file of labels")
    try:
        if path.suffix == ".npy":
            values = npy.load(path)
        elif path.suffix == ".json":
            values = np.array(json.loads(path.read_text()))
        else:
            values = np.array([line.strip() for line in path.read_text().splitlines() if line.strip()])
    except ValueError as error:
        raise FormatError(f"{path}: not a readable file of labels ({error})") from error
    if values.ndim != 1 or not values.size:
        raise FormatError(f"{path}: expected a list of labels; got shape {values.shape}")
    if values.dtype.kind == "U" and all(v.lstrip("-").isdigit() for v in values):
        values = values.astype(np.int64)
    if values.dtype.kind in "iu":
        return values.astype(np.int64), ()
    if values.dtype.kind == "f" and (values == np.round(values)).all():
        return values.astype(np.int64), ()
    names, numbers = np.unique(values.astype(str), return_inverse=True)
    return numbers.astype(np.int64), tuple(map(str, names))


def load_ann(path: Path) -> Dataset:
    """An ann-benchmarks HDF5 file: train, test, and the true neighbours of each test vector."""
    if not path.is_file():
        files = ["sift-128-euclidean.hdf5"] if path.suffix == "" else [path.name]
        raise missing(path.stem, path.parent, files, "it can be downloaded from https://ann-benchmarks.com")
    h5py = require("h5py", "formats")
    try:
        with h5py.File(path, "r") as file:
            lacking = [part for part in ("train", "test", "neighbors") if part not in file]
            neighbours = None if lacking else np.asarray(file["neighbors"], np.int64)
    except OSError as error:
        raise FormatError(f"{path}: not a readable HDF5 file ({error})") from error
    if neighbours is None:
        raise FormatError(f"{path}: expected the datasets train, test and neighbors; {', '.join(lacking)} missing")
    return _with_neighbours(
        path.stem, sources.open(f"{path}::train"), sources.open(f"{path}::test"), neighbours, str(path)
    )


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
    return _with_neighbours(folder.name, base, query, np.asarray(truth.read(0, len(truth)), np.int64), str(folder))


def _with_neighbours(
    name: str, base: Features, queries: Features, neighbours: NDArray[np.int64], where: str
) -> Dataset:
    if len(neighbours) != len(queries):
        raise FormatError(f"{where}: true neighbours of {len(neighbours)} queries; there are {len(queries)} queries")
    if neighbours.min() < 0 or neighbours.max() >= len(base):
        raise FormatError(f"{where}: a true neighbour outside the {len(base)} rows of the database")
    both = ShardedFeatures([base, queries], where)
    rows = np.arange(len(base), len(both))
    return Dataset(name, len(both), features=both, queries=rows, neighbours=neighbours)
