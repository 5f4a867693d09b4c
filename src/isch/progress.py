"""Progress of long work: silent unless somebody listens.

Library code says ``with progress.task("k-means", total) as advance: ... advance(1)``; a program that wants to show
it wraps the call in ``with progress.listen(reporter)``. Work that knows its tasks beforehand says so by ``planned``;
then ``whole()`` tells how far all of it has come, and how long it still takes.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Protocol

PRIOR_SECONDS = 2  # how long the planned times are believed before the clock is

Advance = Callable[[int], None]


class Reporter(Protocol):
    """Something that shows tasks: a bar, a log line."""

    def task(self, label: str, total: int, unit: str) -> AbstractContextManager[Advance]: ...


class Whole:
    """How far work has come that was planned as a list of stages.

    A stage is over when its task ends, or when a later one begins: a stage whose result was stored earlier is passed
    over, and says nothing about the speed. Tasks inside a stage belong to it; tasks that were not planned do not count.

    Parameters
    ----------
    stages : iterable of (str, float)
        The label of each task in the order they come, and about how many seconds it takes.
    """

    def __init__(self, stages: Iterable[tuple[str, float]]) -> None:
        self._stages = list(stages)
        self._total = sum(seconds for _, seconds in self._stages)
        self._next, self._passed, self._worked, self._part = 0, 0.0, 0.0, 0.0
        self._inside = False
        self._start = time.monotonic()

    @property
    def fraction(self) -> float:
        """The share of the work that is done, from 0 to 1."""
        return (self._passed + self._worked + self._part) / self._total if self._total else 0.0

    @property
    def seconds_left(self) -> float:
        """How long the rest takes at the speed so far; at the planned speed in the beginning."""
        worked, elapsed = self._worked + self._part, time.monotonic() - self._start
        return max(0.0, self._total - self._passed - worked) * (elapsed + PRIOR_SECONDS) / (worked + PRIOR_SECONDS)

    @contextmanager
    def stage(self, label: str, total: int) -> Iterator[Advance]:
        """Count the steps of a task."""
        number = next((i for i in range(self._next, len(self._stages)) if self._stages[i][0] == label), None)
        if self._inside or number is None:
            yield _ignore
            return
        seconds, done = self._stages[number][1], 0
        self._passed += sum(skipped for _, skipped in self._stages[self._next : number])
        self._next, self._inside = number + 1, True

        def advance(n: int) -> None:
            nonlocal done
            done += n
            self._part = seconds * min(1.0, done / total) if total else 0.0

        try:
            yield advance
        finally:
            self._inside, self._part = False, 0.0
            self._worked += seconds


_listener: ContextVar[Reporter | None] = ContextVar("isch_progress", default=None)
_whole: ContextVar[Whole | None] = ContextVar("isch_progress_whole", default=None)
_stage_label: ContextVar[str] = ContextVar("isch_progress_stage", default="")


@contextmanager
def listen(reporter: Reporter) -> Iterator[None]:
    """Send progress made inside this block to ``reporter``."""
    token = _listener.set(reporter)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def planned(stages: Iterable[tuple[str, float]]) -> Iterator[None]:
    """Tasks inside this block are stages of one whole (``Whole``); within another plan, they stay as they are there."""
    if _listener.get() is None or _whole.get() is not None:
        yield
        return
    token = _whole.set(Whole(stages))
    try:
        yield
    finally:
        _whole.reset(token)


@contextmanager
def stage(label: str) -> Iterator[None]:
    """Give a label to the tasks inside this block that have none of their own."""
    token = _stage_label.set(label)
    try:
        yield
    finally:
        _stage_label.reset(token)


def listening() -> bool:
    """Whether somebody is told."""
    return _listener.get() is not None


def whole() -> Whole | None:
    """The planned work that is under way."""
    return _whole.get()


def task(label: str, total: int, unit: str = "") -> AbstractContextManager[Advance]:
    """Begin a piece of work of ``total`` steps; yields the function that advances it.

    Without a label, it is the work of the stage in which it begins; inside of that, or without a stage, it is silent.
    """
    reporter = _listener.get()
    label = label or _stage_label.get()
    if reporter is None or not label:
        return nullcontext(_ignore)
    return _shown(reporter, label, total, unit)


@contextmanager
def _shown(reporter: Reporter, label: str, total: int, unit: str) -> Iterator[Advance]:
    """A task that is also counted in the whole, before it is shown."""
    plan = _whole.get()
    counted = nullcontext(_ignore) if plan is None else plan.stage(label, total)
    with reporter.task(label, total, unit) as show, counted as count, stage(""):

        def advance(n: int) -> None:
            count(n)
            show(n)

        yield advance


def _ignore(_: int) -> None:
    pass
