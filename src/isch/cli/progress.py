"""Progress at the command line: bars on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from isch import progress

LINE_SECONDS = 10  # between two plain lines of one task


def shown() -> AbstractContextManager[None]:
    """Show the progress of the work inside this block on stderr."""
    return progress.listen(Bars() if sys.stderr.isatty() else Lines())


class Bars:
    """Rich progress bars."""

    @contextmanager
    def task(self, label: str, total: int, unit: str) -> Iterator[progress.Advance]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description:>24}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
            handle = bars.add_task(label, total=total or None, rate="")
            start, done = time.monotonic(), 0

            def advance(n: int) -> None:
                nonlocal done
                done += n
                bars.update(handle, advance=n, rate=_rate(done, start, unit))

            yield advance


class Lines:
    """A plain line now and then; nothing for work that is over before the first is due."""

    @contextmanager
    def task(self, label: str, total: int, unit: str) -> Iterator[progress.Advance]:
        start = time.monotonic()
        done, due = 0, start + LINE_SECONDS

        def advance(n: int) -> None:
            nonlocal done, due
            done += n
            now = time.monotonic()
            if now >= due:
                left = f", {(now - start) / done * (total - done):.0f} s left" if total else ""
                of = f" of {total}" if total else ""
                sys.stderr.write(f"{label}: {done}{of} {unit}{left}, {_rate(done, start, unit)}\n")
                due = now + LINE_SECONDS

        yield advance


def _rate(done: int, start: float, unit: str) -> str:
    return f"{done / max(time.monotonic() - start, 1e-3):.3g} {unit or 'steps'}/s"
