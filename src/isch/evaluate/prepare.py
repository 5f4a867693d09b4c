"""From a description of data to matrices: queries and database of a split."""

import hashlib
import os
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from isch import describe
from isch import features as sources
from isch.errors import InputError, unknown
from isch.evaluate import datasets, digest
from isch.evaluate.datasets import Dataset
from isch.evaluate.rankers import (
    EuclideanRanker,
    SparseEuclideanRanker,
    SpooledEuclideanRanker,
    squares,
    true_neighbours,
)
from isch.evaluate.ranking import Ranker, Truth
from isch.evaluate.splits import SplitRule, split
from isch.features import Block, Features, dense
from isch.features.arrays import ArrayFeatures
from isch.features.base import Subset
from isch.files import replacing

MEMORY_LIMIT = 4 << 30  # a larger database, in single precision, stays on disk and is streamed
PRECISIONS = ("single", "half")  # of dense features that are computed; sparse ones are always single
NORMALISATIONS = ("none", "l2", "centre-l2")


def cache_home() -> Path:
    """Where features and runs in progress are kept: $ISCH_CACHE, else .cache/isch/features in the home folder."""
    given = os.environ.get("ISCH_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "isch" / "features"


@dataclass(frozen=True)
class DataSpec:
    """Which items, how they are described, how the vectors are scaled."""

    dataset: str
    path: str | None
    options: dict[str, Any]
    descriptor: str | None
    descriptor_options: dict[str, Any]
    precision: str
    normalise: str

    @classmethod
    def of(cls, table: dict[str, Any]) -> "DataSpec":
        """From the [data] table of an experiment."""
        fields: dict[str, Any] = {
            "path": None,
            "options": {},
            "descriptor": None,
            "descriptor_options": {},
            "precision": "single",
            "normalise": "none",
        }
        for key in table:
            if key not in {"dataset", *fields}:
                raise unknown("key of [data]:", key, ["dataset", *fields])
        _check_types(table)
        if "dataset" not in table:
            raise InputError(f"[data] needs a dataset; known: {', '.join([*datasets.DATASETS, *datasets.KINDS])}")
        spec = cls(**(fields | table))
        for part in spec.descriptor.split("+") if spec.descriptor else ():
            if part not in describe.DESCRIPTORS:
                raise unknown("descriptor", part, describe.DESCRIPTORS)
        if spec.normalise not in NORMALISATIONS:
            raise unknown("normalisation", spec.normalise, NORMALISATIONS)
        if spec.precision not in PRECISIONS:
            raise unknown("precision", spec.precision, PRECISIONS)
        return spec

    def load(self) -> Dataset:
        """The dataset; features are not computed yet."""
        return datasets.loaded(self.dataset, self.path, self.options)


def _check_types(table: dict[str, Any]) -> None:
    for key, value in table.items():
        kind, word = (dict, "a table") if key.endswith("options") else (str, "text")
        if not isinstance(value, kind):
            raise InputError(f"[data]: {key!r} must be {word}; got {value!r}")


@dataclass(frozen=True)
class Material:
    """One split of the data: the database, which methods learn from and search, and the queries."""

    database: Features
    queries: NDArray[np.float32] | csr_array
    truth: Truth
    spool: Path  # a folder for what does not fit in memory

    def euclidean(self) -> Ranker:
        """Exhaustive ranking by the 2-norm."""
        if not isinstance(self.database, ArrayFeatures):
            return SpooledEuclideanRanker(dense(self.queries), self.database, self.spool)
        items = self.database.read(0, len(self.database))
        if issparse(items):
            return SparseEuclideanRanker(csr_array(self.queries), items)
        return EuclideanRanker(dense(self.queries), dense(items))


def material(
    dataset: Dataset, features: Features, rule: SplitRule, normalise: str, seed: int, n_neighbours: int, spool: Path
) -> Material:
    """The split of one seed, normalised, with ``n_neighbours`` true neighbours per query (none if 0)."""
    if len(features) != dataset.n_items:
        raise InputError(f"{dataset.name}: {len(features)} feature vectors for {dataset.n_items} items")
    parts = split(dataset, rule, seed)
    database: Features = Subset(features, parts.database)
    queries = features.take(parts.queries)
    size = database.shape[0] * database.shape[1] * 4
    if size <= MEMORY_LIMIT or issparse(queries):
        database, queries = _normalised(database.read(0, len(database)), queries, normalise)
    elif normalise != "none":
        raise InputError(
            f"{dataset.name}: {size >> 30} GiB of features are streamed and cannot be normalised here; "
            f'store them normalised and use normalise = "none"'
        )
    labels = dataset.labels
    truth = Truth(
        None if labels is None else labels[parts.queries],
        None if labels is None else labels[parts.database],
        dataset.neighbours,
    )
    ready = Material(database, queries, truth, spool)
    if n_neighbours and truth.neighbours is None:
        return replace(ready, truth=replace(truth, neighbours=_neighbours(ready, n_neighbours, spool)))
    return ready


def _neighbours(ready: Material, n: int, cache: Path) -> NDArray[np.int64]:
    """The true neighbours of a split, found once and kept."""
    made_of = f"{digest.of_rows(ready.database)} {digest.of_rows(sources.open(ready.queries))} {n}"
    path = cache / f"neighbours-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.npy"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        found = true_neighbours(ready.euclidean(), n)
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.save(file, found)
    return np.asarray(np.load(path), np.int64)


def _normalised(database: Block, queries: Block, how: str) -> tuple[Features, Any]:
    """Both scaled in the same way; the mean for centring is that of the database alone."""
    if issparse(database):
        if how == "centre-l2":
            raise InputError('sparse features cannot be centred without filling them; use normalise = "l2"')
        scaled = [csr_array(_unit_sparse(part) if how == "l2" else part) for part in (database, queries)]
        return sources.open(scaled[0]), scaled[1]
    items, wanted = np.array(database, np.float32), np.array(queries, np.float32)
    if how == "centre-l2":
        mean = items.mean(axis=0, dtype=np.float64).astype(np.float32)
        items -= mean
        wanted -= mean
    if how != "none":
        for part in (items, wanted):
            part /= np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-12)
    return sources.open(items), wanted


def _unit_sparse(matrix: Any) -> Any:
    """The rows at length one, with indices in common: there may be no room for further ones."""
    scales, values = 1 / np.maximum(np.sqrt(squares(matrix)), 1e-12), np.empty(matrix.nnz, np.float32)
    for scale, (start, stop) in zip(scales, pairwise(matrix.indptr), strict=True):
        np.multiply(matrix.data[start:stop], scale, out=values[start:stop], casting="same_kind")
    return csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)
