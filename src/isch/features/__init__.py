"""Feature matrices: ``open`` gives arrays, files and folders of files the same interface."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from isch.errors import FileError, InputError
from isch.features.arrays import ArrayFeatures, DaskFeatures
from isch.features.base import Block, Features, Span, Subset, dense, stack
from isch.features.checks import beyond, finite
from isch.features.file import FileFeatures, in_our_words
from isch.features.formats import SUFFIXES
from isch.features.shards import OPEN, ShardedFeatures, shard_paths
from isch.features.sparse import check_indices, checked
from isch.files import printable
from isch.lazy import issparse

__all__ = [
    "SUFFIXES",
    "Block",
    "Features",
    "Span",
    "Subset",
    "beyond",
    "check_indices",
    "dense",
    "finite",
    "open",
    "stack",
]


def open(source: Any) -> Features:
    """Open a feature matrix.

    Parameters
    ----------
    source : array, scipy.sparse matrix, dask array, path, or Features
        A path is a file (``features.h5::name`` chooses one of several matrices inside) or a folder of such files.

    Returns
    -------
    Features
        The matrix, to be read in blocks.

    Raises
    ------
    FileError
        The file does not exist, is damaged, or is not in the format of its suffix.
    InputError
        The input is not a matrix of real numbers.
    """
    if isinstance(source, Features):
        return source
    if isinstance(source, str | os.PathLike):
        name, _, member = os.fspath(source).partition("::")
        return _open_path(Path(name), member or None)
    if issparse(source):
        return ArrayFeatures(checked(source, "the sparse matrix"), "the sparse matrix")
    if type(source).__module__.partition(".")[0] == "dask":
        return DaskFeatures(source)
    try:
        array = np.asarray(source)
    except ValueError as error:
        raise InputError(f"expected a matrix of numbers; got a ragged {type(source).__name__}") from error
    return ArrayFeatures(array)


def _open_path(path: Path, member: str | None) -> Features:
    if not os.path.lexists(path):
        raise FileError(f"{printable(path)}: no such file or folder")
    if path.is_dir() and path.suffix not in SUFFIXES:
        return _open_folder(path)
    return FileFeatures(path, member)


def _open_folder(path: Path) -> Features:
    with in_our_words(printable(path), "folder of feature files"):
        paths, shards = shard_paths(path), list[Features]()
    for shard in paths:
        shards.append(FileFeatures(shard))
        if len(paths) > OPEN:
            shards[-1].close()
    return ShardedFeatures(shards, printable(path))
