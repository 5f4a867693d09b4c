"""Passes on a Dask cluster: workers read the blocks, and only results travel.

A job is sent to the workers once. Each task does a run of blocks. Tasks depend on their input alone, so one whose
worker is lost is done again by another. Totals are combined on the workers, in the tree of ``totals.py``: the outcome
is the same as that of threads here, to the last bit where matrix products round alike.
"""

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any, cast

from isch.compute import totals
from isch.compute.blas import single_threaded_blas
from isch.compute.connection import check_workers, translate_errors
from isch.compute.executors import Executor, Threads
from isch.compute.passes import Job, P, Reduction, T
from isch.compute.threads import alone
from isch.errors import ClusterError, FileError, FormatError
from isch.features.arrays import on_a_worker
from isch.progress import Advance

AHEAD = 3  # tasks per thread of the cluster that are handed in before the first is done
SENDINGS = 5  # of one job, which is lost when all workers that hold it die at once

Span = tuple[int, int]


class Cluster(Executor):
    """The workers of a Dask cluster. Rows that are in memory here are worked on here.

    Parameters
    ----------
    client : distributed.Client
        The connection to the cluster.

    Raises
    ------
    ClusterError
        There are no workers, or some have another version of isch.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        check_workers(client)

    def parts(self, job: Job[P]) -> Iterator[tuple[int, P]]:
        if job.features.here:
            yield from Threads().parts(job)
            return
        for results in self.map(_parts, job, list(job.spans(totals.run_blocks(job)))):
            yield from results

    def total(self, job: Job[T], work: Reduction[T], advance: Advance) -> T:
        if job.features.here:
            return super().total(job, work, advance)
        for _ in range(SENDINGS):
            try:
                return self._total(job, work, advance)
            except CancelledError:
                advance = _ignore  # what is done again was counted already
        raise _lost()

    def map(self, function: Callable[[Any, Any], Any], value: Any, items: Sequence[Any]) -> Iterator[Any]:
        """``function(value, item)`` for each item, on the workers, in order.

        Parameters
        ----------
        function : callable
            Gives the same whenever it is called with the same arguments.
        value : object
            Is sent to the workers once.
        items : sequence
            Small; one task is made of each.
        """
        done = 0
        for _ in range(SENDINGS):
            try:
                for result in self._results(function, value, items[done:]):
                    yield result
                    done += 1
                return
            except CancelledError:
                continue
        raise _lost()

    def _total(self, job: Job[T], work: Reduction[T], advance: Advance) -> T:
        with translate_errors(self.client), _Sent(self.client, job) as sent:
            runs = list[Any]()
            for count, run in self._finished(sent, list(job.spans(totals.run_blocks(job)))):
                runs.append(run)
                advance(count)
            parts: list[T] = self.client.gather(sent.tree(runs))
        return totals.combined(work, iter(parts))

    def _finished(self, sent: "_Sent", spans: list[Span]) -> Iterator[tuple[int, Any]]:
        """(number of rows, task) of each run when it is done; its result stays where it is."""
        waiting = deque[tuple[int, Any]]()
        ahead = self._ahead()
        for start, stop in spans:
            waiting.append((stop - start, sent.submit(_run, (start, stop))))
            if len(waiting) > ahead:
                yield _done(waiting.popleft())
        while waiting:
            yield _done(waiting.popleft())

    def _results(self, function: Callable[[Any, Any], Any], value: Any, items: Sequence[Any]) -> Iterator[Any]:
        with translate_errors(self.client), _Sent(self.client, value) as sent:
            waiting = deque[Any]()
            ahead = self._ahead()
            for item in items:
                waiting.append(sent.submit(function, item))
                if len(waiting) > ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def n_threads(self) -> int:
        threads: dict[str, int] = self.client.nthreads()
        return max(1, sum(threads.values()))

    def _ahead(self) -> int:
        return AHEAD * self.n_threads()


class _Sent:
    """A value on the workers, and the tasks that use it, which are called off at the end if they are not done."""

    def __init__(self, client: Any, value: Any) -> None:
        self._client = client
        self._value = _scattered(client, value)
        self._tasks: weakref.WeakSet[Any] = weakref.WeakSet()

    def __enter__(self) -> "_Sent":
        return self

    def __exit__(self, *_: object) -> None:
        if self._client.status == "running":
            self._client.cancel([task for task in self._tasks if not task.done()])

    def submit(self, function: Callable[[Any, Any], Any], item: Any, priority: int = 0) -> Any:
        """A task; one of higher priority is done before others that could be done."""
        task = self._client.submit(_restrained, function, self._value, item, pure=False, priority=priority)
        self._tasks.add(task)
        return task

    def tree(self, runs: list[Any]) -> list[Any]:
        """Few totals, from those of all runs."""
        level = 1
        while len(runs) > totals.FAN:
            fans = [runs[i : i + totals.FAN] for i in range(0, len(runs), totals.FAN)]
            runs = [self.submit(_combined, fan, level) for fan in fans]
            level += 1
        return runs


def _scattered(client: Any, value: Any) -> Any:
    """A value on one worker, from which others get it with their first task; sent again if that worker dies meanwhile.

    Sending it to all at once would wait for ever for a worker that dies while it is sent.
    """
    for _ in range(SENDINGS):
        try:
            return client.scatter([value], hash=False)[0]
        except (OSError, TimeoutError):
            if client.status != "running":
                raise
    raise _lost()


def active() -> Cluster | None:
    """The cluster of the active Dask client, if there is one and this is not one of its own tasks."""
    from distributed import Client

    try:
        client = None if on_a_worker() else Client.current()
    except ValueError:
        return None
    if client is None or client.asynchronous:
        return None
    if client not in _known:
        _known[client] = Cluster(client)
    return _known[client]


_known: "weakref.WeakKeyDictionary[Any, Cluster]" = weakref.WeakKeyDictionary()


def _restrained(function: Callable[[Any, Any], Any], value: Any, item: Any) -> Any:
    """What a task does: in one thread, with single-threaded BLAS, as the threads of a pass have it."""
    try:
        with alone(), single_threaded_blas():
            return function(value, item)
    except FormatError:
        raise
    except FileError as error:
        from distributed import get_worker

        raise FileError(f"{error} (on the worker {get_worker().address}, which must see the same files)") from None


def _parts(job: Job[P], span: Span) -> list[tuple[int, P]]:
    return list(job.read(span))


def _run(job: Job[T], span: Span) -> T:
    return _combined(job, (result for _, result in job.read(span)))


def _combined(job: Job[T], parts: Iterable[T]) -> T:
    return totals.combined(cast(Reduction[T], job.work), iter(parts))


def _done(waiting: tuple[int, Any]) -> tuple[int, Any]:
    """The same, when its task is done."""
    error = waiting[1].exception()
    if error is not None:
        raise error
    return waiting


def _lost() -> ClusterError:
    return ClusterError(f"the cluster lost all of its workers {SENDINGS} times in one pass; expected some to stay")


def _ignore(_: int) -> None:
    """Progress that was counted already."""
