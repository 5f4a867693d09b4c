"""Forks among threads: a child process has only the thread that forked, and every lock as it was at that moment.

``Lock`` is free in the child, whoever held it. ``Gate`` is for what cannot be freed from outside, such as the mutexes
of a C library: a fork waits until no other thread is inside. A fork also waits while Numba compiles in another thread.
"""

import concurrent.futures.thread  # noqa: F401 (see the end of this file)
import logging  # noqa: F401
import os
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any


class Lock:
    """A ``threading.Lock`` that is free in a forked child, whichever thread held it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Forget who holds it."""
        self._lock = threading.Lock()


class Gate:
    """Lets any number of threads in, and holds a fork back until all others are out."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = Counter[int]()  # thread → how many times it entered
        self._forking: int | None = None  # the thread that is about to fork
        _gates.add(self)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Be inside; threads wait here while another one forks."""
        me = threading.get_ident()
        with self._changed:
            while self._forking not in (None, me) and not self._inside[me]:
                self._changed.wait()
            self._inside[me] += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside[me] -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Wait until no other thread is inside, and let none in."""
        me = threading.get_ident()
        with self._changed:
            self._forking = me
            while any(count for thread, count in self._inside.items() if thread != me):
                self._changed.wait()

    def open(self) -> None:
        """Let threads in again."""
        with self._changed:
            self._forking = None
            self._changed.notify_all()

    def renew(self) -> None:
        """Forget all threads except the one that the child has."""
        me = threading.get_ident()
        self._changed, self._forking = threading.Condition(), None
        self._inside = Counter({me: self._inside[me]})


_locks: weakref.WeakSet[Lock] = weakref.WeakSet()
_gates: weakref.WeakSet[Gate] = weakref.WeakSet()
_mine = threading.local()  # what the thread that forks has taken

importing = Gate()  # for imports at first use: the child cannot import a module that another thread was importing


def _compiler_lock() -> Any:
    """Numba's lock, if it is loaded: a child forked while another thread compiles could never compile itself."""
    return getattr(sys.modules.get("numba.core.compiler_lock"), "global_compiler_lock", None)


def _before() -> None:
    for gate in list(_gates):
        gate.close()
    _mine.compiling = _compiler_lock()
    if _mine.compiling is not None:
        _mine.compiling.acquire()


def _release() -> None:
    if _mine.compiling is not None:
        _mine.compiling.release()


def _in_parent() -> None:
    _release()
    for gate in list(_gates):
        gate.open()


def _in_child() -> None:
    _release()
    for lock in list(_locks):
        lock.renew()
    for gate in list(_gates):
        gate.renew()


# Hooks run in the reverse order of their registration. The first two modules above hold locks of their own during a
# fork, which threads that we wait for may need: they must be registered before us.
if hasattr(os, "register_at_fork"):  # not on Windows, where processes do not fork
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
