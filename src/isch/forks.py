"""Forks among threads: a child process has the thread that forked alone, and every lock as it was at that moment.

``Lock`` is free in the child whoever held it. ``Gate`` is for what cannot be set free from outside, as the mutexes of a
C library: a fork waits until no other thread is inside. ``hold`` makes a fork wait for a lock of another package.
"""

import os
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol


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
        """Forget all threads, of which the child has but one."""
        me = threading.get_ident()
        self._changed, self._forking = threading.Condition(), None
        self._inside = Counter({me: self._inside[me]})


class Acquirable(Protocol):
    """A lock of whatever kind."""

    def acquire(self) -> object: ...
    def release(self) -> object: ...


def hold(lock: Acquirable) -> None:
    """Let the forking thread hold a lock during the fork, so that no other one does."""
    _held.append(lock)


_held: list[Acquirable] = []
_locks: weakref.WeakSet[Lock] = weakref.WeakSet()
_gates: weakref.WeakSet[Gate] = weakref.WeakSet()

importing = (
    Gate()
)  # for imports at first use: a module that another thread was importing cannot be imported in the child


def _before() -> None:
    for gate in list(_gates):
        gate.close()
    for lock in _held:
        lock.acquire()


def _in_parent() -> None:
    for lock in reversed(_held):
        lock.release()
    for gate in list(_gates):
        gate.open()


def _in_child() -> None:
    for held in reversed(_held):
        held.release()
    for lock in list(_locks):
        lock.renew()
    for gate in list(_gates):
        gate.renew()


if hasattr(os, "register_at_fork"):  # where there is no fork, nothing need be done
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
