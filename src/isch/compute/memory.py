"""A bound on memory: arrays that would take a large share of it lie in files that vanish with their array.

``with memory.bounded("4GB"): …`` bounds what is done inside. The bound says where arrays lie, never what is computed,
so results do not depend on it.
"""

import math
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.errors import FileError, ParameterError
from isch.features.checks import physical_memory

SHARE = 8  # an array that takes more than an eighth of a bound that was asked for lies in a file
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d*)?)\s*([KMGT]I?)?B?", re.IGNORECASE)
_INFO, _GROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup/memory.max")

_bound: ContextVar[int | None] = ContextVar("isch_memory", default=None)


@contextmanager
def bounded(size: str | int | None) -> Iterator[int]:
    """The memory that work inside this block may take, in bytes.

    Parameters
    ----------
    size : str, int or None
        "4GB", "500 MiB", or bytes. None keeps the bound that holds around, or else is half of the memory that is free.

    Raises
    ------
    ParameterError
        The text is not a size.
    """
    token = _bound.set(_bound.get() if size is None else n_bytes(size))
    try:
        yield bound()
    finally:
        _bound.reset(token)


def bound() -> int:
    """The bound that holds now, in bytes."""
    return _bound.get() or max(1, free() // 2)


def n_bytes(size: str | int) -> int:
    """The number of bytes that "4GB" or a whole number says."""
    match = _SIZE.fullmatch(str(size).strip())
    value = float(match[1]) * UNITS[(match[2] or "").upper()] if match else 0
    if not 1 <= value < 2**63:
        raise ParameterError(f"memory must be a size such as 4GB or 500MB; got {size!r}")
    return int(value)


def readable(size: float) -> str:
    """A number of bytes as people say it: 3.2 GB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.0f} TB"


def free() -> int:
    """Bytes of memory that are free, as far as the system says."""
    found = [physical_memory() or 2**33]
    with suppress(OSError, IndexError):  # where the system says it another way
        found.append(1024 * int(re.findall(r"MemAvailable:\s+(\d+) kB", _INFO.read_text())[0]))
    with suppress(OSError, ValueError):  # where no limit is set for this group of processes
        found.append(int(_GROUP.read_text()))
    return min(found)


def empty(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """An array of anything: in memory, or in a file if it takes more than a share of the bound.

    Raises
    ------
    FileError
        It needs a file, and the disk has no room for it.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    return np.empty(shape, dtype) if fits(size) else _in_a_file(shape, dtype, size)


def zeros(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """As ``empty``, all zeros."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    return np.zeros(shape, dtype) if fits(size) else _in_a_file(shape, dtype, size)


def fits(size: int) -> bool:
    """Whether an array of so many bytes lies in memory."""
    asked = _bound.get()
    return size <= (bound() // 2 if asked is None else asked // SHARE)


def _in_a_file(shape: tuple[int, ...], dtype: Any, size: int) -> NDArray[Any]:
    """An array in a file without a name, which is gone with its last user, also a killed one."""
    folder = tempfile.gettempdir()
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)  # else a full disk would kill the process later
            return np.asarray(np.memmap(file, dtype, "r+", shape=shape))
    except OSError as error:
        raise FileError(
            f"{folder}: no room for {readable(size)} that do not fit into memory ({error.strerror}); expected a disk "
            "with more, which TMPDIR names"
        ) from error
