"""Who does the work of a pass: threads here unless ``using`` names somebody else."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from numpy.typing import NDArray

from isch.compute.passes import Job, P
from isch.compute.threads import parallel
from isch.features import Features


class Executor(ABC):
    """Runs the blocks of a pass. Results come in the order of the blocks, each with its number of rows."""

    @abstractmethod
    def parts(self, job: Job[P]) -> Iterator[tuple[int, P]]:
        """The result of each block."""

    def totals(self, job: Job[P]) -> Iterator[tuple[int, P]]:
        """Results of a reduction: those of blocks, or of runs of blocks that were combined where they were made."""
        return self.parts(job)


class Threads(Executor):
    """All cores of this machine. The calling thread reads ahead; every block is handled by one thread."""

    def parts(self, job: Job[P]) -> Iterator[tuple[int, P]]:
        return parallel(job.on, job.features.batches(job.rows))


_threads = Threads()
_executor: ContextVar[Executor] = ContextVar("isch_executor", default=_threads)


@contextmanager
def using(executor: Executor) -> Iterator[None]:
    """Passes over features that are made inside this block are run by ``executor``."""
    token = _executor.set(executor)
    try:
        yield
    finally:
        _executor.reset(token)


def executor_for(rows: Features | NDArray[Any]) -> Executor:
    """The executor in use; arrays are here, and so is their work."""
    return _executor.get() if isinstance(rows, Features) else _threads
