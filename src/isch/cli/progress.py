"""Progress at the command line, on stderr: one display of all stages on a terminal, plain lines elsewhere."""

import json
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from isch import progress

LINE_SECONDS = 10  # between two plain lines of one stage
KEPT_STAGES = 4  # finished ones that stay on the screen


@contextmanager
def shown(log_json: bool = False) -> Iterator[None]:
    """Show the progress of the work inside this block: as a display, as plain lines, or as lines of JSON."""
    if log_json:
        with progress.listen(JsonLines()):
            yield
    elif sys.stderr is not None and sys.stderr.isatty():
        with Bars() as bars, progress.listen(bars):
            yield
    else:
        with progress.listen(Lines()):
            yield


class Bars:
    """A line per stage: the one at work with its bar and the time it still takes, the last few with the time they took.

    Nothing of it stays on the screen when the work is done.
    """

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (
            TextColumn("{task.description:>24}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[unit]}"),
            TextColumn("{task.fields[state]}"),
        )
        here = sys.stdout is not None and sys.stdout.isatty()  # else what is printed goes elsewhere, past the display
        self._display = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=here)
        self._finished: deque[Any] = deque()
        self._display.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._display.stop()

    @contextmanager
    def task(self, label: str, total: int, unit: str) -> Iterator[progress.Advance]:
        stage = self._display.add_task(label, total=total or None, unit=unit, state="")
        clock = Clock(total)

        def advance(n: int) -> None:
            clock.advance(n)
            self._display.update(stage, advance=n, state=clock.state(unit))

        try:
            yield advance
        finally:
            self._display.update(stage, total=clock.done, state=f"in {readable(clock.seconds)}")
            self._finished.append(stage)
            while len(self._finished) > KEPT_STAGES:
                self._display.remove_task(self._finished.popleft())


class Lines:
    """A plain line now and then; nothing for a stage that is over before the first is due."""

    @contextmanager
    def task(self, label: str, total: int, unit: str) -> Iterator[progress.Advance]:
        clock = Clock(total)
        due: float = LINE_SECONDS

        def advance(n: int) -> None:
            nonlocal due
            clock.advance(n)
            if clock.seconds >= due:
                of = f" of {total}" if total else ""
                sys.stderr.write(f"{label}: {clock.done}{of} {unit or 'steps'}, {clock.state(unit)}\n")
                due = clock.seconds + LINE_SECONDS

        yield advance


class JsonLines:
    """A line of JSON when a stage begins and ends, and now and then between."""

    @contextmanager
    def task(self, label: str, total: int, unit: str) -> Iterator[progress.Advance]:
        clock = Clock(total)
        due: float = LINE_SECONDS

        def say(event: str) -> None:
            line = {"event": event, "stage": label, "done": clock.done, "total": total or None, "unit": unit or "steps"}
            sys.stderr.write(json.dumps({**line, "seconds": round(clock.seconds, 3)}, ensure_ascii=False) + "\n")

        def advance(n: int) -> None:
            nonlocal due
            clock.advance(n)
            if clock.seconds >= due:
                say("progress")
                due = clock.seconds + LINE_SECONDS

        say("begin")
        yield advance
        say("end")


class Clock:
    """How far a stage has come, and how long it still takes."""

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self._start = time.monotonic()

    def advance(self, n: int) -> None:
        """Count steps that were made."""
        self.done += n

    @property
    def seconds(self) -> float:
        """Since the stage began."""
        return time.monotonic() - self._start

    def state(self, unit: str) -> str:
        """Speed and time left, in words."""
        rate = f"{self.done / max(self.seconds, 1e-3):.3g} {unit or 'steps'}/s"
        if not self.total or not self.done:
            return rate
        left = self.seconds / self.done * max(0, self.total - self.done)
        return f"{rate}, {readable(left)} left"


def readable(seconds: float) -> str:
    """A time as people say it: 48 s, 3 min 20 s, 2 h 05 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
