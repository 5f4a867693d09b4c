"""Hashes of data: any change of a row, a picture or a label changes them; names and dates of files do not."""

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from isch import progress
from isch.evaluate.datasets import Dataset
from isch.features import Features
from isch.files import replacing
from isch.lazy import issparse

ROWS_AT_ONCE = 4096


def of_data(dataset: Dataset, folder: Path) -> str:
    """A hash of all that a dataset holds: labels, rows, pictures, files; hashes of files are kept in ``folder``."""
    digest = hashlib.sha256(str(dataset.n_items).encode())
    for array in (dataset.labels, dataset.queries, dataset.neighbours):
        digest.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
    if dataset.features is not None:
        digest.update(of_rows(dataset.features).encode())
    for items in (dataset.images, dataset.local):
        if items is not None:
            digest.update(_of_items(items, folder).encode())
    return digest.hexdigest()[:16]


def of_rows(features: Features) -> str:
    """A hash of every value of a feature matrix."""
    digest = hashlib.sha256(f"{features.shape} {features.dtype}".encode())
    with progress.task("checking the data", len(features), "rows") as advance:
        for _, block in features.batches(ROWS_AT_ONCE):
            arrays = (block.indptr, block.indices, block.data) if issparse(block) else (block,)
            for array in arrays:
                digest.update(np.ascontiguousarray(array).data)
            advance(block.shape[0])
    return digest.hexdigest()


def _of_items(items: Iterable[Any], folder: Path) -> str:
    """A hash of pictures in memory and of the content of files."""
    digest, paths = hashlib.sha256(), []
    for item in items:
        if isinstance(item, str | os.PathLike):
            paths.append(Path(item))
        else:
            digest.update(np.ascontiguousarray(item).data)
    digest.update(_of_files(paths, folder).encode())
    return digest.hexdigest()


def _of_files(paths: Sequence[Path], folder: Path) -> str:
    """A hash of the names and contents of files; they are read again only when a size or a date has changed."""
    states = [(str(path.absolute()), path.stat()) for path in paths]
    stamp = hashlib.sha256(repr([(name, s.st_size, s.st_mtime_ns) for name, s in states]).encode()).hexdigest()[:16]
    kept = folder / f"files-{stamp}.txt"
    if kept.exists():
        return kept.read_text()
    digest = hashlib.sha256()
    with progress.task("checking the data", len(paths), "files") as advance:
        for path in paths:
            digest.update("/".join(path.parts[-2:]).encode("utf-8", "surrogateescape"))
            digest.update(path.read_bytes())
            advance(1)
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(kept) as temporary:
        temporary.write_text(digest.hexdigest())
    return digest.hexdigest()
