"""Passes over features: blocks with fixed borders, worked on by all cores, results in order.

Each block is handled by one thread with single-threaded BLAS, and results are combined in the order of the blocks,
so the outcome does not depend on how many threads there are.
"""

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from isch import progress
from isch.errors import InputError, ParameterError
from isch.features import Block, Features, check_finite, dense, finite

T = TypeVar("T")
R = TypeVar("R")


def n_threads() -> int:
    """Threads to use: the environment's ISCH_NUM_THREADS, else the cores this process may run on."""
    asked = os.environ.get("ISCH_NUM_THREADS", "")
    if asked and not (asked.isdecimal() and int(asked) > 0):
        raise ParameterError(f"ISCH_NUM_THREADS must be a positive number; got {asked!r}")
    return int(asked) if asked else len(os.sched_getaffinity(0))


def block_rows(n_features: int) -> int:
    """Rows in a block: enough to keep a matrix product busy, few enough to stay near the cache."""
    return 1024 if n_features <= 32_768 else 512


class _Pool:
    """One thread pool a process, made again after a fork."""

    def __init__(self) -> None:
        self._key: tuple[int, int] | None = None
        self._lock = threading.Lock()

    def get(self) -> ThreadPoolExecutor:
        key = (os.getpid(), n_threads())
        with self._lock:
            if self._key != key:
                self._executor = ThreadPoolExecutor(key[1], thread_name_prefix="isch")
                self._key = key
            return self._executor


_pool = _Pool()
os.register_at_fork(after_in_child=_pool.__init__)  # type: ignore[misc]


class _Blas:
    """Single-threaded BLAS while any caller wants it; counts them, because the setting is global to the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._limits: Any = None
        self._libraries: Any = None
        self._n_modules = 0

    @contextmanager
    def single(self) -> Iterator[None]:
        with self._lock:
            if self._users == 0:
                self._limits = self._loaded().limit(limits=1, user_api="blas")
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._limits.restore_original_limits()

    def _loaded(self) -> Any:
        """The libraries of this process; looked for again, which takes milliseconds, only after further imports."""
        from threadpoolctl import ThreadpoolController

        if len(sys.modules) != self._n_modules:
            self._libraries = ThreadpoolController()
            self._n_modules = len(sys.modules)
        return self._libraries


_blas = _Blas()
os.register_at_fork(after_in_child=_blas.__init__)  # type: ignore[misc]
single_threaded_blas = _blas.single


def parallel(function: Callable[[T], R], items: Iterable[T], *, blas: bool = True) -> Iterator[R]:
    """``map(function, items)`` on all cores, in order, holding only a few items at a time.

    ``blas=False`` promises that ``function`` calls no BLAS, and saves the milliseconds it takes to restrain it.
    """
    pool, waiting = _pool.get(), deque[Future[R]]()
    with single_threaded_blas() if blas else nullcontext():
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > 2 * n_threads():
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def together(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """``list(map(function, items))`` on all cores at once, without BLAS; the caller works too, and never waits in vain.

    What no thread of the pool has begun when the caller is free, the caller does; so it may be called from the pool.
    """
    pool = _pool.get()
    others = [pool.submit(function, item) for item in items[1:]]
    try:
        first = function(items[0])
        rest = [
            function(item) if other.cancel() else other.result()
            for item, other in zip(reversed(items[1:]), reversed(others), strict=True)
        ]
        return [first, *reversed(rest)]
    finally:
        for other in others:
            other.cancel()


def map_blocks(features: Features, function: Callable[[Block], R], label: str, rows: int | None = None) -> Iterator[R]:
    """``function`` of each block of ``features``, in order; refuses NaN and infinity."""

    def checked(item: tuple[int, Block]) -> tuple[int, R]:
        _, block = item
        if not finite(block):
            check_finite(features)
        return block.shape[0], function(block)

    with progress.task(label, len(features), "rows") as advance:
        for count, result in parallel(checked, features.batches(rows or block_rows(features.shape[1]))):
            advance(count)
            yield result


def mean(features: Features) -> NDArray[np.float64]:
    """The mean row."""
    total = np.zeros(features.shape[1])
    for part in map_blocks(features, dense_sum, "mean"):
        total += part
    return total / len(features)


def dense_sum(block: Block) -> NDArray[np.float64]:
    """The sum of the rows of a block, in double precision."""
    return np.asarray(block.sum(axis=0, dtype=np.float64)).ravel()


def sample(features: Features, n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """At most ``n`` rows drawn without replacement, sorted; all rows if there are no more."""
    if n >= len(features):
        return np.arange(len(features))
    return np.sort(rng.choice(len(features), n, replace=False))


def load(features: Features, rows: NDArray[np.intp], mean: NDArray[np.float64]) -> NDArray[np.float32]:
    """The given rows, centred, in memory."""
    out = np.empty((len(rows), features.shape[1]), np.float32)
    overflow = f"{features.where}: values exceed the range of single precision (3.4e38); expected smaller ones"
    step = block_rows(features.shape[1])
    for start in range(0, len(rows), step):
        block = dense(features.take(rows[start : start + step]), np.float64)
        with np.errstate(over="ignore"):
            np.subtract(block, mean, out=out[start : start + step], casting="same_kind")
        if not finite(out[start : start + step]):
            raise InputError(overflow)
    return out
