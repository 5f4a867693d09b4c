"""Progress at the command line, on stderr: one bar and the stages below it on a terminal, plain lines elsewhere."""

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
PARTS = 100  # of the bar of all stages


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
    """A line for all stages, where they were planned, and one per stage: the one at work and the last few.

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
        self._whole: Any = None
        self._display.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._display.stop()

    @contextmanager
    def task(self, label: str, total: int, unit: str) -> Iterator[progress.Advance]:
        self._show_whole()
        stage = self._display.add_task(label, total=total or None, unit=unit, state="")
        clock = Clock(total)

        def advance(n: int) -> None:
            clock.advance(n)
            self._display.update(stage, advance=n, state=clock.state(unit))
            self._show_whole()

        try:
            yield advance
        finally:
            self._display.update(stage, total=clock.done, state=f"in {readable(clock.seconds)}")
            self._show_whole()
            self._finished.append(stage)
            while len(self._finished) > KEPT_STAGES:
                self._display.remove_task(self._finished.popleft())

    def _show_whole(self) -> None:
        """The first line: all stages together, where they were planned."""
        plan = progress.whole()
        if plan is None:
            return
        if self._whole is None:
            self._whole = self._display.add_task("all stages", total=PARTS, unit="%", state="")
        left = f"{readable(plan.seconds_left)} left"
        self._display.update(self._whole, completed=int(PARTS * plan.fraction), state=left)


class Lines:
    """A plain line now and then; nothing for work that is over before the first is due."""

    def __init__(self) -> None:
        self._said = time.monotonic()

    @contextmanager
    def task(self, label: str, total: int, unit: str) -> Iterator[progress.Advance]:
        clock = Clock(total)

        def advance(n: int) -> None:
            clock.advance(n)
            if self._due():
                plan, of = progress.whole(), f" of {total}" if total else ""
                whole = f"{plan.fraction:.0%} of all, {readable(plan.seconds_left)} left; " if plan else ""
                sys.stderr.write(f"{whole}{label}: {clock.done}{of} {unit or 'steps'}, {clock.state(unit)}\n")

        yield advance

    def _due(self) -> bool:
        due = time.monotonic() >= self._said + LINE_SECONDS
        if due:
            self._said = time.monotonic()
        return due


class JsonLines(Lines):
    """A line of JSON when a stage begins and ends, and now and then between."""

    @contextmanager
    def task(self, label: str, total: int, unit: str) -> Iterator[progress.Advance]:
        clock = Clock(total)

        def say(event: str) -> None:
            line = {"event": event, "stage": label, "done": clock.done, "total": total or None, "unit": unit or "steps"}
            line["seconds"] = round(clock.seconds, 3)
            plan = progress.whole()
            if plan is not None:
                line |= {"overall": round(plan.fraction, 4), "seconds_left": round(plan.seconds_left, 1)}
            sys.stderr.write(json.dumps(line, ensure_ascii=False) + "\n")

        def advance(n: int) -> None:
            clock.advance(n)
            if self._due():
                say("progress")

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
        """Speed and time left, in words; without the latter where a plan says when all is done."""
        rate = f"{self.done / max(self.seconds, 1e-3):.3g} {unit or 'steps'}/s"
        if not self.total or not self.done or progress.whole() is not None:
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
