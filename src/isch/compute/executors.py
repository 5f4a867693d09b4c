"""What runs a pass: threads here, the workers of an active Dask client, or the executor that ``using`` names."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from numpy.typing import NDArray

from isch.compute import totals
from isch.compute.passes import Job, P, Reduction, T
from isch.compute.threads import n_threads, parallel
from isch.features import Features
from isch.progress import Advance


class Executor(ABC):
    """Runs the blocks of a pass."""

    @abstractmethod
    def parts(self, job: Job[P]) -> Iterator[tuple[int, P]]:
        """The number of rows and the result of each block, in the order of the blocks."""

    def total(self, job: Job[T], work: Reduction[T], advance: Advance) -> T:
        """The total of a reduction ``work``, the pass of ``job``, combined as ``totals.py`` says."""

        def results() -> Iterator[T]:
            for count, result in self.parts(job):
                advance(count)
                yield result

        return totals.total(job, work, results())

    def n_threads(self) -> int:
        """How many blocks are worked on at once."""
        return n_threads()


class Threads(Executor):
    """All cores of this machine. The calling thread reads ahead; every block is handled by one thread."""

    def parts(self, job: Job[P]) -> Iterator[tuple[int, P]]:
        return parallel(job.on, job.features.batches(job.rows))


_threads = Threads()
_executor: ContextVar[Executor | None] = ContextVar("isch_executor", default=None)


@contextmanager
def using(executor: Executor) -> Iterator[None]:
    """Passes over features that are made inside this block are run by ``executor``."""
    token = _executor.set(executor)
    try:
        yield
    finally:
        _executor.reset(token)


def executor_for(rows: Features | NDArray[Any]) -> Executor:
    """The executor in use. Rows that are in memory here are worked on here, unless ``using`` says otherwise."""
    if not isinstance(rows, Features):
        return _threads
    chosen = _executor.get()
    if chosen is None and not rows.here and "distributed" in sys.modules:
        from isch.compute.cluster import active

        chosen = active()
    return chosen or _threads
