"""Work divided among threads, with results in order. It may be nested, abandoned halfway, and used after a fork."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from isch.compute.blas import single_threaded_blas
from isch.errors import ParameterError

_alone: ContextVar[bool] = ContextVar("isch_alone", default=False)
_most: ContextVar[int | None] = ContextVar("isch_most_threads", default=None)

T = TypeVar("T")
R = TypeVar("R")


def n_threads() -> int:
    """Threads to use: ISCH_NUM_THREADS in the environment, otherwise all cores this process may use; ``alone``, 1.

    Inside ``at_most`` there are no more than it says.
    """
    if _alone.get():
        return 1
    asked = os.environ.get("ISCH_NUM_THREADS", "")
    if asked and not (asked.isdecimal() and int(asked) > 0):
        raise ParameterError(f"ISCH_NUM_THREADS must be a positive number; got {asked!r}")
    count = int(asked) if asked else _cores()
    return min(count, _most.get() or count)


@contextmanager
def alone() -> Iterator[None]:
    """Work inside this block is done by the calling thread: others like it are at work beside it."""
    token = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(token)


@contextmanager
def at_most(count: int) -> Iterator[None]:
    """Passes inside this block use at most so many threads."""
    token = _most.set(count)
    try:
        yield
    finally:
        _most.reset(token)


def parallel(function: Callable[[T], R], items: Iterable[T], *, blas: bool = True, ahead: int = 2) -> Iterator[R]:
    """``map(function, items)`` on all cores, in order, holding only a few items at a time.

    Parameters
    ----------
    function : callable
        Runs in several threads at once, each with single-threaded BLAS. If it calls ``parallel`` itself, the inner
        work is done by its own thread.
    items : iterable
        Read by the calling thread.
    blas : bool
        False promises that ``function`` calls no BLAS, and saves the microseconds it takes to restrain it.
    ahead : int
        How many items per thread may wait for the caller, who keeps the cores busy by it while doing something else.

    Yields
    ------
    object
        The results, in the order of the items.
    """
    work = _Restrained(function) if blas else function
    if _pool.is_mine() or _alone.get():
        yield from map(work, items)
        return
    pool, waiting = _pool.get(), deque[Future[R]]()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > ahead * n_threads():
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def together(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """``list(map(function, items))`` on all cores at once, without BLAS; the caller works too.

    The caller does whatever no other thread has begun, so this may be called from within itself.
    """
    if _alone.get():
        return [function(item) for item in items]
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


class _Restrained:
    """A function that runs with single-threaded BLAS.

    The limit is held by each call, not by the loop around the calls: a generator that nobody reads to its end would
    keep the whole process at one thread.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def __call__(self, item: Any) -> Any:
        with single_threaded_blas():
            return self._function(item)


class _Pool:
    """One thread pool per process, made again after a fork or when the number of threads changes."""

    def __init__(self) -> None:
        self._key: tuple[int, int] | None = None
        self._lock = threading.Lock()
        self._worker = threading.local()

    def get(self) -> ThreadPoolExecutor:
        key = (os.getpid(), n_threads())
        with self._lock:
            if self._key != key:
                self._executor = ThreadPoolExecutor(key[1], "isch", self._mark)
                self._key = key
            return self._executor

    def is_mine(self) -> bool:
        """Whether the calling thread belongs to the pool: it must not wait for the others, who may wait for it."""
        return getattr(self._worker, "marked", False)

    def _mark(self) -> None:
        self._worker.marked = True


def _cores() -> int:
    """The cores this process may run on; all cores where the system does not say."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    count: Callable[[], int | None] = getattr(os, "process_cpu_count", os.cpu_count)
    return count() or 1


_pool = _Pool()
if hasattr(os, "register_at_fork"):  # not on Windows, where processes do not fork
    os.register_at_fork(after_in_child=_pool.__init__)  # type: ignore[misc]
