"""Single-threaded matrix products: threads already share the blocks of a pass."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from isch import forks


class _Blas:
    """Counts who wants BLAS to use one thread, because the setting is global to the process."""

    def __init__(self) -> None:
        self._lock = forks.Lock()
        self._setting = forks.Gate()  # BLAS has a lock of its own, which a child must not inherit
        self._users = 0
        self._mine = threading.local()
        self._limits: Any = None
        self._libraries: Any = None
        self._n_modules = 0

    @contextmanager
    def single(self) -> Iterator[None]:
        """BLAS uses one thread inside this block; the last to leave restores the number of threads."""
        self._enter()
        try:
            yield
        finally:
            self._leave()

    def after_fork(self) -> None:
        """The child has only this thread; the others will never leave their blocks."""
        self._users = getattr(self._mine, "depth", 0)
        if self._users == 0 and self._limits is not None:
            self._release()

    def _enter(self) -> None:
        with self._setting.entered(), self._lock:
            if self._users == 0:
                libraries = self._loaded()
                _release_control(libraries)
                self._limits = libraries.limit(limits=1, user_api="blas")
            self._users += 1
        self._mine.depth = getattr(self._mine, "depth", 0) + 1

    def _leave(self) -> None:
        self._mine.depth -= 1
        with self._setting.entered(), self._lock:
            self._users -= 1
            if self._users == 0:
                self._release()

    def _release(self) -> None:
        _release_control(self._libraries)
        self._limits.restore_original_limits()
        self._limits = None
        _release_control(self._libraries)

    def _loaded(self) -> Any:
        """The libraries of this process. They are searched for, which takes milliseconds, only after new imports."""
        from threadpoolctl import ThreadpoolController

        if len(sys.modules) != self._n_modules:
            self._libraries = ThreadpoolController()
            self._n_modules = len(sys.modules)
        return self._libraries


def _release_control(libraries: Any) -> None:
    """Let any thread set the number of threads next: since 3.8, threadpoolctl obeys only one thread."""
    for library in libraries.lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


_blas = _Blas()
single_threaded_blas = _blas.single
if hasattr(os, "register_at_fork"):  # not on Windows, where processes do not fork
    os.register_at_fork(after_in_child=_blas.after_fork)
