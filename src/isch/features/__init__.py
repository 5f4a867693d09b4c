"""Feature matrices wherever they lie: ``open`` gives one interface to arrays, files and folders of files."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse

from isch.errors import FileError, InputError, unknown
from isch.features.arrays import ArrayFeatures, DaskFeatures, open_npy, open_npz
from isch.features.base import Block, Features, Subset, check_finite, dense, finite, stack
from isch.features.chunked import open_feather, open_hdf5, open_parquet, open_zarr
from isch.features.shards import ShardedFeatures, open_folder
from isch.features.vecs import open_vecs

__all__ = ["OPENERS", "Block", "Features", "Subset", "check_finite", "dense", "finite", "open", "stack"]

OPENERS: dict[str, Callable[[Path, str | None], Features]] = {
    ".npy": open_npy,
    ".npz": open_npz,
    ".h5": open_hdf5,
    ".hdf5": open_hdf5,
    ".zarr": open_zarr,
    ".parquet": open_parquet,
    ".feather": open_feather,
    ".fvecs": open_vecs,
    ".bvecs": open_vecs,
    ".ivecs": open_vecs,
}


def open(source: Any) -> Features:
    """Open an array, a SciPy sparse matrix, a Dask array, or a path.

    A path is a file (``features.h5::name`` chooses one of several matrices inside) or a folder of such files.
    """
    if isinstance(source, Features):
        return source
    if isinstance(source, str | os.PathLike):
        return _open_path(os.fspath(source))
    if issparse(source):
        rows: Any = source
        return ArrayFeatures(rows.tocsr(), "the sparse matrix")
    if type(source).__module__.partition(".")[0] == "dask":
        return DaskFeatures(source)
    try:
        array = np.asarray(source)
    except ValueError as error:
        raise InputError(f"expected a matrix of numbers; got a ragged {type(source).__name__}") from error
    return ArrayFeatures(array)


def _open_path(text: str) -> Features:
    name, _, member = text.partition("::")
    path = Path(name)
    if not path.exists():
        raise FileError(f"{path}: no such file or folder")
    if path.suffix in OPENERS:
        if path.is_file() and path.stat().st_size == 0:
            raise FileError(f"{path}: the file is empty")
        try:
            return OPENERS[path.suffix](path, member or None)
        except OSError as error:
            raise error if isinstance(error, FileError) else FileError(f"{path}: {error.strerror or error}") from error
    if path.is_dir():
        return ShardedFeatures([_open_path(str(p)) for p in open_folder(path, dict(OPENERS))], str(path))
    raise unknown(f"feature format of {path}:", path.suffix or "(none)", OPENERS)
