"""Feature matrices that are already objects: NumPy, SciPy sparse, Dask, and .npy / .npz files mapped or loaded."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, load_npz

from isch.errors import FormatError
from isch.features.base import Block, Features, SlabFeatures, check_matrix


class ArrayFeatures(Features):
    """A NumPy array (memory-mapped or not) or a SciPy CSR matrix."""

    def __init__(self, array: Block, where: str = "the array", names: Sequence[str] | None = None) -> None:
        self.shape = check_matrix(array.shape, array.dtype, where)
        self.dtype = array.dtype
        self.where = where
        self.names = names
        self._array = array

    def read(self, start: int, stop: int) -> Block:
        return self._array[start:stop]

    def take(self, rows: NDArray[np.intp]) -> Block:
        return self._array[rows]


class DaskFeatures(SlabFeatures):
    """A Dask array, computed slab by slab on whatever scheduler is active."""

    def __init__(self, array: Any, where: str = "the Dask array") -> None:
        self.shape = check_matrix(array.shape, array.dtype, where)
        self.dtype = array.dtype
        self.where = where
        self._array = array

    def read(self, start: int, stop: int) -> Block:
        return np.asarray(self._array[start:stop].compute())


def open_npy(path: Path, _: str | None) -> Features:
    """A .npy file, memory-mapped; ``x.names.npy`` beside ``x.npy`` names its rows."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        beside = path.with_suffix(".names.npy")
        names = np.load(beside, allow_pickle=False) if beside.is_file() else None
    except (ValueError, EOFError) as error:
        raise FormatError(f"{path}: not a readable .npy file ({error})") from error
    fitting = names is not None and array.ndim and len(names) == len(array)
    return ArrayFeatures(array, str(path), names if fitting else None)


def open_npz(path: Path, member: str | None) -> Features:
    """A .npz file: a SciPy sparse matrix, or one array of several."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            if "indptr" in archive.files:
                names = archive["names"] if "names" in archive.files else None
                return ArrayFeatures(csr_array(load_npz(path)), str(path), names)
            name = choose(member, [n for n in archive.files if archive[n].ndim == 2], path)
            return ArrayFeatures(archive[name], f"{path}::{name}")
    except (ValueError, EOFError, KeyError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{path}: not a readable .npz file ({error})") from error


def choose(member: str | None, candidates: list[str], path: Path) -> str:
    """The matrix asked for by ``path::member``; else the only one, or the one called features, train or X."""
    if member is not None:
        if member not in candidates:
            raise FormatError(f"{path}: no matrix called {member!r}; it holds {', '.join(candidates) or 'none'}")
        return member
    preferred = [n for n in ("features", "train", "X") if n in candidates]
    if len(candidates) != 1 and not preferred:
        found = ", ".join(candidates) or "none"
        raise FormatError(f"{path}: expected one matrix, or {path.name}::NAME to choose; it holds {found}")
    return preferred[0] if preferred else candidates[0]
