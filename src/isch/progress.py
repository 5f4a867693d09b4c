"""Progress of long work: silent unless somebody listens.

Library code says ``with progress.task("k-means", total) as advance: ... advance(1)``; a program that wants to show
it wraps the call in ``with progress.listen(reporter)``.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Protocol

Advance = Callable[[int], None]


class Reporter(Protocol):
    """Something that shows tasks: a bar, a log line."""

    def task(self, label: str, total: int, unit: str) -> AbstractContextManager[Advance]: ...


_listener: ContextVar[Reporter | None] = ContextVar("isch_progress", default=None)


@contextmanager
def listen(reporter: Reporter) -> Iterator[None]:
    """Send progress made inside this block to ``reporter``."""
    token = _listener.set(reporter)
    try:
        yield
    finally:
        _listener.reset(token)


def task(label: str, total: int, unit: str = "") -> AbstractContextManager[Advance]:
    """A piece of work of ``total`` steps; yields the function that advances it."""
    reporter = _listener.get()
    return nullcontext(_ignore) if reporter is None else reporter.task(label, total, unit)


def _ignore(_: int) -> None:
    pass
