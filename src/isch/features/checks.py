"""What every feature matrix must be: a matrix of real numbers, finite, within the range of single precision."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.errors import InputError
from isch.features.base import Block
from isch.lazy import issparse

LARGEST = float(np.finfo(np.float32).max)
COLUMNS = 1 << 27  # a header with more is damaged or crafted


def finite(block: Block) -> bool:
    """Whether every value is finite and fits single precision. A sum usually tells; if not, each value is checked."""
    values: NDArray[Any] = block.data if issparse(block) else np.asarray(block)
    if not np.issubdtype(values.dtype, np.floating):
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        if values.dtype.itemsize <= 4:
            return bool(np.isfinite(values.sum()) or np.isfinite(values).all())
        return bool(np.vdot(values, values) <= LARGEST) or not beyond(values).any()


def beyond(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which values are NaN, infinite, or do not fit single precision."""
    with np.errstate(invalid="ignore"):
        within: NDArray[np.bool_] = np.abs(values) <= LARGEST
    return ~within


def check_matrix(shape: tuple[int, ...], dtype: np.dtype[Any], where: str) -> tuple[int, int]:
    """Refuse what is not a matrix of real numbers with at least one row and column."""
    if len(shape) != 2:
        raise InputError(f"{where}: expected a matrix (rows, columns); got shape {tuple(shape)}")
    if not (np.issubdtype(dtype, np.floating) or np.issubdtype(dtype, np.integer) or dtype == np.bool_):
        raise InputError(f"{where}: expected real numbers; got dtype {dtype}")
    if any(size != size for size in shape):  # a Dask array that does not know how many rows it has
        raise InputError(f"{where}: expected a known number of rows; got shape {tuple(shape)}")
    if min(shape) < 1:
        raise InputError(f"{where}: expected at least one row and one column; got shape {tuple(shape)}")
    if shape[1] > COLUMNS:
        raise InputError(f"{where}: expected at most {COLUMNS:,} columns; got {shape[1]:,}")
    return int(shape[0]), int(shape[1])


def check_memory(n_bytes: int, where: str) -> None:
    """Refuse what must be in memory in one piece and is larger than the memory of this computer."""
    memory = physical_memory()
    if memory and n_bytes > memory:
        raise InputError(
            f"{where}: {n_bytes / 2**30:,.1f} GiB must be in memory at once; "
            f"expected at most the {memory / 2**30:,.1f} GiB that this computer has"
        )


def physical_memory() -> int | None:
    """Bytes of memory of this computer, or None if the system does not tell (then allocation itself must fail)."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
